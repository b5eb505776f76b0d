package controller

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// A full disk must not keep an operator from freeing it: a preallocated file beside the metadata log keeps room back for
// the records of DeleteTopics and of small AlterConfigs. It goes with the first entry that finds no room, and while it is
// gone nothing else is taken. It is made again once the disk has as much room as the log folders ask for.
const (
	reserveFile = ".tidemark-reserve"
	// reserveBytes is room for some ten thousand small entries and a new quorum state.
	reserveBytes = 4 << 20
	// enoughBytes, or enoughShare of the file system if that is less, must be free for everything to be taken again.
	enoughBytes = 64 << 20
	enoughShare = 100
	// smallAlteration bounds the settings of one request that is let at the reserve.
	smallAlteration = 16 << 10
)

// keepRoom makes the reserve.
func (c *Controller) keepRoom() error {
	total, err := c.o.FS.TotalBytes(c.dir)
	if err != nil {
		return err
	}
	f, err := c.o.FS.OpenFile(c.dir+"/"+reserveFile, vfs.Create)
	if err != nil {
		return err
	}
	return errors.Join(f.Preallocate(0, min(reserveBytes, total/enoughShare)), f.Close())
}

// giveUpRoom removes the reserve; false when it was gone already.
func (c *Controller) giveUpRoom() bool {
	if c.saving {
		return false
	}
	c.saving = true
	c.met.full.Set(1)
	if err := c.o.FS.Remove(c.dir + "/" + reserveFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.o.Logger.Warn("the room kept back for the metadata log cannot be given up", "folder", c.dir, "error", err)
		return false
	}
	c.o.Logger.Error("the disk of the metadata log is full: only what frees room (deleting topics and records, small changes of "+
		"settings) is taken until 1% or 64 MiB of it are free", "folder", c.dir)
	return true
}

// checkRoom takes everything again once there is room.
func (c *Controller) checkRoom() {
	if !c.saving {
		return
	}
	free, err := c.o.FS.FreeBytes(c.dir)
	total, err2 := c.o.FS.TotalBytes(c.dir)
	if err = errors.Join(err, err2); err == nil && free >= min(enoughBytes, total/enoughShare)+min(reserveBytes, total/enoughShare) {
		if err = c.keepRoom(); err == nil {
			c.saving = false
			if c.node != nil {
				c.met.full.Set(0)
			}
			c.o.Logger.Info("the disk of the metadata log has room again", "folder", c.dir, "freeBytes", free)
		}
	}
	if err != nil && !noRoom(err) {
		c.o.Logger.Warn("whether the metadata log's disk has room again is not known", "folder", c.dir, "error", err)
	}
}

// errSaving is the answer to what is not taken while the reserve is in use.
func (c *Controller) errSaving() error {
	return fmt.Errorf("%w: the disk of the broker's metadata log is full: until 1%% or 64 MiB of it are free, only deleting topics "+
		"or records and small changes of settings are taken", kafka.KafkaStorageError)
}

// serve decides and commits a round. When the disk turns out to be full the reserve is given up, and what frees room is
// decided once more, unless a part of the round has been committed.
func (c *Controller) serve(round []*request) error {
	before := c.Image()
	err := c.attempt(round)
	if !noRoom(err) || c.Image() != before || !c.giveUpRoom() {
		return err
	}
	return c.attempt(round)
}

func (c *Controller) attempt(round []*request) error {
	c.checkRoom()
	if err := c.leadAgain(); err != nil {
		return err
	}
	d := &decision{image: c.Image(), config: c.o.Config.Now(), newTopicID: newTopicID, bytes: c.imageBytes + c.sinceBytes}
	for _, r := range round {
		r.err = nil
		if c.saving && !r.frees {
			r.err = c.errSaving()
			continue
		}
		r.decide(d)
	}
	c.wantSize = d.full
	return c.commit(d)
}

// small says whether alterations may be written out of the reserve.
func small(alterations []ConfigAlteration) bool {
	n := 0
	for i := range alterations {
		n += len(alterations[i].Name)
		for _, change := range alterations[i].Changes {
			n += len(change.Key) + len(change.Value)
		}
	}
	return n <= smallAlteration
}
