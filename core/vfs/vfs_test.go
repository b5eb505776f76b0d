package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// both runs a test on the real file system and on the one in memory.
func both(t *testing.T, f func(t *testing.T, fsys FS, dir string)) {
	t.Run("os", func(t *testing.T) { f(t, OS{}, t.TempDir()) })
	t.Run("mem", func(t *testing.T) {
		m := NewMem(nil)
		if err := m.MkdirAll("/tmp/x"); err != nil {
			t.Fatal(err)
		}
		f(t, m, "/tmp/x")
	})
	t.Run("gated", func(t *testing.T) { f(t, Gated(OS{}, NewGate(2)), t.TempDir()) })
}

func TestFilesReadBackWhatWasWritten(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		f, err := fsys.Create(dir + "/a")
		if err != nil {
			t.Fatal(err)
		}
		var bufs [][]byte
		for i := range 1500 { // more than one pwritev takes
			bufs = append(bufs, []byte(strconv.Itoa(i)))
		}
		want := bytes.Join(bufs, nil)
		if n, err := f.WriteVec(3, bufs); err != nil || n != len(want) {
			t.Fatalf("wrote %d of %d bytes: %v", n, len(want), err)
		}
		if n, err := f.WriteVec(0, [][]byte{[]byte("abc")}); err != nil || n != 3 {
			t.Fatal(n, err)
		}
		got := make([]byte, len(want)+10)
		n, err := f.ReadAt(got, 0)
		if err != io.EOF || string(got[:n]) != "abc"+string(want) {
			t.Fatalf("read %d bytes, %v", n, err)
		}
		if err := f.Truncate(5); err != nil {
			t.Fatal(err)
		}
		if size, err := f.Size(); err != nil || size != 5 {
			t.Errorf("size is %d, %v", size, err)
		}
		for name, err := range map[string]error{"sync": f.Sync(), "sync data": f.SyncData(), "preallocate": f.Preallocate(0, 1<<16), "advise": f.Advise(0, 0, WillNeed), "sync range": f.SyncRange(0, 5), "sync dir": fsys.SyncDir(dir)} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if st, err := fsys.Stat(dir + "/a"); err != nil || st.Size != 5 || st.Name != "a" || st.IsDir {
			t.Errorf("stat: %+v, %v", st, err)
		}
		if ok, err := f.Resident(0, 5); err != nil || !ok {
			t.Errorf("freshly written bytes are not in the page cache: %v, %v", ok, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.ReadAt(got, 0); !errors.Is(err, ErrClosed) {
			t.Errorf("read of a closed file: %v", err)
		}
		if err := f.Close(); !errors.Is(err, ErrClosed) {
			t.Errorf("second close: %v", err)
		}
	})
}

func TestFolders(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		if _, err := fsys.Open(dir + "/none"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open of a missing file: %v", err)
		}
		if err := fsys.MkdirAll(dir + "/p/q"); err != nil {
			t.Fatal(err)
		}
		if err := fsys.Mkdir(dir + "/p"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("mkdir of a folder that is there: %v", err)
		}
		for _, name := range []string{"/p/2", "/p/1", "/p/q/3"} {
			if err := ReplaceFile(fsys, dir+name, []byte(name), true); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := fsys.OpenFile(dir+"/p/1", Create|Excl); !errors.Is(err, fs.ErrExist) {
			t.Errorf("exclusive create of a file that is there: %v", err)
		}
		if err := fsys.Rename(dir+"/p/q", dir+"/r"); err != nil {
			t.Fatal(err)
		}
		if err := fsys.Rename(dir+"/p/1", dir+"/p/2"); err != nil {
			t.Fatal(err)
		}
		if b, err := ReadFile(fsys, dir+"/p/2", 100); err != nil || string(b) != "/p/1" {
			t.Errorf("read %q, %v", b, err)
		}
		if _, err := ReadFile(fsys, dir+"/p/2", 3); err == nil {
			t.Error("a file above the bound was read")
		}
		if b, err := ReadFile(fsys, dir+"/r/3", 100); err != nil || string(b) != "/p/q/3" {
			t.Errorf("read %q, %v", b, err)
		}
		infos, err := fsys.ReadDir(dir + "/p")
		if err != nil || len(infos) != 1 || infos[0].Name != "2" {
			t.Errorf("folder holds %v, %v", infos, err)
		}
		if err := fsys.Remove(dir + "/r"); err == nil {
			t.Error("a folder that is not empty was removed")
		}
		if err := fsys.RemoveAll(dir + "/r"); err != nil {
			t.Fatal(err)
		}
		if err := fsys.RemoveAll(dir + "/r"); err != nil {
			t.Errorf("removing what is gone: %v", err)
		}
		if n, err := fsys.FreeBytes(dir); err != nil || n <= 0 {
			t.Errorf("free bytes: %d, %v", n, err)
		} else if all, err := fsys.TotalBytes(dir); err != nil || all < n {
			t.Errorf("%d bytes in all, %d of them free, %v", all, n, err)
		}
	})
}

