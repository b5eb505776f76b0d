package commitlog

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"github.com/tidemark/tidemark/core/kafka"
)

// Sizes of an offset map's slots: 16 bytes of the key's hash and 8 of the offset.
const (
	mapHashBytes = 16
	mapSlotBytes = mapHashBytes + 8
)

// offsetMap holds the last offset of each key of the records that are to be cleaned. Keys are known by the first 16 bytes
// of their SHA-256: two keys with the same would be taken for one, and nobody can make such. Linear probing; a slot holds
// offset + 1, so 0 is free. It never grows: when it is full, cleaning goes only so far.
//
// Kafka's MD5 was not taken: a client that makes two keys collide could have another client's record removed.
type offsetMap struct {
	slots  []byte
	n      int // slots
	used   int
	limit  int          // of used
	latest kafka.Offset // everything up to here has been put; -1: nothing
}

// reset empties the map and gives it room for want keys, within budget bytes and filled to loadFactor at most.
func (m *offsetMap) reset(want, budget int64, loadFactor float64) {
	slots := max(budget/mapSlotBytes, 8)
	if few := float64(want)/loadFactor + 8; few < float64(slots) { // compared before it is an integer, which it may not fit
		slots = int64(few)
	}
	if need := int(slots) * mapSlotBytes; need <= cap(m.slots) && need*4 >= cap(m.slots) {
		m.slots = m.slots[:need]
		clear(m.slots)
	} else {
		m.slots = make([]byte, need)
	}
	m.n, m.used, m.latest = int(slots), 0, kafka.NoOffset
	// One slot stays free whatever the load factor: it ends the search for a key that is not there.
	m.limit = min(max(int(float64(slots)*loadFactor), 1), m.n-1)
}

// free lets the memory go.
func (m *offsetMap) free() { *m = offsetMap{} }

// slot finds the slot of a key, or the free one where it belongs.
func (m *offsetMap) slot(key []byte) (s []byte, hash [sha256.Size]byte, found bool) {
	hash = sha256.Sum256(key)
	hi, _ := bits.Mul64(binary.LittleEndian.Uint64(hash[:]), uint64(m.n))
	for i := int(hi); ; {
		s = m.slots[i*mapSlotBytes:][:mapSlotBytes:mapSlotBytes]
		if binary.LittleEndian.Uint64(s[mapHashBytes:]) == 0 {
			return s, hash, false
		}
		if string(s[:mapHashBytes]) == string(hash[:mapHashBytes]) {
			return s, hash, true
		}
		if i++; i == m.n {
			i = 0
		}
	}
}

// put notes that key is at off, above all offsets before; false when the map is full.
func (m *offsetMap) put(key []byte, off kafka.Offset) bool {
	s, hash, found := m.slot(key)
	if !found {
		if m.used >= m.limit {
			return false
		}
		m.used++
		copy(s, hash[:mapHashBytes])
	}
	binary.LittleEndian.PutUint64(s[mapHashBytes:], uint64(off)+1)
	m.latest = off
	return true
}

// superseded reports whether key comes again behind off.
func (m *offsetMap) superseded(key []byte, off kafka.Offset) bool {
	s, _, found := m.slot(key)
	return found && kafka.Offset(binary.LittleEndian.Uint64(s[mapHashBytes:])-1) > off
}
