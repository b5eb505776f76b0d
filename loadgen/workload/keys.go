package workload

import (
	"math"
)

// KeyBytes is the length of every key: eight hexadecimal digits of the key's number.
const KeyBytes = 8

// KeySpace is the population of keys and its distribution. Immutable: one for a run, shared by its producers.
type KeySpace struct {
	keys  Keys
	table *alias // zipf
	hot   int    // hot: the first so many keys
}

// NewKeySpace prepares a distribution; a zipf over a million keys takes some tens of milliseconds.
func NewKeySpace(k Keys) *KeySpace {
	space := &KeySpace{keys: k}
	switch k.Kind {
	case KeysZipf:
		weights := make([]float64, k.N)
		for i := range weights {
			weights[i] = math.Pow(float64(i+1), -k.S) // any s >= 0: s = 0 is uniform, s = 1 is harmonic
		}
		space.table = newAlias(weights)
	case KeysHot:
		space.hot = min(k.N, max(1, int(math.Round(k.Fraction*float64(k.N)))))
	}
	return space
}

// Picker draws the keys of one producer. It belongs to one goroutine.
type Picker struct {
	space  *KeySpace
	stream Stream
	next   int // roundrobin
}

// Picker begins one producer's keys. Round robins of several producers start spread over the keys.
func (k *KeySpace) Picker(seed uint64, producer int32) *Picker {
	p := &Picker{space: k, stream: NewStream(seed, producer, ForKeys)}
	if k.keys.Kind == KeysRoundRobin {
		p.next = int(splitmix64(seed^uint64(uint32(producer))) % uint64(k.keys.N))
	}
	return p
}

// Next is the number of the next record's key, below the number of keys; -1 is no key.
func (p *Picker) Next() int {
	k := &p.space.keys
	switch k.Kind {
	case KeysRoundRobin:
		n := p.next
		if p.next++; p.next == k.N {
			p.next = 0
		}
		return n
	case KeysUniform:
		return int(p.stream.Below(uint64(k.N)))
	case KeysZipf:
		return p.space.table.sample(&p.stream)
	case KeysHot:
		hot := p.space.hot
		if hot == k.N || p.stream.Float64() <= k.Share {
			return int(p.stream.Below(uint64(hot)))
		}
		return hot + int(p.stream.Below(uint64(k.N-hot)))
	}
	return -1
}

// AppendKey appends the key with that number; -1 appends nothing.
func AppendKey(dst []byte, number int) []byte {
	if number < 0 {
		return dst
	}
	const digits = "0123456789abcdef"
	n := uint32(number)
	return append(dst, digits[n>>28], digits[n>>24&15], digits[n>>20&15], digits[n>>16&15],
		digits[n>>12&15], digits[n>>8&15], digits[n>>4&15], digits[n&15])
}

// Murmur2 is the hash of Kafka's default partitioner (org.apache.kafka.common.utils.Utils.murmur2): MurmurHash2 of 32
// bits with the seed 0x9747b28c.
func Murmur2(b []byte) uint32 {
	const m = 0x5bd1e995
	h := 0x9747b28c ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
		k *= m
		k ^= k >> 24
		k *= m
		h = h*m ^ k
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(b[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

// PartitionFor is the partition that Kafka's producers choose for a key: murmur2 without its sign bit, modulo the
// number of partitions.
func PartitionFor(key []byte, partitions int) int32 {
	return int32((Murmur2(key) & 0x7fffffff) % uint32(partitions))
}

// Partitioner chooses topic and partition for one producer's records. It belongs to one goroutine.
//
// A record with a key goes where Kafka's murmur2 sends it, in the topic whose turn it is. Records without a key stay
// with one partition until batch-size bytes have gone there, then move on (Kafka's uniform sticky partitioner, KIP-794,
// with the next partition drawn at random); with the partitioner roundrobin they change with each record.
type Partitioner struct {
	topics, partitions uint32
	sticky             bool
	batchBytes, bytes  int
	stream             Stream
	topic, partition   uint32
}

// NewPartitioner begins one producer's choices; producers start spread over the partitions.
func NewPartitioner(s *Spec, producer int32) *Partitioner {
	p := &Partitioner{
		topics: uint32(s.Topics), partitions: uint32(s.Partitions), sticky: s.Partitioner != PartitionerRoundRobin,
		batchBytes: int(s.BatchSize), stream: NewStream(s.Seed, producer, ForPartitions),
	}
	start := uint32(p.stream.Below(uint64(p.topics) * uint64(p.partitions)))
	p.topic, p.partition = start/p.partitions, start%p.partitions
	return p
}

// Next is where the next record goes; key is nil for none, valueBytes the length of its value.
func (p *Partitioner) Next(key []byte, valueBytes int) (topic, partition int32) {
	if key != nil && p.sticky {
		if p.topics > 1 {
			if p.topic++; p.topic == p.topics {
				p.topic = 0
			}
		}
		return int32(p.topic), PartitionFor(key, int(p.partitions))
	}
	topic, partition = int32(p.topic), int32(p.partition)
	p.bytes += len(key) + valueBytes
	switch {
	case !p.sticky:
		if p.partition++; p.partition == p.partitions {
			p.partition = 0
			if p.topic++; p.topic == p.topics {
				p.topic = 0
			}
		}
	case p.bytes >= p.batchBytes:
		p.bytes = 0
		at := uint32(p.stream.Below(uint64(p.topics) * uint64(p.partitions)))
		p.topic, p.partition = at/p.partitions, at%p.partitions
	}
	return topic, partition
}

// NextRun is where the next records without a key go, when their values have valueBytes each: the first n of most share
// topic and partition. It draws as n calls of Next would.
func (p *Partitioner) NextRun(valueBytes, most int) (topic, partition int32, n int) {
	if n = 1; p.sticky {
		n = min(most, max(1, (p.batchBytes-p.bytes+valueBytes-1)/max(valueBytes, 1)))
		p.bytes += (n - 1) * valueBytes
	}
	topic, partition = p.Next(nil, valueBytes)
	return topic, partition, n
}