func TestReadOnlyFilesRefuseWrites(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		if err := ReplaceFile(fsys, dir+"/a", []byte("x"), false); err != nil {
			t.Fatal(err)
		}
		f, err := fsys.Open(dir + "/a")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte("y"), 0); err == nil {
			t.Error("a file opened for reading was written")
		}
	})
}

// The lock of a folder is held by one process; the message names its pid.
func TestLockNamesTheHolder(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	if os.Getenv("VFS_TEST_LOCK") != "" {
		_, err := OS{}.Lock(os.Getenv("VFS_TEST_LOCK"))
		if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "process "+os.Getenv("VFS_TEST_PID")) {
			t.Fatalf("lock: %v", err)
		}
		return
	}
	held, err := OS{}.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestLockNamesTheHolder$")
	child.Env = append(os.Environ(), "VFS_TEST_LOCK="+name, "VFS_TEST_PID="+strconv.Itoa(os.Getpid()))
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OS{}.Lock(name)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	again.Close()
}

func TestWithFd(t *testing.T) {
	f, err := OS{}.Create(filepath.Join(t.TempDir(), "a"))
	if err != nil {
		t.Fatal(err)
	}
	err = f.WithFd(func(fd int) error {
		if err := f.Close(); err != nil { // does not take the descriptor from under us
			t.Error(err)
		}
		_, err := os.Stat("/proc/self/fd/" + strconv.Itoa(fd))
		return err
	})
	if err != nil {
		t.Error(err)
	}
	m, err := NewMem(nil).Create("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.WithFd(func(int) error { return nil }); !errors.Is(err, ErrNoFd) {
		t.Errorf("memory file: %v", err)
	}
}

// Closing races with calls: each either works or says that the file is closed, and none reaches a reused descriptor.
func TestCloseUnderUse(t *testing.T) {
	dir := t.TempDir()
	for range 50 {
		f, err := OS{}.Create(filepath.Join(dir, "a"))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					if _, err := f.WriteAt([]byte("data"), 0); err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		f.Close()
		wg.Wait()
	}
}

func TestGateLetsOnlySoManyIn(t *testing.T) {
	g := NewGate(2)
	g.Enter()
	g.Enter()
	third := make(chan struct{})
	go func() {
		g.Enter()
		close(third)
	}()
	select {
	case <-third:
		t.Fatal("a third call is inside")
	case <-time.After(10 * time.Millisecond):
	}
	g.Leave()
	<-third
	if g.InUse() != 2 {
		t.Errorf("%d calls are inside, want 2", g.InUse())
	}
}

func TestFallbackOfResident(t *testing.T) {
	f, err := openFile(filepath.Join(t.TempDir(), "a"), os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, 200_000), 0); err != nil {
		t.Fatal(err)
	}
	for _, probe := range []func(int, int64, int64) (bool, error){cachestat, readNoWait} {
		ok, err := probe(f.fd, 100, 199_000)
		if errors.Is(err, errors.ErrUnsupported) {
			continue // a kernel or file system without it
		}
		if err != nil || !ok {
			t.Errorf("warm range: %v, %v", ok, err)
		}
	}
	// Drop it from the cache; where that works the answer must change.
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := f.Advise(0, 0, DontNeed); err != nil {
		t.Fatal(err)
	}
	if ok, err := f.Resident(0, 200_000); err == nil && ok {
		t.Log("the file system keeps its pages; cold reads cannot be tested here")
	}
}

