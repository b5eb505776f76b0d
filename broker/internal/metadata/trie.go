package metadata

import (
	"hash/maphash"
	"math/bits"
	"slices"
)

// trie is a persistent map: a hash array mapped trie of 32-way nodes. A change copies the nodes on one path, a few
// hundred bytes, and shares all others with the map before it; a plain Go map of 100,000 topics would be copied whole,
// some milliseconds, for each topic that is created. A look-up costs one hash and at most a handful of steps.
//
// The zero value is empty. The seed is random, so that names chosen by clients cannot be made to collide.
type trie[K comparable, V any] struct {
	root *trieNode[K, V]
	len  int
	seed maphash.Seed
}

// trieNode holds up to 32 slots, those whose bits are set, in the order of their bits. Below the last level of the
// hash, where bitmap is 0, slots are a plain list.
type trieNode[K comparable, V any] struct {
	bitmap uint32
	slots  []trieSlot[K, V]
	edit   *edit // who may change the node in place
}

// trieSlot is a child, or a key and its value.
type trieSlot[K comparable, V any] struct {
	child *trieNode[K, V]
	key   K
	value V
}

// edit is one round of changes: nodes made in it are not shared yet and are changed in place.
type edit struct{ load bool } // of a Load: values too are changed in place

const (
	trieBits   = 5
	trieLevels = 13 // 13 * 5 bits use up the 64 of the hash
)

func (t *trie[K, V]) hash(k K) uint64 { return maphash.Comparable(t.seed, k) }

func (t *trie[K, V]) get(k K) (V, bool) {
	var none V
	n := t.root
	if n == nil {
		return none, false
	}
	h := t.hash(k)
	for level := 0; level < trieLevels; level++ {
		bit := uint32(1) << (h >> (level * trieBits) & 31)
		if n.bitmap&bit == 0 {
			return none, false
		}
		s := &n.slots[bits.OnesCount32(n.bitmap&(bit-1))]
		if s.child == nil {
			if s.key == k {
				return s.value, true
			}
			return none, false
		}
		n = s.child
	}
	for i := range n.slots {
		if n.slots[i].key == k {
			return n.slots[i].value, true
		}
	}
	return none, false
}

// with returns the map that holds the key with the value.
func (t trie[K, V]) with(e *edit, k K, v V) trie[K, V] {
	if t.root == nil {
		t.seed = maphash.MakeSeed()
		t.root = &trieNode[K, V]{edit: e}
	}
	var added bool
	t.root, added = t.insert(e, t.root, t.hash(k), 0, k, v)
	if added {
		t.len++
	}
	return t
}

// trieOf makes a map of values whose keys are all different: each node is made once, with the room that it needs. ok is false when
// two keys are the same.
func trieOf[K comparable, V any](e *edit, values []V, key func(V) K) (t trie[K, V], ok bool) {
	if len(values) == 0 {
		return t, true
	}
	t.seed = maphash.MakeSeed()
	leaves, sorted := make([]hashed, len(values)), make([]hashed, len(values))
	for i, v := range values {
		leaves[i] = hashed{t.hash(key(v)), int32(i)}
	}
	t.len = len(values)
	t.root, ok = nodeOf(e, values, key, leaves, sorted, 0)
	return t, ok
}

// hashed is a value's place in a list and the hash of its key.
type hashed struct {
	hash uint64
	at   int32
}

// nodeOf makes the node of some leaves, which are sorted into another slice by the way, and back at the level below.
func nodeOf[K comparable, V any](e *edit, values []V, key func(V) K, leaves, sorted []hashed, level int) (*trieNode[K, V], bool) {
	if level == trieLevels {
		n, seen := &trieNode[K, V]{edit: e}, make(map[K]struct{}, len(leaves))
		for _, l := range leaves {
			k := key(values[l.at])
			seen[k] = struct{}{}
			n.slots = append(n.slots, trieSlot[K, V]{key: k, value: values[l.at]})
		}
		return n, len(seen) == len(leaves)
	}
	var ends [1 << trieBits]int32
	for _, l := range leaves {
		ends[l.hash>>(level*trieBits)&31]++
	}
	n, used := &trieNode[K, V]{edit: e}, 0
	sum := int32(0)
	for i, c := range ends {
		if c > 0 {
			n.bitmap |= 1 << i
			used++
		}
		ends[i] = sum // where the group begins; where it ends, once it is filled
		sum += c
	}
	for _, l := range leaves {
		g := l.hash >> (level * trieBits) & 31
		sorted[ends[g]] = l
		ends[g]++
	}
	n.slots = make([]trieSlot[K, V], 0, used)
	from := int32(0)
	for i, end := range ends {
		switch {
		case n.bitmap&(1<<i) == 0:
			continue
		case end-from == 1:
			v := values[sorted[from].at]
			n.slots = append(n.slots, trieSlot[K, V]{key: key(v), value: v})
		default:
			child, ok := nodeOf(e, values, key, sorted[from:end], leaves[from:end], level+1)
			if !ok {
				return nil, false
			}
			n.slots = append(n.slots, trieSlot[K, V]{child: child})
		}
		from = end
	}
	return n, true
}

