package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mem is a file system in memory. One made by NewCrashable also remembers what has been synced and every write since,
// so that CrashClone can show what a power loss might have left.
type Mem struct {
	now       func() time.Time
	crashable bool

	mu struct {
		sync.Mutex
		root   *memNode
		locked map[*memNode]bool
		moves  map[int]bool // renames between folders of which one side has been synced
		nextID int
	}
}

var _ FS = (*Mem)(nil)

// memNode is a file or a folder. Mem.mu guards it.
type memNode struct {
	dir     bool
	mod     time.Time
	data    []byte
	entries map[string]*memNode

	synced        []byte // what a crash keeps for sure
	writes        []memWrite
	syncedEntries map[string]*memNode
	ops           []memDirOp
}

// memWrite is a write, or with data nil a truncation to off, that no sync has covered.
type memWrite struct {
	off  int64
	data []byte
}

// memDirOp is a change of a folder that no SyncDir has covered: drop goes and add comes, in one step. Both sides of a
// rename between folders share an id, since a file system with a journal keeps both or neither.
type memDirOp struct {
	drop, add string
	node      *memNode
	id        int
}

// NewMem returns an empty file system whose files carry the time that now tells (nil: the system's clock).
func NewMem(now func() time.Time) *Mem {
	if now == nil {
		now = time.Now
	}
	m := &Mem{now: now}
	m.mu.root = newMemDir(now())
	m.mu.locked = map[*memNode]bool{}
	m.mu.moves = map[int]bool{}
	return m
}

// NewCrashable is NewMem with a memory of what has been synced. It keeps a copy of every write until the next sync.
func NewCrashable(now func() time.Time) *Mem {
	m := NewMem(now)
	m.crashable = true
	return m
}

func newMemDir(mod time.Time) *memNode {
	return &memNode{dir: true, mod: mod, entries: map[string]*memNode{}, syncedEntries: map[string]*memNode{}}
}

func splitName(name string) []string {
	name = strings.Trim(path.Clean("/"+name), "/")
	if name == "" {
		return nil
	}
	return strings.Split(name, "/")
}

// findLocked walks to a name.
func (m *Mem) findLocked(op, name string) (*memNode, error) {
	n := m.mu.root
	for _, part := range splitName(name) {
		if !n.dir {
			return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
		}
		next := n.entries[part]
		if next == nil {
			return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
		}
		n = next
	}
	return n, nil
}

// parentLocked finds the folder that holds, or would hold, a name.
func (m *Mem) parentLocked(op, name string) (*memNode, string, error) {
	parts := splitName(name)
	if len(parts) == 0 {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: syscall.EINVAL}
	}
	dir, err := m.findLocked(op, path.Join(parts[:len(parts)-1]...))
	if err == nil && !dir.dir {
		err = &fs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
	}
	return dir, parts[len(parts)-1], err
}

// changeLocked applies a folder change and remembers it.
func (m *Mem) changeLocked(dir *memNode, op memDirOp) {
	op.apply(dir.entries)
	dir.mod = m.now()
	if m.crashable {
		dir.ops = append(dir.ops, op)
	}
}

func (op memDirOp) apply(entries map[string]*memNode) {
	if op.drop != "" {
		delete(entries, op.drop)
	}
	if op.add != "" {
		entries[op.add] = op.node
	}
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) { return m.OpenFile(name, ReadOnly) }

// Create implements FS.
func (m *Mem) Create(name string) (File, error) { return m.OpenFile(name, Create|Trunc) }

// OpenFile implements FS.
func (m *Mem) OpenFile(name string, flag Flag) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parentLocked("open", name)
	if err != nil {
		return nil, err
	}
	n := dir.entries[base]
	switch {
	case n == nil && flag&Create == 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	case n == nil:
		n = &memNode{mod: m.now()}
		m.changeLocked(dir, memDirOp{add: base, node: n})
	case flag&Excl != 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EEXIST}
	case n.dir:
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	}
	f := &memFile{m: m, n: n, name: name, readOnly: flag&ReadOnly != 0}
	if flag&Trunc != 0 {
		f.truncateLocked(0)
	}
	return f, nil
}

