package coordinator

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// lines is a log that several goroutines write to.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// batchOf makes a batch of records with one key and value.
func batchOf(t *testing.T, codec compress.Codec, n int, key, value []byte) record.Batch {
	t.Helper()
	b := record.NewBuilder(nil, codec, 0)
	b.Reset(0, -1, -1, -1, 0)
	for range n {
		b.Append(0, key, value)
	}
	batch, err := b.Finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// A batch that somebody else has written, or a disk has damaged, costs what is in it and not all groups of its partition.
func TestWhatCannotBeReadIsPassedOver(t *testing.T) {
	noRecord := batchOf(t, compress.None, 1, []byte("k"), nil)
	noRecord[record.HeaderBytes] = 0 // the record's length
	notPacked := batchOf(t, compress.Zstd, 3, []byte("key"), []byte("value"))
	clear(notPacked[record.HeaderBytes:])
	for what, bad := range map[string]record.Batch{
		"more than is unpacked":  batchOf(t, compress.Zstd, 1, []byte("k"), make([]byte, loadDecompressedBytes)),
		"damaged records":        noRecord,
		"damaged compression":    notPacked,
		"keys without a version": batchOf(t, compress.None, 5, nil, nil),
		"keys of other versions": batchOf(t, compress.None, 1, []byte{0, 99, 1}, []byte("v")),
		"damaged keys":           batchOf(t, compress.None, 1, []byte{0, 1, 9, 9}, nil),
		"a great many of them":   batchOf(t, compress.None, 1000, []byte("x"), nil),
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newFakeBroker(t, nil).ready()
			b.createTopic("t", 1, nodeID, 0, 1)
			log := b.logs[b.PartitionFor("g")]
			b.commit("g", "t", 1, 1)
			log.Append(bad, func(kafka.ErrorCode) {})
			b.commit("g", "t", 1, 2)

			told := &lines{}
			again := newFakeBroker(t, b.logs)
			again.o.Logger = slog.New(slog.NewTextHandler(told, nil))
			again.createTopic("t", 1, nodeID, 0, 1)
			again.createOffsetsTopic(1)
			again.ready()
			if off, code := again.committed("g", "t", 1); off != 2 || code != kafka.None {
				t.Errorf("%s: committed offset %d, %v", what, off, code)
			}
			if n := told.count("passed over"); n > maxToldPasses+2 || n == 0 && what != "keys of other versions" {
				t.Errorf("%s: told %d times", what, n)
			}
			closeGroups(t, b, again)
		})
	}
}

// A log that cannot be read for a while keeps its groups waiting that long.
func TestAFailedLoadIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, nil).ready()
		b.createTopic("t", 1, nodeID, 0, 1)
		b.commit("g", "t", 1, 7)
		again := newFakeBroker(t, b.logs)
		log := again.logs[again.PartitionFor("g")]
		log.broken = errors.New("input/output error")
		again.createTopic("t", 1, nodeID, 0, 1)
		again.createOffsetsTopic(1)
		for range 3 {
			<-time.After(2 * firstRetry)
			if off, code := again.committed("g", "t", 1); code == kafka.None || code == kafka.CoordinatorLoadInProgress {
				t.Errorf("a log that cannot be read: offset %d, %v", off, code)
			}
		}
		log.mu.Lock()
		log.broken = nil
		log.mu.Unlock()
		<-time.After(lastRetry)
		synctest.Wait()
		if off, code := again.committed("g", "t", 1); off != 7 || code != kafka.None {
			t.Errorf("offset %d, %v when the disk is back", off, code)
		}
		log.mu.Lock()
		log.broken = errors.New("input/output error")
		log.mu.Unlock()
		again.moveLeader(nodeID, 9)
		synctest.Wait()
		again.moveLeader(2, 10) // what was to be tried again is another's
		<-time.After(lastRetry)
		if _, code := again.committed("g", "t", 1); code != kafka.NotCoordinator {
			t.Error(code)
		}
		closeGroups(t, b, again)
	})
}
