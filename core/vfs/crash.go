package vfs

import (
	"maps"
	"slices"
)

// crashPage is the piece in which a disk keeps or loses a write.
const crashPage = 4096

// CrashClone returns the file system as a crash at this moment may have left it, and leaves m as it is. Synced data
// and synced folder entries are there. Of what came after, each piece of a write (a page) and each truncation is kept
// when keep says so, applied in its order; of the changes of a folder a first part is kept, up to the first one that
// keep refuses, since file systems with a journal keep their order within a folder. func() bool { return false } is
// the worst power loss, one that always answers true is the death of the process alone. m must come from NewCrashable.
func (m *Mem) CrashClone(keep func() bool) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := crash{keep: keep, nodes: map[*memNode]*memNode{}, moves: maps.Clone(m.mu.moves), asked: map[int]bool{}}
	out := NewCrashable(m.now)
	out.mu.root = c.clone(m.mu.root)
	return out
}

type crash struct {
	keep  func() bool
	nodes map[*memNode]*memNode
	moves map[int]bool // renames between folders: kept or not
	asked map[int]bool
}

func (c *crash) keepOp(op memDirOp) bool {
	if op.id == 0 {
		return c.keep()
	}
	if !c.asked[op.id] {
		c.asked[op.id] = true
		c.moves[op.id] = c.moves[op.id] || c.keep()
	}
	return c.moves[op.id]
}

func (c *crash) clone(n *memNode) *memNode {
	if done := c.nodes[n]; done != nil {
		return done
	}
	out := &memNode{dir: n.dir, mod: n.mod}
	c.nodes[n] = out
	if !n.dir {
		out.data = c.data(n)
		out.synced = slices.Clone(out.data)
		return out
	}
	entries := maps.Clone(n.syncedEntries)
	for _, op := range n.ops {
		if !c.keepOp(op) {
			break
		}
		op.apply(entries)
	}
	out.entries = map[string]*memNode{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		out.entries[name] = c.clone(entries[name])
	}
	out.syncedEntries = maps.Clone(out.entries)
	return out
}

func (c *crash) data(n *memNode) []byte {
	data := slices.Clone(n.synced)
	for _, w := range n.writes {
		if w.data == nil {
			if c.keep() {
				data = w.apply(data)
			}
			continue
		}
		for off := w.off; off < w.off+int64(len(w.data)); {
			end := min(off/crashPage*crashPage+crashPage, w.off+int64(len(w.data)))
			if c.keep() {
				data = memWrite{off: off, data: w.data[off-w.off : end-w.off]}.apply(data)
			}
			off = end
		}
	}
	return data
}