// Mkdir implements FS.
func (m *Mem) Mkdir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parentLocked("mkdir", name)
	if err != nil {
		return err
	}
	if dir.entries[base] != nil {
		return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.EEXIST}
	}
	m.changeLocked(dir, memDirOp{add: base, node: newMemDir(m.now())})
	return nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(name string) error {
	parts := splitName(name)
	for i := range parts {
		sub := path.Join(parts[:i+1]...)
		if st, err := m.Stat(sub); err == nil {
			if !st.IsDir {
				return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
			}
			continue
		}
		if err := m.Mkdir(sub); err != nil {
			return err
		}
	}
	return nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parentLocked("remove", name)
	if err != nil {
		return err
	}
	n := dir.entries[base]
	switch {
	case n == nil:
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOENT}
	case n.dir && len(n.entries) > 0:
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
	}
	m.changeLocked(dir, memDirOp{drop: base})
	return nil
}

// RemoveAll implements FS.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parentLocked("remove", name)
	if err != nil || dir.entries[base] == nil {
		return nil
	}
	m.changeLocked(dir, memDirOp{drop: base})
	return nil
}

// Rename implements FS.
func (m *Mem) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, oldBase, err := m.parentLocked("rename", oldName)
	if err != nil {
		return err
	}
	to, newBase, err := m.parentLocked("rename", newName)
	if err != nil {
		return err
	}
	n := from.entries[oldBase]
	if n == nil {
		return &fs.PathError{Op: "rename", Path: oldName, Err: syscall.ENOENT}
	}
	if old := to.entries[newBase]; old != nil && old.dir && len(old.entries) > 0 {
		return &fs.PathError{Op: "rename", Path: newName, Err: syscall.ENOTEMPTY}
	}
	if from == to {
		m.changeLocked(from, memDirOp{drop: oldBase, add: newBase, node: n})
		return nil
	}
	m.mu.nextID++
	m.changeLocked(to, memDirOp{add: newBase, node: n, id: m.mu.nextID})
	m.changeLocked(from, memDirOp{drop: oldBase, id: m.mu.nextID})
	return nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(name string) ([]Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findLocked("readdir", name)
	if err != nil {
		return nil, err
	}
	if !n.dir {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: syscall.ENOTDIR}
	}
	var infos []Info
	for _, base := range slices.Sorted(maps.Keys(n.entries)) {
		infos = append(infos, Info{Name: base, IsDir: n.entries[base].dir})
	}
	return infos, nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findLocked("stat", name)
	if err != nil {
		return Info{}, err
	}
	return Info{Name: path.Base(name), Size: int64(len(n.data)), ModTime: n.mod, IsDir: n.dir}, nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findLocked("sync", name)
	if err != nil {
		return err
	}
	if m.crashable {
		n.syncedEntries = maps.Clone(n.entries)
		for _, op := range n.ops {
			if op.id != 0 {
				m.mu.moves[op.id] = true
			}
		}
		n.ops = nil
	}
	return nil
}

// SyncAll implements FS.
func (m *Mem) SyncAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.findLocked("sync", name); err != nil {
		return err
	}
	if m.crashable {
		m.syncAllLocked(m.mu.root)
	}
	return nil
}

func (m *Mem) syncAllLocked(n *memNode) {
	if !n.dir {
		n.synced, n.writes = slices.Clone(n.data), nil
		return
	}
	n.syncedEntries, n.ops = maps.Clone(n.entries), nil // both sides of every rename at once
	for _, e := range n.entries {
		m.syncAllLocked(e)
	}
}

// FreeBytes implements FS.
func (m *Mem) FreeBytes(string) (int64, error) { return 1 << 40, nil }

// TotalBytes implements FS.
func (m *Mem) TotalBytes(string) (int64, error) { return 1 << 40, nil }

type memLock struct {
	m *Mem
	n *memNode
}

// Close releases the lock.
func (l memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	delete(l.m.mu.locked, l.n)
	return nil
}

// Lock implements FS.
func (m *Mem) Lock(name string) (io.Closer, error) {
	f, err := m.OpenFile(name, Create)
	if err != nil {
		return nil, err
	}
	n := f.(*memFile).n
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.locked[n] {
		return nil, fmt.Errorf("%s is in use: %w", name, ErrLocked)
	}
	m.mu.locked[n] = true
	return memLock{m, n}, nil
}
