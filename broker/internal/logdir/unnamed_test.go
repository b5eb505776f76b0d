package logdir

import (
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
)

// A log whose partition.metadata is missing after a kill has it again once its partition is used: a later start knows whose it is.
func TestALogWithoutItsTopicsIDIsGivenIt(t *testing.T) {
	f := newFolderTest(t)
	id := kafka.TopicID{1}
	f.fill(f.open(tp("t", 0), id, &commitlog.Config{}), 3)
	f.kill()
	if err := f.fs.Remove("d/t-0/partition.metadata"); err != nil {
		t.Fatal(err)
	}
	f.start()
	l := f.open(tp("t", 0), id, &commitlog.Config{})
	if l.TopicID() != id {
		t.Errorf("the log's topic is %v", l.TopicID())
	}
	f.fill(l, 2)
	if l.EndOffset() != 5 {
		t.Errorf("the log ends at %d, want 5", l.EndOffset())
	}
	f.kill()
	f.start()
	if e, ok := f.dirs.dirs[0].entry(tp("t", 0)); !ok || e.topicID() != id || e.log.EndOffset() != 5 {
		t.Errorf("after another kill the log's topic is %v", e.topicID())
	}
	if _, err := f.dirs.Open(tp("t", 0), kafka.TopicID{2}, &commitlog.Config{}); err == nil {
		t.Error("a topic made anew takes the earlier one's log")
	}
}
