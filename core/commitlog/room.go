package commitlog

import (
	"io"
	"math/bits"
	"sync/atomic"

	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/vfs"
)

// An append rarely ends where a page does. The kernel then makes the file's pages one by one, in the small pieces that each
// write asks for, and gives the file its blocks piece by piece too: 16 KiB at a time cost more than twice what they cost over
// pages and blocks that are there. So the file of a busy active segment is kept ahead of its last batch: an append that runs
// out of room takes zeros along up to the next multiple of Room.unit, in the same pwritev, and blocks are reserved ahead in
// larger steps. An fdatasync gains too: the file's length does not change with each append.
//
// The file is then longer than the log by less than Room.unit. A roll, a rest, a stop and a truncation give room back; after
// a crash recovery cuts it off, as Kafka does. Nobody reads there, since readers go by segment.size.

// Room is what the logs of a folder share to keep room ahead of their appends.
type Room struct {
	zeros    []byte
	reserved atomic.Int64 // by all logs together, behind their records
}

// NewRoom makes an Env.Room of n bytes, or of the next smaller power of two, for each segment; nil below 512.
func NewRoom(n int32) *Room {
	if n < 512 {
		return nil
	}
	return &Room{zeros: make([]byte, 1<<(bits.Len32(uint32(min(n, MaxRoom)))-1))}
}

// unit is how many zeros a large segment gets at most; 0: none.
func (r *Room) unit() int64 {
	if r == nil {
		return 0
	}
	return int64(len(r.zeros))
}

// room is what the active segment's file has ahead of its last batch. [Log.writing]
type room struct {
	zeros    int64 // the file's length
	reserved int64 // up to here it has blocks
	held     int64 // of Room.reserved
	full     bool  // the disk had no room for more: the segment gets none
}

// Shares of a segment's size that are kept ahead of it, so that a small log has little and a log of a few records nothing; and
// what all logs of a folder may reserve, so that many of them do not fill a disk with nothing.
const (
	zerosShare   = 4
	reserveShare = 2
	reserveUnits = 64 // Room.unit times this is the largest step
	maxReserved  = 256 << 20
)

// zerosFor is how many zeros an append of total bytes takes along. A preallocated segment gets none, since what is there must
// stay when the log rests.
func (l *Log) zerosFor(s *segment, total int64) int64 {
	unit := l.env.Room.unit()
	if unit == 0 || s.size < unit || l.room != nil && l.room.full || l.Config().Preallocate {
		return 0
	}
	for unit > s.size/zerosShare {
		unit /= 2
	}
	end := s.size + total
	if l.room != nil && end <= l.room.zeros {
		return 0
	}
	ahead := (unit - end%unit) % unit
	if end+ahead > l.Config().segmentBytes() {
		return 0
	}
	return ahead
}

// reserve gives the file blocks for the next appends. An error means that there are none to be had.
func (l *Log) reserve(f vfs.File, s *segment, end int64) {
	r := l.room
	if r == nil || r.full || end <= r.reserved {
		return
	}
	shared := l.env.Room
	unit := shared.unit()
	step := min(s.size/reserveShare, unit*reserveUnits) / unit * unit
	from := max(r.reserved, r.zeros)
	to := min(end+step, l.Config().segmentBytes())
	if step == 0 || to <= from {
		return
	}
	if shared.reserved.Add(to-end-r.held) > maxReserved {
		shared.reserved.Add(r.held - (to - end))
		return
	}
	r.held = to - end
	if f.Preallocate(from, to-from) != nil {
		r.full = true
		return
	}
	r.reserved = to
}

// wrote notes how long the file is behind an append of total bytes that wrote n, of which those behind total are zeros.
func (l *Log) wrote(s *segment, total, zeros, n int64) {
	if zeros > 0 && l.room == nil {
		l.room = &room{}
	}
	if r := l.room; r != nil {
		r.zeros = max(r.zeros, s.size+n)
		r.full = r.full || n < total+zeros
	}
}

// giveBack lets the active segment's file end with its last batch, without a reserve. [Log.writing or Log.work]
func (l *Log) giveBack() error {
	if l.room == nil {
		return nil
	}
	if err := l.trim(l.cur); err != nil {
		return err
	}
	l.forgetRoom()
	l.mu.Lock()
	l.cur.unsynced[kindLog] = true // the recovery point must not pass a cut that a power loss could undo
	l.mu.Unlock()
	return nil
}

// forgetRoom is for whoever has cut the file, or leaves it. [Log.writing or Log.work]
func (l *Log) forgetRoom() {
	if l.room != nil {
		l.env.Room.reserved.Add(-l.room.held)
		l.room = nil
	}
}

// cutRoom cuts off the room of a segment that is followed by another one and known to be whole: a power loss can bring it back
// when the roll came behind the recovery point. What else is behind the last batch stays, for those who read there.
func (l *Log) cutRoom(s *segment) error {
	lease, err := l.acquire(s, kindLog)
	if err != nil {
		return err
	}
	defer lease.Release()
	if s.size, err = lease.f.Size(); err != nil {
		return err
	}
	ok, err := l.loadIndexes(s)
	if err != nil {
		return err
	}
	var at rescanFrom
	if ok {
		if at, err = l.resumePoint(s, func(e offsetEntry) bool { return int64(e.pos) < s.size }); err != nil {
			return err
		}
	}
	sc := newScanner(lease, s.size, l.env.Pool, lookupChunk)
	defer sc.close()
	pos := at.pos
	if _, err = walkHeaders(&sc, pos, func(p, size, _ int64) bool { pos = p + size; return true }); ignoreDamage(err) != nil {
		return err
	}
	if pos == s.size || s.size-pos > MaxRoom {
		return nil
	}
	if room, err := onlyZeros(lease, l.env.Pool, pos, s.size); err != nil || !room {
		return err
	}
	return lease.f.Truncate(pos)
}

// onlyZeros reports whether a file holds nothing but zeros from one position to another.
func onlyZeros(r io.ReaderAt, pool *buf.Pool, from, to int64) (bool, error) {
	b := pool.Get(int(min(to-from, lookupChunk)))
	defer b.Release()
	for from < to {
		part := b.B[:min(int64(len(b.B)), to-from)]
		if _, err := r.ReadAt(part, from); err != nil {
			return false, err
		}
		for _, c := range part {
			if c != 0 {
				return false, nil
			}
		}
		from += int64(len(part))
	}
	return true, nil
}
