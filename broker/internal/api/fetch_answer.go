package api

import (
	"bytes"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/wire"
)

// refuse answers a whole fetch with an error.
func (f *fetchCall) refuse(code kafka.ErrorCode) {
	c := f.call
	b := f.h.Pool.Get(replyBytes)
	out := wire.AppendResponseHeader(b.B[:0], c.CorrelationID, c.Version >= wire.FetchFlexible)
	out = wire.AppendFetchHead(out, c.Version, 0, code, 0, 0)
	c.send(b, wire.AppendFetchEnd(out, c.Version))
}

// answer encodes what was read and completes the call. Pages that are not in memory are read first, by somebody else.
func (f *fetchCall) answer() {
	if f.leases > 0 {
		if folder, all := f.resident(); !all {
			f.h.cold[folder].push(f)
			return
		}
	}
	sessionID := int32(0)
	if f.session != nil {
		sessionID = f.session.ID()
		f.news()
	}
	c := f.call
	b := f.h.Pool.Get(f.headBytes())
	out := wire.AppendResponseHeader(b.B[:0], c.CorrelationID, c.Version >= wire.FetchFlexible)
	out = wire.AppendFetchHead(out, c.Version, 0, kafka.None, sessionID, f.topics())
	from, sent := 0, 0
	for i := 0; i < len(f.parts); {
		if f.parts[i].absent {
			i++
			continue
		}
		end, n := f.topicEnd(i)
		first := &f.parts[i]
		out = wire.AppendFetchTopic(out, c.Version, first.name, first.key.ID, n)
		for ; i < end; i++ {
			p := &f.parts[i]
			if p.absent {
				continue
			}
			if p.result.Err == kafka.KafkaStorageError && c.Version <= 5 {
				p.result.Err = kafka.NotLeaderForPartition // which such clients know: they look for another leader
			}
			out = wire.AppendFetchResult(out, c.Version, &p.result)
			if p.result.Bytes > 0 {
				c.Answer.Pieces = append(c.Answer.Pieces, Piece{From: from, To: len(out)})
				from = len(out)
				sent += p.result.Bytes
				f.pieces(p)
			}
			out = wire.AppendFetchResultEnd(out, c.Version, &p.result)
		}
		out = wire.AppendFetchEnd(out, c.Version)
	}
	out = wire.AppendFetchEnd(out, c.Version)
	if len(c.Answer.Pieces) > 0 {
		c.Answer.Pieces = append(c.Answer.Pieces, Piece{From: from, To: len(out)})
	}
	wire.FinishFrame(out, sent)
	if cap(out) == cap(b.B) {
		c.Answer.Buf = b
	} else {
		b.Release()
	}
	c.Answer.Head = out
	c.Conn.Completed(c)
}

// pieces adds a partition's batches to the answer.
func (f *fetchCall) pieces(p *fetchPart) {
	a := &f.call.Answer
	switch {
	case p.copied != nil:
		a.Pieces = append(a.Pieces, Piece{B: p.copied.B})
	case p.slice.File.Lease != nil:
		a.Pieces = append(a.Pieces, Piece{Lease: p.slice.File.Lease, Pos: p.slice.File.Pos, N: p.slice.File.N})
	default:
		for _, b := range p.slice.Tail {
			a.Pieces = append(a.Pieces, Piece{B: b})
		}
	}
}

// news leaves out of a session's answer what the client knows already, and turns the session.
func (f *fetchCall) news() {
	s := f.session
	s.Lock()
	defer s.Unlock()
	for i := range f.parts {
		p := &f.parts[i]
		r := &p.result
		if r.Err != kafka.None {
			s.Failed(p.key)
			continue
		}
		news := s.Told(p.key, r.HighWatermark, r.LogStart, r.Bytes > 0)
		p.absent = !f.full && !news && r.Bytes == 0 && !r.Diverging
	}
}

func sameTopic(a, b *fetchPart) bool { return a.key.ID == b.key.ID && bytes.Equal(a.name, b.name) }

// topicEnd gives the end of the run of partitions of one topic that begins at i, and how many of them are answered.
func (f *fetchCall) topicEnd(i int) (end, n int) {
	first := &f.parts[i]
	for end = i; end < len(f.parts); end++ {
		p := &f.parts[end]
		if !sameTopic(first, p) {
			break
		}
		if !p.absent {
			n++
		}
	}
	return end, n
}

// topics counts the runs of answered partitions of one topic.
func (f *fetchCall) topics() (n int) {
	for i := 0; i < len(f.parts); {
		if f.parts[i].absent {
			i++
			continue
		}
		i, _ = f.topicEnd(i)
		n++
	}
	return n
}

// headBytes bounds the answer without its record batches.
func (f *fetchCall) headBytes() int {
	n, named := 64, false
	for i := range f.parts {
		p := &f.parts[i]
		if i > 0 && !sameTopic(&f.parts[i-1], p) {
			named = false
		}
		if p.absent {
			continue
		}
		if n += wire.FetchResultBytes + len(p.result.Aborted)*wire.AbortedTransactionBytes; !named {
			n, named = n+32+len(p.name), true
		}
	}
	return n
}

// resident says whether every piece of a file is in the page cache, or else a log folder of which one is not: a system call
// of a microsecond for each. What cannot be asked, and what has been read in already, counts as there.
func (f *fetchCall) resident() (folder int, all bool) {
	for i := range f.parts {
		p := &f.parts[i]
		l := p.slice.File.Lease
		if l == nil || p.result.Bytes == 0 || p.copied != nil {
			continue
		}
		folder := p.p.Folder() % maxFolders
		if f.warmed&(1<<folder) != 0 {
			continue
		}
		if in, err := l.Resident(p.slice.File.Pos, p.slice.File.N); err == nil && !in {
			return folder, false
		}
	}
	return 0, true
}

// warm reads the pages of a cold answer that lie in one log folder, so that sending it waits for no disk.
func (f *fetchCall) warm(folder int) {
	f.warmed |= 1 << folder
	b := f.h.Pool.Get(warmBytes)
	defer b.Release()
	for i := range f.parts {
		p := &f.parts[i]
		l := p.slice.File.Lease
		if l == nil || p.result.Bytes == 0 || p.copied != nil || p.p.Folder()%maxFolders != folder {
			continue
		}
		for pos, left := p.slice.File.Pos, p.slice.File.N; left > 0; {
			n, err := l.ReadAt(b.B[:min(left, len(b.B))], pos)
			if err != nil || n == 0 {
				break // sending it tells
			}
			pos, left = pos+int64(n), left-n
		}
	}
}

// warmBytes is how much of a cold file is read at a time.
const warmBytes = 256 << 10