func TestCrashClone(t *testing.T) {
	m := NewCrashable(nil)
	write := func(f File, off int64, s string) {
		t.Helper()
		if _, err := f.WriteAt([]byte(s), off); err != nil {
			t.Fatal(err)
		}
	}
	a, _ := m.Create("/a")
	write(a, 0, "synced")
	if err := errors.Join(a.Sync(), m.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	write(a, 0, "SYNCED and more")
	b, _ := m.Create("/b")
	write(b, 0, "new")
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		keep    bool
		a       string
		entries int
	}{"power loss": {false, "synced", 1}, "kill": {true, "SYNCED and more", 2}} {
		clone := m.CrashClone(func() bool { return c.keep })
		if got, err := ReadFile(clone, "/a", 100); err != nil || string(got) != c.a {
			t.Errorf("%s: a holds %q, %v", name, got, err)
		}
		if infos, _ := clone.ReadDir("/"); len(infos) != c.entries {
			t.Errorf("%s: %d entries, want %d", name, len(infos), c.entries)
		}
	}
	// Either half of two pages may survive.
	long := strings.Repeat("x", crashPage) + strings.Repeat("y", crashPage)
	write(a, 0, long)
	n := 0
	clone := m.CrashClone(func() bool { n++; return n == 4 }) // not b's entry, not the older write, not the first page
	got, err := ReadFile(clone, "/a", 1<<20)
	if err != nil || len(got) != 2*crashPage || string(got[:6]) != "synced" || got[crashPage] != 'y' {
		t.Errorf("torn write: %d bytes, %v", len(got), err)
	}
	// A rename between folders is kept on both sides or on neither.
	if err := errors.Join(m.Mkdir("/d"), m.SyncDir("/"), m.SyncDir("/d"), m.Rename("/a", "/d/a"), m.SyncDir("/d")); err != nil {
		t.Fatal(err)
	}
	clone = m.CrashClone(func() bool { return false })
	_, err1 := clone.Stat("/a")
	_, err2 := clone.Stat("/d/a")
	if (err1 == nil) == (err2 == nil) {
		t.Errorf("after a rename: old name %v, new name %v", err1, err2)
	}
}

func BenchmarkWriteVec(b *testing.B) {
	for _, n := range []int{1, 4, 16} {
		b.Run("buffers="+strconv.Itoa(n), func(b *testing.B) {
			f, err := OS{}.Create(filepath.Join(b.TempDir(), "a"))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			bufs := make([][]byte, n)
			for i := range bufs {
				bufs[i] = make([]byte, 16<<10/n)
			}
			b.SetBytes(16 << 10)
			b.ReportAllocs()
			off := int64(0)
			for b.Loop() {
				if _, err := f.WriteVec(off%(64<<20), bufs); err != nil {
					b.Fatal(err)
				}
				off += 16 << 10
			}
		})
	}
}

func BenchmarkResident(b *testing.B) {
	f, err := OS{}.Create(filepath.Join(b.TempDir(), "a"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, 1<<20), 0); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := f.Resident(0, 1<<20); err != nil || !ok {
			b.Fatal(ok, err)
		}
	}
}

// A vector that only partly fits says why, and how much was written.
func TestShortVectorNamesTheCause(t *testing.T) {
	f, err := OS{}.Create(filepath.Join(t.TempDir(), "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1000, Max: old.Max}); err != nil {
		t.Skip(err)
	}
	n, err := f.WriteVec(0, [][]byte{make([]byte, 600), make([]byte, 600), make([]byte, 10)})
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if n != 1000 || !errors.Is(err, unix.EFBIG) {
		t.Errorf("wrote %d bytes, %v; want 1000 and EFBIG", n, err)
	}
}