// own is the node itself when this edit made it, else a copy.
func (n *trieNode[K, V]) own(e *edit) *trieNode[K, V] {
	if e != nil && n.edit == e {
		return n
	}
	// One more than there is: a node is mostly copied to be added to.
	slots := append(make([]trieSlot[K, V], 0, len(n.slots)+1), n.slots...)
	return &trieNode[K, V]{bitmap: n.bitmap, slots: slots, edit: e}
}

// replaced returns the map with f applied to every value, without a look-up for each.
func (t trie[K, V]) replaced(e *edit, f func(V) V) trie[K, V] {
	if t.root != nil {
		t.root = t.root.replaced(e, f)
	}
	return t
}

func (n *trieNode[K, V]) replaced(e *edit, f func(V) V) *trieNode[K, V] {
	n = n.own(e)
	for i := range n.slots {
		if s := &n.slots[i]; s.child != nil {
			s.child = s.child.replaced(e, f)
		} else {
			s.value = f(s.value)
		}
	}
	return n
}

func (t *trie[K, V]) insert(e *edit, n *trieNode[K, V], h uint64, level int, k K, v V) (*trieNode[K, V], bool) {
	n = n.own(e)
	leaf := trieSlot[K, V]{key: k, value: v}
	if level == trieLevels {
		for i := range n.slots {
			if n.slots[i].key == k {
				n.slots[i] = leaf
				return n, false
			}
		}
		n.slots = append(n.slots, leaf)
		return n, true
	}
	bit := uint32(1) << (h >> (level * trieBits) & 31)
	i := bits.OnesCount32(n.bitmap & (bit - 1))
	if n.bitmap&bit == 0 {
		n.bitmap |= bit
		n.slots = slices.Insert(n.slots, i, leaf)
		return n, true
	}
	s := n.slots[i]
	switch {
	case s.child != nil:
		child, added := t.insert(e, s.child, h, level+1, k, v)
		n.slots[i].child = child
		return n, added
	case s.key == k:
		n.slots[i] = leaf
		return n, false
	}
	child, _ := t.insert(e, &trieNode[K, V]{edit: e}, t.hash(s.key), level+1, s.key, s.value)
	child, _ = t.insert(e, child, h, level+1, k, v)
	n.slots[i] = trieSlot[K, V]{child: child}
	return n, true
}

// without returns the map that does not hold the key.
func (t trie[K, V]) without(e *edit, k K) trie[K, V] {
	if t.root == nil {
		return t
	}
	root, removed := t.remove(e, t.root, t.hash(k), 0, k)
	if removed {
		t.root = root
		t.len--
	}
	return t
}

// remove keeps paths as short as inserting alone would have made them: a child with one key left becomes that key.
func (t *trie[K, V]) remove(e *edit, n *trieNode[K, V], h uint64, level int, k K) (*trieNode[K, V], bool) {
	i, bit := -1, uint32(0)
	if level == trieLevels {
		i = slices.IndexFunc(n.slots, func(s trieSlot[K, V]) bool { return s.key == k })
	} else {
		bit = uint32(1) << (h >> (level * trieBits) & 31)
		if n.bitmap&bit != 0 {
			i = bits.OnesCount32(n.bitmap & (bit - 1))
		}
	}
	if i < 0 {
		return n, false
	}
	if child := n.slots[i].child; child != nil {
		child, removed := t.remove(e, child, h, level+1, k)
		if !removed {
			return n, false
		}
		n = n.own(e)
		if len(child.slots) == 1 && child.slots[0].child == nil {
			n.slots[i] = child.slots[0]
		} else {
			n.slots[i].child = child
		}
		return n, true
	}
	if n.slots[i].key != k {
		return n, false
	}
	n = n.own(e)
	n.bitmap &^= bit
	n.slots = slices.Delete(n.slots, i, i+1)
	return n, true
}

// all calls f for each key until it answers false, in no order.
func (t *trie[K, V]) all(f func(K, V) bool) {
	if t.root != nil {
		t.root.all(f)
	}
}

func (n *trieNode[K, V]) all(f func(K, V) bool) bool {
	for i := range n.slots {
		s := &n.slots[i]
		if s.child != nil && !s.child.all(f) || s.child == nil && !f(s.key, s.value) {
			return false
		}
	}
	return true
}
