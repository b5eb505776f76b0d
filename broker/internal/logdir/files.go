package logdir

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/core/kafka"
)

// makeFolder makes a folder and its missing parents, durably: what is synced in a folder is lost with the folder's own entry.
func (r *dir) makeFolder(name string) error {
	if _, err := r.fs.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := path.Dir(name)
	if parent != name {
		if err := r.makeFolder(parent); err != nil {
			return err
		}
	}
	return errors.Join(r.fs.MkdirAll(name), r.fs.SyncDir(parent))
}

// readFile reads a small file whole; nil and no error when it is not there.
func (r *dir) readFile(name string) ([]byte, error) {
	f, err := r.fs.Open(path.Join(r.path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	n, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	if n == 0 {
		return b, nil
	}
	_, err = f.ReadAt(b, 0)
	return b, err
}

// writeFile replaces a file in one step, durable when it returns.
func (r *dir) writeFile(name string, b []byte) error {
	return r.writeFiles(true, file{name, b})
}

// file is a file of the folder and what it is to hold.
type file struct {
	name string
	data []byte
}

// writeFiles replaces files, each in one step, in their order. durable: all are on disk when it returns, by one sync of the
// folder.
func (r *dir) writeFiles(durable bool, files ...file) error {
	if durable { // what stands there already was written so
		files = slices.DeleteFunc(files, func(f file) bool {
			old, err := r.readFile(f.name)
			return err == nil && old != nil && bytes.Equal(old, f.data)
		})
	}
	if len(files) == 0 {
		return nil
	}
	for _, f := range files {
		if err := r.writeTemporary(f, durable); err != nil {
			return err
		}
	}
	for _, f := range files {
		to := path.Join(r.path, f.name)
		if err := r.fs.Rename(to+".tmp", to); err != nil {
			return err
		}
	}
	if !durable {
		return nil
	}
	return r.fs.SyncDir(r.path)
}

func (r *dir) writeTemporary(file file, durable bool) error {
	to := path.Join(r.path, file.name)
	f, err := r.fs.Create(to + ".tmp")
	if err != nil {
		return err
	}
	_, err = f.WriteAt(file.data, 0)
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = r.fs.Remove(to + ".tmp") // a full disk needs the room
		return fmt.Errorf("write %s: %w", to, err)
	}
	return nil
}

func (r *dir) removeFile(name string) error {
	err := r.fs.Remove(path.Join(r.path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readMeta reads meta.properties.
func (r *dir) readMeta() error {
	b, err := r.readFile(metaFile)
	if err != nil || b == nil {
		return err
	}
	props := map[string]string{}
	for line := range strings.SplitSeq(string(b), "\n") {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(k, "#") {
			props[k] = v
		}
	}
	where := path.Join(r.path, metaFile)
	if v := props["version"]; v != "1" {
		return fmt.Errorf("%s: version %q is not known (1 is); was the folder formatted by another program?", where, v)
	}
	if v := props["node.id"]; v != strconv.Itoa(int(r.d.o.NodeID)) {
		return fmt.Errorf("%s: the folder belongs to node.id %s, this broker is %d: give it its own log.dirs", where, v, r.d.o.NodeID)
	}
	r.cluster, r.id = props["cluster.id"], props["directory.id"]
	return nil
}

// adopt gives a new folder its identity.
func (r *dir) adopt(clusterID string) error {
	if r.cluster != "" {
		if r.cluster != clusterID {
			return fmt.Errorf("log folder %s belongs to cluster %s, not %s", r.path, r.cluster, clusterID)
		}
		if r.id != "" {
			return nil
		}
	}
	var id kafka.TopicID
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	r.cluster, r.id = clusterID, id.String()
	text := fmt.Sprintf("#\ncluster.id=%s\ndirectory.id=%s\nnode.id=%d\nversion=1\n", r.cluster, r.id, r.d.o.NodeID)
	return r.writeFile(metaFile, []byte(text))
}

// checkpointText is a file in Kafka's checkpoint format, version 0, while it is made: a line for each partition.
type checkpointText struct {
	lines []byte
	n     int
}

func (c *checkpointText) add(tp kafka.TopicPartition, off kafka.Offset) {
	b := append(append(c.lines, tp.Topic...), ' ')
	b = append(strconv.AppendInt(b, int64(tp.Partition), 10), ' ')
	c.lines = append(strconv.AppendInt(b, int64(off), 10), '\n')
	c.n++
}

func (c *checkpointText) file(name string) file {
	return file{name, append(fmt.Appendf(nil, "0\n%d\n", c.n), c.lines...)}
}

// parseCheckpoint reads Kafka's checkpoint format.
func parseCheckpoint(b []byte) (map[kafka.TopicPartition]kafka.Offset, error) {
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	if len(lines) < 2 || lines[0] != "0" {
		return nil, errors.New("line 1: not a checkpoint of version 0")
	}
	n, err := strconv.Atoi(lines[1])
	if err != nil || n != len(lines)-2 {
		return nil, fmt.Errorf("line 2: %q entries, %d lines follow", lines[1], len(lines)-2)
	}
	out := make(map[kafka.TopicPartition]kafka.Offset, n)
	for i, line := range lines[2:] {
		f := strings.Fields(line)
		if len(f) != 3 {
			return nil, fmt.Errorf("line %d: %q is not topic, partition, offset", i+3, line)
		}
		p, err1 := strconv.ParseInt(f[1], 10, 32)
		off, err2 := strconv.ParseInt(f[2], 10, 64)
		if err1 != nil || err2 != nil || p < 0 || off < 0 {
			return nil, fmt.Errorf("line %d: %q is not topic, partition, offset", i+3, line)
		}
		out[kafka.TopicPartition{Topic: f[0], Partition: kafka.Partition(p)}] = kafka.Offset(off)
	}
	return out, nil
}

// readCheckpoint reads a checkpoint; one that is damaged counts as empty, with a warning: it only saves work.
func (r *dir) readCheckpoint(name string) map[kafka.TopicPartition]kafka.Offset {
	b, err := r.readFile(name)
	if err != nil || b == nil {
		return nil
	}
	m, err := parseCheckpoint(b)
	if err != nil {
		r.d.o.Logger.Warn("checkpoint is ignored", "file", path.Join(r.path, name), "error", err)
	}
	return m
}

// checkpoint writes the three checkpoint files, durably, and the cleaner's where one names a partition that has gone.
func (r *dir) checkpoint() error {
	r.checkpoints.Lock()
	defer r.checkpoints.Unlock()
	r.mu.Lock()
	stale := maps.Clone(r.mu.stale) // what is deleted from here on may be named once more
	r.mu.Unlock()
	files := r.checkpointFiles()
	if len(stale) > 0 {
		files = append(files, r.cleanedFile())
	}
	if err := r.writeFiles(true, files...); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for tp := range stale { // none of them has been made anew meanwhile: freshName waits
		delete(r.mu.stale, tp)
	}
	return nil
}

// checkpointFiles is what the three checkpoint files are to hold. [checkpoints]
func (r *dir) checkpointFiles() []file {
	var recovery, start, hw checkpointText
	for _, tp := range r.sorted() {
		e, ok := r.entry(tp)
		var s kafka.Offset
		switch {
		case !ok:
		case e.log != nil:
			point, end := e.log.RecoveryPoint(), e.log.EndOffset()
			if e.summary != nil { // it has been closed
				point = e.summary.Recovery
			}
			if e.owner != nil {
				end = e.owner.HighWatermark()
			}
			recovery.add(tp, point)
			hw.add(tp, end)
			s = e.log.StartOffset()
		case e.summary != nil:
			recovery.add(tp, e.summary.Recovery)
			hw.add(tp, e.summary.End)
			s = e.summary.Start
		default: // it could not be recovered: the next start tries again, from where this one did
			recovery.add(tp, e.recovery)
			s = e.start
		}
		if s > 0 {
			start.add(tp, s)
		}
	}
	return []file{recovery.file(recoveryFile), start.file(startFile), hw.file(hwFile)}
}
