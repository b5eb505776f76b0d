package loadgen

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tidemark/tidemark/loadgen/verify"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// sources makes n equal sources of one spec, as settings (name, text) change the default.
func sources(t testing.TB, n int, settings ...string) (*workload.Spec, []*source) {
	t.Helper()
	s := workload.Default()
	for i := 0; i < len(settings); i += 2 {
		if err := s.Set(settings[i], settings[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	keys, payload := workload.NewKeySpace(s.Keys), workload.NewPayload(&s, nil)
	var out []*source
	for range n {
		out = append(out, newSource(&s, 7, 3, keys, payload))
	}
	return &s, out
}

// TestRecordsMadeTogetherAreThoseMadeOneByOne: the same bytes in the same partitions, however they are cut into chunks, and
// each opens with its envelope's checksum.
func TestRecordsMadeTogetherAreThoseMadeOneByOne(t *testing.T) {
	for _, settings := range [][]string{
		{"record-size", "100B"},
		{"record-size", "100B", "verify", "off"},
		{"record-size", "24B"},
		{"record-size", "1000B", "topics", "3", "partitions", "2", "batch-size", "4096"},
		{"record-size", "100B", "partitioner", "roundrobin"},
		{"record-size", "3MiB", "request-max", "8MiB"},
		{"record-size", "uniform(24B, 2KiB)"},
		{"record-size", "100B", "keys", "zipf(100, 1.1)"},
	} {
		t.Run(fmt.Sprint(settings), func(t *testing.T) {
			s, two := sources(t, 2, settings...)
			together, single := two[0], two[1]
			rng := rand.New(rand.NewPCG(1, 2))
			total := 5_000
			if s.RecordSize.Min > 1<<20 {
				total = 6
			}
			for seq := uint64(0); seq < uint64(total); {
				together.begin()
				single.begin()
				intended := make([]int64, 1+rng.IntN(chunkRecords))
				for i := range intended {
					intended[i] = int64(seq)*10 + int64(i)
				}
				cut := rng.IntN(len(intended) + 1)
				sum := together.fill(intended[:cut]) + together.fill(intended[cut:])
				for _, at := range intended {
					sum -= single.next(at)
				}
				if sum != 0 || len(together.records) != len(single.records) {
					t.Fatalf("%d records, %d bytes more than one by one", len(together.records), sum)
				}
				for i := range single.records {
					a, b := &together.records[i], &single.records[i]
					if a.Seq != seq || b.Seq != seq || a.IntendedNanos != b.IntendedNanos || a.Topic != b.Topic || a.Partition != b.Partition ||
						!bytes.Equal(a.Key, b.Key) || !bytes.Equal(a.Head, b.Head) || !bytes.Equal(a.Value, b.Value) || (a.Key == nil) != (b.Key == nil) {
						t.Fatalf("record %d: %+v, one by one %+v", seq, a, b)
					}
					if s.Verifying() {
						if e, err := verify.Open(append(bytes.Clone(a.Head), a.Value...), a.Key, 7); err != nil || e.Sequence != seq || e.Producer != 3 {
							t.Fatalf("record %d opens as %+v, %v", seq, e, err)
						}
					}
					seq++
				}
			}
			if together.minBytes != single.minBytes || together.maxBytes != single.maxBytes || together.sumBytes != single.sumBytes {
				t.Errorf("sizes %d %d %d, one by one %d %d %d", together.minBytes, together.maxBytes, together.sumBytes, single.minBytes, single.maxBytes, single.sumBytes)
			}
		})
	}
}

// TestMakingRecordsAllocatesNothing.
func TestMakingRecordsAllocatesNothing(t *testing.T) {
	for _, size := range []string{"100B", "uniform(24B, 2KiB)"} {
		_, one := sources(t, 1, "record-size", size)
		var times [chunkRecords]int64
		if n := testing.AllocsPerRun(1000, func() { one[0].begin(); one[0].fill(times[:]) }); n != 0 {
			t.Errorf("%s: %v allocations a chunk", size, n)
		}
	}
}
