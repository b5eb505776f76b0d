package controller

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// TestFullDiskRefusesAndRecovers: while there is no room, wherever the call fails, requests are refused and never take
// effect; with room again the next one succeeds, and a restart agrees. The process is not told to stop.
func TestFullDiskRefusesAndRecovers(t *testing.T) {
	for name, fails := range map[string]func(vfstest.Op) error{
		"nothing is written": func(op vfstest.Op) error {
			if op.Kind == "write" || op.Kind == "create" {
				return syscall.ENOSPC
			}
			return nil
		},
		"half is written": func(op vfstest.Op) error {
			if op.Kind == "write" {
				return vfstest.ShortWrite{N: op.Bytes / 2, Err: syscall.ENOSPC}
			}
			return nil
		},
		"the quota is used up": func(op vfstest.Op) error {
			if op.Kind == "write" {
				return syscall.EDQUOT
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var full, failed atomic.Bool
			fs := vfs.NewMem(nil)
			o := options(&vfstest.Faulty{FS: fs, Hook: func(op vfstest.Op) error {
				if full.Load() {
					return fails(op)
				}
				return nil
			}})
			o.Failed = func(error) { failed.Store(true) }
			c := start(t, o)
			create(t, c, "before")
			full.Store(true)
			for range 3 {
				if r := create(t, c, "refused"); r.Err != kafka.KafkaStorageError || r.Text == "" || c.Image().Topic("refused") != nil {
					t.Fatalf("on a full disk: %+v", r)
				}
			}
			if _, _, err := c.AllocateProducerIDs(t.Context()); !errors.Is(err, kafka.KafkaStorageError) {
				t.Errorf("producer ids on a full disk: %v", err)
			}
			if c.Image().Topic("before") == nil {
				t.Error("what was there cannot be read")
			}
			full.Store(false)
			if r := create(t, c, "after"); r.Err != kafka.None {
				t.Fatalf("with room again: %+v", r)
			}
			if failed.Load() {
				t.Error("the process was told to stop")
			}
			stop(t, c)
			c = start(t, options(fs))
			defer stop(t, c)
			for topic, want := range map[string]bool{"before": true, "refused": false, "after": true} {
				if got := c.Image().Topic(topic) != nil; got != want {
					t.Errorf("after a restart topic %s is there: %v", topic, got)
				}
			}
		})
	}
}

// TestFullDiskAtFsyncIsAFailedDisk: it is never tried again.
func TestFullDiskAtFsyncIsAFailedDisk(t *testing.T) {
	var full, failed atomic.Bool
	o := options(&vfstest.Faulty{FS: vfs.NewMem(nil), Hook: func(op vfstest.Op) error {
		if full.Load() && op.Kind == "sync" {
			return syscall.ENOSPC
		}
		return nil
	}})
	o.Failed = func(error) { failed.Store(true) }
	c := start(t, o, func(*metadata.Image, metadata.Delta) {})
	full.Store(true)
	if r := create(t, c, "a"); r.Err != kafka.KafkaStorageError || !failed.Load() {
		t.Errorf("%+v, told to stop: %v", r, failed.Load())
	}
	full.Store(false)
	if r := create(t, c, "a"); r.Err != kafka.KafkaStorageError {
		t.Errorf("a failed fsync was tried again: %+v", r)
	}
	stop(t, c)
}

// TestTheReserveLetsAFullDiskBeFreed: with the disk full but for what the reserve held back, topics can be deleted and
// retention shortened, also by a broker that starts on the full disk; nothing else is taken until there is room.
func TestTheReserveLetsAFullDiskBeFreed(t *testing.T) {
	var full atomic.Bool
	var room atomic.Int64 // what the reserve gave back
	fs := vfs.NewMem(nil)
	reserve := dir + "/" + kafka.MetadataTopic + "-0/" + reserveFile
	faulty := &smallDisk{full: &full, Faulty: vfstest.Faulty{FS: fs, Hook: func(op vfstest.Op) error {
		switch {
		case !full.Load():
		case op.Kind == "remove" && op.Name == reserve:
			room.Add(reserveBytes)
		case op.Kind == "write" && room.Add(-int64(op.Bytes)) < 0:
			return syscall.ENOSPC
		}
		return nil
	}}}
	retention := func(c *Controller, value string) ConfigResult {
		return c.AlterConfigs(t.Context(), []ConfigAlteration{{Kind: metadata.TopicResource, Name: "b",
			Changes: []ConfigChange{{Key: "retention.ms", Value: value}}}}, false)[0]
	}
	c := start(t, options(faulty))
	create(t, c, "a")
	create(t, c, "b")
	full.Store(true)
	if r := c.DeleteTopics(t.Context(), []TopicRef{{Name: "a"}})[0]; r.Err != kafka.None || c.Image().Topic("a") != nil {
		t.Fatalf("the first deletion on a full disk: %+v", r)
	}
	if r := retention(c, "1"); r.Err != kafka.None {
		t.Fatalf("shorter retention on a full disk: %+v", r)
	}
	for _, name := range []string{"c", "d"} {
		if r := create(t, c, name); r.Err != kafka.KafkaStorageError || c.Image().Topic(name) != nil {
			t.Fatalf("a topic is created out of the reserve: %+v", r)
		}
	}
	big := make([]byte, smallAlteration)
	if r := retention(c, string(big)); r.Err != kafka.KafkaStorageError {
		t.Errorf("a large alteration out of the reserve: %+v", r)
	}
	stop(t, c)
	full.Store(false) // the reserve is made again by the next start, and the disk full before it has written
	room.Store(0)
	c, err := Open(options(faulty))
	if err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	if err := c.Start(t.Context()); err != nil {
		t.Fatalf("a start on a full disk: %v", err)
	}
	if _, err := c.RegisterBroker(t.Context(), metadata.Broker{ID: 0}); err != nil {
		t.Fatalf("a start on a full disk: %v", err)
	}
	if v := c.Image().Config(metadata.TopicResource, "b")["retention.ms"]; v != "1" {
		t.Errorf("retention.ms after a restart: %q", v)
	}
	full.Store(false)
	if r := create(t, c, "e"); r.Err != kafka.None {
		t.Errorf("with room again: %+v", r)
	}
	if _, err := fs.Stat(reserve); err != nil {
		t.Errorf("the reserve is not there again: %v", err)
	}
	stop(t, c)
}

// smallDisk has no room while full is set.
type smallDisk struct {
	vfstest.Faulty
	full *atomic.Bool
}

// FreeBytes implements vfs.FS.
func (s *smallDisk) FreeBytes(dir string) (int64, error) {
	if s.full.Load() {
		return 0, nil
	}
	return s.Faulty.FreeBytes(dir)
}
