package logdir

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
)

// tree is all files of a file system below a folder.
func tree(t *testing.T, fs vfs.FS, dir string, into map[string][]byte) map[string][]byte {
	t.Helper()
	infos, err := fs.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range infos {
		name := path.Join(dir, n.Name)
		if n.IsDir {
			tree(t, fs, name, into)
			continue
		}
		b, err := vfs.ReadFile(fs, name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		into[name] = b
	}
	return into
}

// plant makes the files again, one of them with other content.
func plant(t *testing.T, files map[string][]byte, name string, content []byte) *vfs.Mem {
	t.Helper()
	fs := vfs.NewMem(nil)
	for n, b := range files {
		if n == name {
			b = content
		}
		if err := fs.MkdirAll(path.Dir(n)); err != nil {
			t.Fatal(err)
		}
		f, err := fs.Create(n)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	return fs
}

const damagedRecords = 12

// startDamaged starts the folder and opens its log; it says what is wrong with what it gives.
func (f *folderTest) startDamaged(fs *vfs.Mem) (problem string) {
	named := func(err error) string {
		if !strings.Contains(err.Error(), "d/") && !strings.Contains(err.Error(), "folder d") {
			return fmt.Sprintf("an error that does not say where: %v", err)
		}
		return ""
	}
	dirs, err := Open(Options{FS: fs, Dirs: f.cfg.LogDirs, Config: f.cfg, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		NowMS:     func() int64 { return f.now },
		ElapsedMS: func() int64 { return f.now }})
	if err != nil {
		return named(err)
	}
	defer func() { _ = dirs.dirs[0].lock.Close() }()
	if err := dirs.Adopt("cluster"); err != nil {
		return named(err)
	}
	if err := dirs.Recover(context.Background()); err != nil {
		return named(err)
	}
	l, err := dirs.Open(tp("t", 0), kafka.TopicID{1}, &commitlog.Config{})
	if err != nil {
		return named(err)
	}
	defer l.Abandon()
	if l.EndOffset() != damagedRecords {
		return fmt.Sprintf("the log ends at %d, want %d", l.EndOffset(), damagedRecords)
	}
	// A checkpoint of log starts has no checksum: a digit that flips moves the start.
	var s commitlog.Slice
	for from := l.StartOffset(); from < l.EndOffset(); from = s.Next {
		if err := l.Read(&s, from, 1<<20, l.EndOffset(), true); err != nil {
			return named(err)
		}
		b := make([]byte, s.Bytes)
		if err := s.CopyTo(b); err != nil {
			return named(err)
		}
		for off := from; len(b) > 0; off++ {
			batch, rest, err := record.Next(b)
			if err != nil || batch.BaseOffset() != off || batch.CRC() != batch.ComputeCRC() {
				return fmt.Sprintf("at offset %d there is %d (%v)", off, batch.BaseOffset(), err)
			}
			b = rest
		}
		s.Release()
	}
	return ""
}

// Each bit that flips, and each place at which it may end, of each file of a log folder itself, after a clean stop and after a kill:
// the start names what it cannot use, and every record is there.
func TestDamageAtEveryByteOfAFoldersOwnFiles(t *testing.T) {
	for _, clean := range []bool{true, false} {
		f := newFolderTest(t)
		l := f.open(tp("t", 0), kafka.TopicID{1}, &commitlog.Config{})
		for i := range damagedRecords {
			f.append(l, [2][]byte{nil, fmt.Append(nil, "value ", i)})
		}
		if err := l.DeleteBefore(2); err != nil {
			t.Fatal(err)
		}
		r := f.dirs.dirs[0]
		if clean {
			if err := f.dirs.Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			if _, err := l.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := r.markLogs(); err != nil {
				t.Fatal(err)
			}
			if err := r.checkpoint(); err != nil {
				t.Fatal(err)
			}
			f.kill()
		}
		files := tree(t, f.fs, "d", map[string][]byte{})
		for name, whole := range files {
			if path.Dir(name) != "d" {
				continue // core/commitlog's
			}
			t.Run(fmt.Sprintf("clean=%v/%s", clean, path.Base(name)), func(t *testing.T) {
				for i := range whole {
					flipped := bytes.Clone(whole)
					flipped[i] ^= 1 << (i % 8)
					if problem := f.startDamaged(plant(t, files, name, flipped)); problem != "" {
						t.Errorf("bit %d of byte %d flipped: %s", i%8, i, problem)
					}
					if problem := f.startDamaged(plant(t, files, name, whole[:i])); problem != "" {
						t.Errorf("cut to %d bytes: %s", i, problem)
					}
				}
			})
		}
	}
}
