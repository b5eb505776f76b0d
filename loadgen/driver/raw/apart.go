package raw

import (
	"hash/crc32"
	"net"
	"sync"

	"github.com/tidemark/tidemark/loadgen/driver"
)

// apartBytes is the least value that is worth two more pieces in the socket's list; shorter ones are copied.
const apartBytes = 512

// crcAt is where a batch header has its CRC, crcFrom where what it covers begins.
const crcAt, crcFrom = 17, 21

// apart is a value that is not in its batch's buffer: it belongs at that position of it.
type apart struct {
	at    int
	value []byte
	sum   uint32 // CRC-32C of value
}

// scatters reports whether large values may be sent from where they are: not where a codec has to see them.
func scatters(cfg *driver.Config) bool { return cfg.Codec == 0 }

// joinedCRC is the CRC-32C of the whole batch behind the CRC field. What is in the buffer is summed up as ever, for each
// send; the values' own sums are joined to it.
func (b *batch) joinedCRC(j *joins) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // made once, by hash/crc32
	sum, from := uint32(0), crcFrom
	var behind *join
	last := -1
	for i := range b.apart {
		a := &b.apart[i]
		sum = crc32.Update(sum, table, b.wire[from:a.at])
		from = a.at
		if len(a.value) != last {
			last = len(a.value)
			behind = j.of(last)
		}
		if behind == nil {
			sum = crc32.Update(sum, table, a.value)
		} else {
			sum = behind.zeros(sum) ^ a.sum
		}
	}
	return crc32.Update(sum, table, b.wire[from:])
}

// appendPieces lists the sealed batch for the socket.
func (b *batch) appendPieces(dst net.Buffers) net.Buffers {
	from := 0
	for i := range b.apart {
		a := &b.apart[i]
		dst = append(dst, b.wire[from:a.at], a.value)
		from = a.at
	}
	return append(dst, b.wire[from:])
}

// copyTo copies the sealed batch in one piece.
func (b *batch) copyTo(dst []byte) int {
	n, from := 0, 0
	for i := range b.apart {
		a := &b.apart[i]
		n += copy(dst[n:], b.wire[from:a.at])
		n += copy(dst[n:], a.value)
		from = a.at
	}
	return n + copy(dst[n:], b.wire[from:])
}

// join moves a CRC-32C over as many zero bytes as a value has: the CRC of a sequence is that of its first part, moved over
// the length of the second, XOR that of the second. Moving is linear, so a table for each byte of the CRC does it.
type join [4][256]uint32

func (j *join) zeros(sum uint32) uint32 {
	return j[0][byte(sum)] ^ j[1][byte(sum>>8)] ^ j[2][byte(sum>>16)] ^ j[3][sum>>24]
}

func newJoin(length int) *join {
	table, zeros := crc32.MakeTable(crc32.Castagnoli), make([]byte, length)
	j := new(join)
	for bit := range 32 {
		moved := ^crc32.Update(^(uint32(1) << bit), table, zeros)
		low := 1 << (bit % 8)
		for k := range low {
			j[bit/8][low|k] = j[bit/8][k] ^ moved
		}
	}
	return j
}

// maxJoins bounds the lengths that have a table of 4 KiB; values of others are summed up byte by byte.
const maxJoins = 32

// joins are the tables of a run's lengths. Most runs have one.
type joins struct {
	mu   sync.Mutex
	made map[int]*join
}

// of is the table for a length, nil where there are too many lengths.
func (s *joins) of(length int) *join {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.made[length]
	if j == nil && len(s.made) < maxJoins {
		if s.made == nil {
			s.made = map[int]*join{}
		}
		j = newJoin(length)
		s.made[length] = j
	}
	return j
}
