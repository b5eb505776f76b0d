package workload

import (
	"bytes"
	"hash/crc32"
	"math"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestMurmur2IsKafkas holds the vectors of Kafka's own UtilsTest.testMurmur2.
func TestMurmur2IsKafkas(t *testing.T) {
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(Murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, Kafka has %d", key, got, want)
		}
	}
	if p := PartitionFor([]byte("21"), 10); p != int32((uint32(0xffffffff-973932308+1)&0x7fffffff)%10) {
		t.Errorf("partition of a negative hash is %d", p)
	}
}

func TestKeylessRecordsStayForABatchThenMove(t *testing.T) {
	s := Default()
	s.BatchSize, s.Partitions, s.Topics = 1000, 6, 2
	p := NewPartitioner(&s, 0)
	counts := map[[2]int32]int{}
	moves := 0
	last := [2]int32{-1, -1}
	for i := range 60000 {
		topic, partition := p.Next(nil, 100)
		at := [2]int32{topic, partition}
		counts[at]++
		if at != last && i%10 != 0 {
			t.Fatalf("record %d moved to %v inside a batch", i, at)
		}
		if at != last {
			moves++
		}
		last = at
	}
	if len(counts) != 12 || moves < 5000 {
		t.Errorf("%d moves over %d partitions", moves, len(counts))
	}
	s.Partitioner = PartitionerRoundRobin
	p = NewPartitioner(&s, 0)
	clear(counts)
	for range 120 {
		topic, partition := p.Next([]byte("key"), 100)
		counts[[2]int32{topic, partition}]++
	}
	for at, n := range counts {
		if n != 10 {
			t.Errorf("roundrobin gave %v %d of 120", at, n)
		}
	}
}

func TestPayloadCompressesAsStated(t *testing.T) {
	for _, c := range []float64{0, 0.25, 0.5, 0.75, 0.9} {
		for _, size := range []int{76, 1000} {
			s := Default()
			s.Compressibility = c
			cut := NewPayload(&s, nil).Cutter(1, 0, size)
			var batch []byte
			for len(batch) < 1<<20-size {
				batch, _ = cut.AppendTo(batch, size)
			}
			enc, err := zstd.NewWriter(nil)
			if err != nil {
				t.Fatal(err)
			}
			saved := 1 - float64(len(enc.EncodeAll(batch, nil)))/float64(len(batch))
			if math.Abs(saved-c) > 0.03 {
				t.Errorf("compressibility %v, records of %d: zstd saves %.3f", c, size, saved)
			}
		}
	}
}

func TestCutterSumsAreCRCs(t *testing.T) {
	s := Default()
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	for _, fixed := range []int{0, 1, 1000, 4096, 3 << 20} {
		p := NewPayload(&s, nil)
		c := p.Cutter(9, 3, fixed)
		sizes := NewSizer(Sizes{Min: 0, Max: 5000}, 1, 0)
		for range min(30000, 200<<20/(fixed+1000)) {
			n := fixed
			if fixed == 0 {
				n = sizes.Next()
			}
			piece, sum := c.Next(n)
			if len(piece) != n || sum != crc32.Checksum(piece, castagnoli) {
				t.Fatalf("fixed %d: piece of %d for %d with a wrong sum", fixed, len(piece), n)
			}
		}
	}
	file := []byte("some file")
	p := NewPayload(&s, file)
	got, sum := p.Cutter(1, 0, 0).AppendTo(nil, 9<<20)
	if len(got) != 9<<20 || sum != crc32.Checksum(got, castagnoli) || bytes.Count(got[:9000], file) < 990 {
		t.Error("a record longer than the block is not the file's bytes over and over")
	}
}
