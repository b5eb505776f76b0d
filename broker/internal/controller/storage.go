package controller

import (
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// storage is what Raft reads of its log: the entries behind the last applied ones, in memory. Older entries lie in the
// write-ahead log and in the snapshot; with a single voter nobody asks for them again. It is used by the controller's
// goroutine alone.
type storage struct {
	hard *raftpb.HardState
	conf *raftpb.ConfState
	// first is the index of entries[0]; the entry before it has term firstTerm and is gone.
	first     uint64
	firstTerm uint64
	entries   []*raftpb.Entry
}

var _ raft.Storage = (*storage)(nil)

// InitialState implements raft.Storage.
func (s *storage) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return s.hard, s.conf, nil
}

// Entries implements raft.Storage.
func (s *storage) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	if lo < s.first {
		return nil, raft.ErrCompacted
	}
	if hi > s.end() {
		return nil, raft.ErrUnavailable
	}
	var size uint64
	out := s.entries[lo-s.first : hi-s.first : hi-s.first]
	for i, e := range out {
		if size += uint64(len(e.GetData())) + entryOverhead; size > maxSize && i > 0 {
			return out[:i:i], nil
		}
	}
	return out, nil
}

// entryOverhead is about what an entry takes beside its data.
const entryOverhead = 16

// Term implements raft.Storage.
func (s *storage) Term(i uint64) (uint64, error) {
	switch {
	case i+1 == s.first:
		return s.firstTerm, nil
	case i < s.first:
		return 0, raft.ErrCompacted
	case i >= s.end():
		return 0, raft.ErrUnavailable
	}
	return s.entries[i-s.first].GetTerm(), nil
}

func (s *storage) end() uint64 { return s.first + uint64(len(s.entries)) }

// LastIndex implements raft.Storage.
func (s *storage) LastIndex() (uint64, error) { return s.end() - 1, nil }

// FirstIndex implements raft.Storage.
func (s *storage) FirstIndex() (uint64, error) { return s.first, nil }

// Snapshot implements raft.Storage. Only followers are sent snapshots, and a single voter has none.
func (s *storage) Snapshot() (*raftpb.Snapshot, error) {
	return nil, raft.ErrSnapshotTemporarilyUnavailable
}

// append adds entries at the end; where they overlap with older ones, the older ones and all behind them go.
func (s *storage) append(entries []*raftpb.Entry) {
	if len(entries) == 0 {
		return
	}
	at := entries[0].GetIndex() - s.first
	s.entries = append(s.entries[:at:at], entries...)
}

// compact forgets the entries up to and including index.
func (s *storage) compact(index uint64) {
	if index < s.first {
		return
	}
	term, err := s.Term(index)
	if err != nil {
		return
	}
	rest := s.entries[index+1-s.first:]
	s.entries = append([]*raftpb.Entry(nil), rest...)
	s.first, s.firstTerm = index+1, term
}
