package verify

import "math/bits"

// chunkBits is the stretch of sequences that share one bitmap of 8 KiB.
const chunkBits = 1 << 16

// chunk is one stretch: bits nil and count chunkBits is complete, bits nil and count 0 is empty.
type chunk struct {
	bits  []uint64
	count int
}

func (c *chunk) full() bool { return c.count == chunkBits }

// set holds the sequences of one producer. A stretch that is complete gives its bitmap back, so a run that loses nothing
// holds the last few stretches alone.
type set struct {
	chunks []chunk
	spare  []uint64 // the bitmap of the last stretch completed
	count  int64
}

// maxChunks bounds sequences to 2^36 (19 hours at a million a second): a damaged sequence must not allocate the world.
const maxChunks = 1 << 20

// add reports whether seq was new. Sequences beyond the bound are not kept and count as new.
func (s *set) add(seq uint64) bool {
	n := seq / chunkBits
	if n >= maxChunks {
		return true
	}
	for uint64(len(s.chunks)) <= n {
		s.chunks = append(s.chunks, chunk{})
	}
	c := &s.chunks[n]
	if c.full() {
		return false
	}
	if c.bits == nil {
		if c.bits = s.spare; c.bits == nil {
			c.bits = make([]uint64, chunkBits/64)
		}
		s.spare = nil
	}
	word, bit := &c.bits[seq%chunkBits/64], uint64(1)<<(seq%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	s.count++
	if c.count++; c.full() {
		clear(c.bits)
		s.spare, c.bits = c.bits, nil
	}
	return true
}

// addRun adds n sequences that follow each other, a word of the bitmap at a time.
func (s *set) addRun(first uint64, n int) {
	for n > 0 {
		left := min(uint64(n), 64-first%64)
		if !s.addWord(first, ^uint64(0)>>(64-left)<<(first%64)) {
			for i := range left {
				s.add(first + i)
			}
		}
		first, n = first+left, n-int(left)
	}
}

// addWord adds sequences of one word, first's, all of them new, in a stretch that has its bitmap and does not become
// complete; false where that is not the case.
func (s *set) addWord(first, mask uint64) bool {
	i := first / chunkBits
	if i >= uint64(len(s.chunks)) {
		return false
	}
	c := &s.chunks[i]
	n := bits.OnesCount64(mask)
	if c.bits == nil || c.count+n >= chunkBits || c.bits[first%chunkBits/64]&mask != 0 {
		return false
	}
	c.bits[first%chunkBits/64] |= mask
	c.count += n
	s.count += int64(n)
	return true
}

func (s *set) has(seq uint64) bool {
	n := seq / chunkBits
	if n >= uint64(len(s.chunks)) {
		return false
	}
	c := &s.chunks[n]
	return c.full() || c.bits != nil && c.bits[seq%chunkBits/64]&(1<<(seq%64)) != 0
}

func (s *set) chunkAt(n int) chunk {
	if s == nil || n >= len(s.chunks) {
		return chunk{}
	}
	return s.chunks[n]
}

func (c *chunk) word(i int) uint64 {
	switch {
	case c.full():
		return ^uint64(0)
	case c.bits == nil:
		return 0
	}
	return c.bits[i]
}

// missing calls fn, in order, for each member of s that other does not have, and returns their number; fn may be nil. A nil
// set is empty.
func (s *set) missing(other *set, fn func(seq uint64)) int64 {
	if s == nil {
		return 0
	}
	n := int64(0)
	for i := range s.chunks {
		a, b := s.chunks[i], other.chunkAt(i)
		if a.count == 0 || b.full() {
			continue
		}
		for w := range chunkBits / 64 {
			left := a.word(w) &^ b.word(w)
			n += int64(bits.OnesCount64(left))
			for ; fn != nil && left != 0; left &= left - 1 {
				fn(uint64(i)*chunkBits + uint64(w)*64 + uint64(bits.TrailingZeros64(left)))
			}
		}
	}
	return n
}

// spans is a set of offsets as disjoint half-open intervals in ascending order. What arrives in order extends the last one.
type spans struct {
	list  []span
	count int64
}

type span struct{ start, end int64 }

// add reports whether the offset was new.
func (s *spans) add(at int64) bool {
	if n := len(s.list); n > 0 {
		last := &s.list[n-1]
		switch {
		case at == last.end:
			last.end++
			s.count++
			return true
		case at > last.end:
			s.list = append(s.list, span{at, at + 1})
			s.count++
			s.trim()
			return true
		case at >= last.start:
			return false
		}
	} else {
		s.list = append(s.list, span{at, at + 1})
		s.count++
		return true
	}
	return s.insert(at)
}

// maxSpans bounds the intervals; beyond it the hole between the two lowest counts as seen.
const maxSpans = 1 << 18

// trim keeps the bound.
func (s *spans) trim() {
	if len(s.list) > maxSpans {
		s.list[1].start = s.list[0].start
		s.list = s.list[1:]
	}
}

// insert places an offset before the last interval.
func (s *spans) insert(at int64) bool {
	low, high := 0, len(s.list) // the first interval that ends behind at
	for low < high {
		if mid := (low + high) / 2; s.list[mid].end <= at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if s.list[low].start <= at {
		return false
	}
	s.count++
	joinsLeft := low > 0 && s.list[low-1].end == at
	joinsRight := s.list[low].start == at+1
	switch {
	case joinsLeft && joinsRight:
		s.list[low-1].end = s.list[low].end
		s.list = append(s.list[:low], s.list[low+1:]...)
	case joinsLeft:
		s.list[low-1].end++
	case joinsRight:
		s.list[low].start--
	default:
		s.list = append(s.list, span{})
		copy(s.list[low+1:], s.list[low:])
		s.list[low] = span{at, at + 1}
		s.trim()
	}
	return true
}
