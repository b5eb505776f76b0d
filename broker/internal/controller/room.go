package controller

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/tidemark/tidemark/core/kafka"
)

// errSync marks a failed fsync of the metadata log. It is never repeated, whatever its reason (BROKER 6).
var errSync = errors.New("sync the metadata log")

// noRoom reports whether an entry could not be written for want of room: nothing of it is in the log then.
func noRoom(err error) bool {
	return (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) && !errors.Is(err, errSync)
}

// lost judges why an entry was not committed. A full disk is no failed one: the requests are refused, and the Raft node,
// which believes that it holds the entry, is given up. leadAgain makes another from what is durable, so that what was
// refused never takes effect. Any other reason ends the controller.
func (c *Controller) lost(err error) error {
	if !noRoom(err) {
		return c.fail(err)
	}
	c.node = nil
	c.met.full.Set(1)
	if !c.full {
		c.full = true
		c.o.Logger.Error("the disk of the metadata log is full: what changes the cluster's metadata is refused until there is room", "folder", c.dir, "error", err)
	}
	return fmt.Errorf("%w: the disk of the broker's metadata log is full; free some room and try again: %w", kafka.KafkaStorageError, err)
}

// leadAgain makes this node the leader again after a full disk has cost it its place. It needs room for the new term.
func (c *Controller) leadAgain() error {
	if c.node != nil {
		return nil
	}
	if err := c.newNode(); err != nil {
		return c.fail(err)
	}
	if err := c.lead(); err != nil {
		return c.lost(err)
	}
	c.full = false
	if !c.saving {
		c.met.full.Set(0)
		c.o.Logger.Info("the metadata log has room again", "folder", c.dir)
	}
	return nil
}
