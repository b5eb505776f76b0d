package coordinator

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// loggedBytes is a logger's output.
type loggedBytes struct {
	sync.Mutex
	b bytes.Buffer
}

func (l *loggedBytes) Write(b []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.b.Write(b)
}

// A group's name and its members' ids may be 32 KB long, and each rebalance is told.
func TestTheLogTellsLongNamesInShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil)
		told := &loggedBytes{}
		b.o.Logger = slog.New(slog.NewTextHandler(told, nil))
		b.ready()
		name := strings.Repeat("g", 30_000)
		if j := b.join(name, ""); j.ErrorCode != 0 {
			t.Fatal(j.ErrorCode)
		}
		closeGroups(t, b)
		told.Lock()
		defer told.Unlock()
		if text := told.b.String(); !strings.Contains(text, name[:100]) || len(text) > 10_000 {
			t.Errorf("%d bytes are told of a group: %.300s", len(text), text)
		}
	})
}
