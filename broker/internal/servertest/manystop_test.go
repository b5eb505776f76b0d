package servertest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// A stop of many logs leaves them to the page cache. The next start under the same boot knows every record without opening
// a log; when the power fails after the stop, or after that start, what tidemark.fsync=batch has acknowledged is there
// all the same, however much of the rest survives.
func TestPowerLossAfterAStopOfManyLogs(t *testing.T) {
	const partitions = 80
	load := func() *config.Broker {
		cfg, _, err := config.Load("", []string{"log.dirs=/data/a", "node.id=0", "tidemark.fsync=batch", "group.initial.rebalance.delay.ms=0"})
		must(t, err)
		return cfg
	}
	boot := func(name string) func() string { return func() string { return name } }
	value := func(p int32, round int) []byte {
		return binary.BigEndian.AppendUint64(nil, uint64(round)<<32|uint64(p))
	}
	rnd := rand.New(rand.NewPCG(7, 7))
	for _, survival := range []int{0, 50, 100} {
		mem := vfs.NewCrashable(nil)
		n := startAt(t, load(), mem, boot("first"))
		id := n.topic("t", partitions)
		put := func(n *node, round int) {
			t.Helper()
			c := n.dial()
			for p := range int32(partitions) {
				if a := produced(t, c.do(produceRequest(9, -1, "t", id, map[int32][]byte{p: batch(t, 1, value(p, round))})), 0); a.ErrorCode != 0 || a.BaseOffset != int64(round) {
					t.Fatalf("survival %d%%, round %d, partition %d: %+v", survival, round, p, a)
				}
			}
		}
		check := func(n *node, rounds int) {
			t.Helper()
			have := readEverything(t, n.dial(), id, partitions)
			for p := range int32(partitions) {
				for round := range rounds {
					if got, ok := have[place{p, int64(round)}]; !ok || got != uint64(round)<<32|uint64(p) {
						t.Fatalf("survival %d%%: record %d of partition %d: %x, there %v", survival, round, p, got, ok)
					}
				}
			}
		}
		clone := func() *vfs.Mem { return mem.CrashClone(func() bool { return rnd.IntN(100) < survival }) }
		put(n, 0)
		n.stop()
		afterStop := clone()
		for round := 1; round <= 2; round++ {
			n = startAt(t, load(), mem, boot("first"))
			n.topicWithID("t", id, partitions)
			if n.set.Empty("t", kafka.Partition(0)) || n.set.Open() != 0 {
				t.Fatalf("after a clean stop %d logs are open, partition 0 is empty: %v", n.set.Open(), n.set.Empty("t", 0))
			}
			put(n, round)
			if round == 2 {
				break
			}
			n.stop()
		}
		inUse := clone()
		check(n, 3)
		n.stop()
		for i, c := range []struct {
			fs     *vfs.Mem
			rounds int
		}{{afterStop, 1}, {inUse, 3}} {
			n := startAt(t, load(), c.fs, boot(fmt.Sprint("boot ", i)))
			n.topicWithID("t", id, partitions)
			check(n, c.rounds)
			n.stop()
		}
	}
}
