package logdir

import (
	"fmt"
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
)

// A log that has had no record for a whole interval gives its files and memory back, once; the next record starts it afresh.
func TestAnIdleLogGivesItsFilesBack(t *testing.T) {
	f := newFolderTest(t)
	r := f.dirs.dirs[0]
	busy, idle := f.open(tp("busy", 0), kafka.TopicID{1}, &commitlog.Config{}), f.open(tp("idle", 0), kafka.TopicID{2}, &commitlog.Config{})
	turn := func() {
		f.now += restEveryMS
		r.rest(f.now)
	}
	r.rest(f.now) // the first look only begins the interval
	put := func(l *Log) { f.append(l, [2][]byte{nil, []byte("x")}) }
	open := func() int { return f.dirs.OpenFiles() }

	put(busy)
	put(idle)
	both := open()
	if both < 2 {
		t.Fatalf("%d files are open after two appends", both)
	}
	turn()
	if open() != both {
		t.Fatalf("%d files are open, %d were: both logs have had a record since the last look", open(), both)
	}
	put(busy)
	r.rest(f.now + restEveryMS - 1)
	if open() != both {
		t.Fatal("files go before the interval is over")
	}
	turn()
	one := open()
	if one == 0 || one >= both {
		t.Fatalf("%d of %d files are open after one log was idle", one, both)
	}
	e, _ := r.entry(tp("idle", 0))
	if !e.rested {
		t.Error("the idle log is not noted as such")
	}
	put(busy)
	put(idle)
	turn()
	if open() != both {
		t.Errorf("%d files are open, want %d: the log is used again", open(), both)
	}
	if idle.EndOffset() != 2 || busy.EndOffset() != 3 {
		t.Errorf("the logs end at %d and %d", idle.EndOffset(), busy.EndOffset())
	}
}

// The files that folders may keep open share the process's limit with its connections and never fall below a floor.
func TestOpenFilesShareTheLimitWithConnections(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	f := newFolderTest(t, "log.dirs=d,e")
	r := f.dirs.dirs[0]
	free := int(min(limit.Cur, 1<<30)) - keptFiles
	if want := min(max(free/2, openFiles), maxOpenFiles); r.ceiling() != want {
		t.Errorf("each of two folders may keep %d files open, want %d", r.ceiling(), want)
	}
	sockets := 0
	f.dirs.CountSockets(func() int { return sockets })
	for _, sockets = range []int{0, max(free-2*openFiles-10, 0), max(free, 0), 1 << 30} {
		if want := min(max((free-sockets)/2, openFiles), maxOpenFiles); r.ceiling() != want {
			t.Errorf("beside %d connections a folder may keep %d files open, want %d", sockets, r.ceiling(), want)
		}
	}
}

// Files beyond what a folder keeps are closed once they have not been used for some seconds.
func TestTheScheduleTrimsFiles(t *testing.T) {
	f := newFolderTest(t)
	r := f.dirs.dirs[0]
	r.trimFiles(f.now)
	const logs = openFiles + 50
	round := func() {
		for i := range logs {
			l := f.open(tp(fmt.Sprint("t", i), 0), kafka.TopicID{byte(i), byte(i >> 8), 1}, &commitlog.Config{})
			f.append(l, [2][]byte{nil, []byte("x")})
		}
	}
	round()
	round() // files that are opened again soon make the bound grow
	if f.dirs.OpenFiles() <= openFiles {
		t.Fatalf("%d files are open while %d logs are in use", f.dirs.OpenFiles(), logs)
	}
	for range 20 {
		f.now += trimEveryMS
		r.trimFiles(f.now)
	}
	if got := f.dirs.OpenFiles(); got > openFiles {
		t.Errorf("%d files are open after 20 s without use, %d may be", got, openFiles)
	}
}

// names lists what of the folder begins or ends with text.
func (f *folderTest) names(text string) (list []string) {
	f.t.Helper()
	infos, err := f.fs.ReadDir("d")
	if err != nil {
		f.t.Fatal(err)
	}
	for _, n := range infos {
		if strings.HasPrefix(n.Name, text) || strings.HasSuffix(n.Name, text) {
			list = append(list, n.Name)
		}
	}
	return list
}

func (f *folderTest) restart() {
	f.t.Helper()
	if err := f.dirs.Close(); err != nil {
		f.t.Fatal(err)
	}
	f.start()
}

// What a stop has no time to remove stands in tidemark-deleted: the next start, which after a clean stop does not look at the
// folders, removes it, and nothing else that the file may name.
func TestDeletedLogsThatAStopLeavesGoAtTheNextStart(t *testing.T) {
	f := newFolderTest(t)
	for i := range 3 {
		l := f.open(tp("t", i), kafka.TopicID{1}, &commitlog.Config{})
		f.append(l, [2][]byte{nil, []byte("x")})
		if err := f.dirs.Delete(tp("t", i), kafka.TopicID{1}, 60_000); err != nil {
			t.Fatal(err)
		}
	}
	kept := f.open(tp("kept", 0), kafka.TopicID{2}, &commitlog.Config{})
	f.append(kept, [2][]byte{nil, []byte("x")})
	if got := f.names(deleteSuffix); len(got) != 3 {
		t.Fatalf("deleted logs are %v", got)
	}
	r := f.dirs.dirs[0]
	r.remove(f.now + 59_999)
	if got := f.names(deleteSuffix); len(got) != 3 {
		t.Fatalf("before file.delete.delay.ms is over %v are left", got)
	}
	// A stop with all the time in the world leaves nothing, and no file.
	f.restart()
	if got := append(f.names(deleteSuffix), f.names(leftFile)...); len(got) != 0 {
		t.Fatalf("a stop leaves %v", got)
	}

	// One that was out of time: its file is what leave writes.
	for _, n := range []string{"old-0.01-delete", "old-1.01-delete", "unnamed-0.01-delete"} {
		if err := f.fs.MkdirAll(path.Join("d", n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.dirs.Close(); err != nil {
		t.Fatal(err)
	}
	text := "old-0.01-delete\nold-1.01-delete\nkept-0\n../d/kept-0\n../kept-0-delete\nmissing-0.02-delete\n"
	w, err := f.fs.Create(path.Join("d", leftFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	f.start()
	f.dirs.dirs[0].remove(f.now)
	if got := f.names(deleteSuffix); len(got) != 1 || got[0] != "unnamed-0.01-delete" {
		t.Errorf("after a clean stop %v is left", got)
	}
	if got := f.names("kept-0"); len(got) != 1 {
		t.Errorf("a log that no topic has deleted is %v", got)
	}
	f.kill()
	f.start()
	f.dirs.dirs[0].remove(f.now) // a start after a kill looks at the folders
	if got := f.names(deleteSuffix); len(got) != 0 {
		t.Errorf("after a kill %v is left", got)
	}
}
