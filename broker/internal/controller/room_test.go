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
