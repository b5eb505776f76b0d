package logdir

import (
	"bytes"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
)

// Appends that each find no descriptor to flush by say so once a second; the others are counted.
func TestErrorsOfEveryAppendAreSaidOnceASecond(t *testing.T) {
	f := newFolderTest(t)
	f.kill()
	var log bytes.Buffer
	f.log = &log
	f.start()
	l := f.open(tp("t", 0), kafka.TopicID{1}, &commitlog.Config{})
	said := func(when, want string) {
		t.Helper()
		var got []string
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "log error") {
				_, more, _ := strings.Cut(strings.TrimSpace(line), "too many open files")
				got = append(got, "error"+strings.Trim(more, "\""))
			}
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%s: the log says %q, want %q", when, s, want)
		}
		log.Reset()
	}
	fail := func(n int) {
		for range n {
			l.Failed(&fs.PathError{Op: "open", Path: "partition.metadata", Err: syscall.EMFILE})
		}
	}
	r := f.dirs.dirs[0]
	fail(1000)
	said("at once", "error")
	f.now += complainMS - 1
	fail(1)
	r.complaints(f.now)
	said("within a second", "")
	f.now++
	fail(1)
	said("a second later", "error more=1000")
	fail(3)
	f.now += complainMS
	r.complaints(f.now)
	said("when they have ended", "error more=2")
	r.complaints(f.now + complainMS)
	said("afterwards", "")
	if r.offline.Load() {
		t.Error("the folder counts as failed")
	}
}
