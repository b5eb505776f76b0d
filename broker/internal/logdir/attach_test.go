package logdir

import (
	"errors"
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
)

// A folder that fails while a partition is opened in it takes that one offline too, whichever is first.
func TestAPartitionIsTakenOfflineWithItsFolder(t *testing.T) {
	for _, first := range []string{"the folder fails", "the partition is attached"} {
		f := newFolderTest(t)
		l, err := f.dirs.Open(tp("t", 0), kafka.TopicID{1}, &commitlog.Config{})
		if err != nil {
			t.Fatal(err)
		}
		o := &testOwner{log: l}
		if first == "the folder fails" {
			f.dirs.dirs[0].fail(errors.New("input/output error"))
			l.Attach(o)
		} else {
			l.Attach(o)
			f.dirs.dirs[0].fail(errors.New("input/output error"))
		}
		if o.failed != 1 {
			t.Errorf("when %s first the partition is told %d times", first, o.failed)
		}
	}
}
