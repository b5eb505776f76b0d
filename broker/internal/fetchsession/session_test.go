package fetchsession

import (
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
)

func key(n int) Key { return Key{Topic: "t", Number: kafka.Partition(n)} }

func order(s *Session) (list []int) {
	for e := s.First(); e != nil; e = s.Next(e) {
		list = append(list, int(e.Number))
	}
	return list
}

func TestPartitionsWithRecordsGoToTheEnd(t *testing.T) {
	c := New(10, func() int64 { return 0 })
	s := c.Begin(false, 3)
	for n := range 3 {
		s.Put(Entry{Key: key(n)})
	}
	if !s.Told(key(0), 5, 0, true) || s.Told(key(0), 5, 0, false) || !s.Told(key(0), 6, 0, false) {
		t.Fatal("news are another high watermark or log start")
	}
	if got := order(s); got[0] != 1 || got[2] != 0 {
		t.Fatal(got)
	}
	s.Forget(key(2))
	s.Put(Entry{Key: key(1), Offset: 9})
	if got := order(s); len(got) != 2 || s.First().Offset != 9 {
		t.Fatal(got)
	}
	s.Forget(key(7))
	if s.Told(key(7), 1, 1, true) {
		t.Fatal("a forgotten partition has no news")
	}
}

func TestEpochsFollowEachOtherAndWrapToOne(t *testing.T) {
	c := New(10, func() int64 { return 0 })
	s := c.Begin(true, 1)
	for epoch := int32(1); epoch < 4; epoch++ {
		if got, code := c.Find(s.ID(), epoch, true); code != kafka.None || got != s {
			t.Fatal(code)
		}
	}
	if _, code := c.Find(s.ID(), 3, true); code != kafka.InvalidFetchSessionEpoch {
		t.Fatal(code)
	}
	if _, code := c.Find(s.ID(), 4, false); code != kafka.FetchSessionTopicIdError {
		t.Fatal(code)
	}
	if nextEpoch(1<<31-1) != 1 {
		t.Fatal("the epoch behind the last is 1")
	}
	c.End(s.ID())
	if _, code := c.Find(s.ID(), 4, true); code != kafka.FetchSessionIdNotFound {
		t.Fatal(code)
	}
}

func TestAFullCacheGivesASlotOnlyOfARestedOrSmallerSession(t *testing.T) {
	now := int64(0)
	c := New(2, func() int64 { return now })
	a, b := c.Begin(false, 10), c.Begin(false, 20)
	if c.Begin(false, 30) != nil {
		t.Fatal("young sessions keep their slots")
	}
	now = evictMS + 1
	_, _ = c.Find(a.ID(), 1, false)
	_, _ = c.Find(b.ID(), 1, false)
	if c.Begin(false, 5) != nil {
		t.Fatal("a smaller one takes no slot of those in use")
	}
	if c.Begin(false, 15) == nil || c.Len() != 2 {
		t.Fatal("the smallest old one gives way")
	}
	if _, code := c.Find(a.ID(), 2, false); code != kafka.FetchSessionIdNotFound {
		t.Fatal("it was a's slot")
	}
	now *= 3
	if c.Begin(false, 1) == nil {
		t.Fatal("a rested one gives way to any")
	}
}

func TestAllSessionsTogetherKeepToTheirMemory(t *testing.T) {
	now := int64(0)
	c := New(1000, func() int64 { return now })
	c.budget = 100 * (entryBytes + 2)
	begin := func(n int) *Session {
		s := c.Begin(false, n)
		if s == nil {
			return nil
		}
		s.Lock()
		defer s.Unlock()
		for i := range n {
			s.Put(Entry{Key: key(i)})
		}
		if !c.Settle(s) {
			return nil
		}
		return s
	}
	grow := func(s *Session, from, to int) bool {
		s.Lock()
		defer s.Unlock()
		for i := from; i < to; i++ {
			s.Put(Entry{Key: key(i)})
		}
		return c.Settle(s)
	}
	a, b := begin(60), begin(30)
	if a == nil || b == nil || begin(20) != nil {
		t.Fatal("two sessions of 90 partitions fit, a third of 20 does not")
	}
	if f := c.Figures(); f.Partitions != 90 || f.Sessions != 2 || f.Refused != 1 || f.Bytes != 90*(entryBytes+2) {
		t.Fatalf("%+v", f)
	}
	if !grow(a, 60, 70) || grow(b, 30, 31) {
		t.Fatal("a session grows into what is free and no further")
	}
	if _, code := c.Find(b.ID(), 1, false); code != kafka.FetchSessionIdNotFound {
		t.Fatalf("the session that could not grow: %v", code)
	}
	if f := c.Figures(); f.Partitions != 70 || f.Sessions != 1 {
		t.Fatalf("%+v", f)
	}
	a.Lock()
	for i := range 65 {
		a.Forget(key(i))
	}
	if !c.Settle(a) {
		t.Error("a session that shrinks was ended")
	}
	a.Unlock()
	if d := begin(95); d == nil {
		t.Error("what was forgotten is not free again")
	}
	now += evictMS + 1
	if begin(101) != nil {
		t.Error("a session larger than all memory was given")
	}
	if begin(100) == nil || c.Figures().Sessions != 1 || c.Figures().Evicted != 2 {
		t.Errorf("sessions that rested must make room: %+v", c.Figures())
	}
	if !grow(a, 65, 70) {
		t.Error("a session that has given way is told by its next request, not now")
	}
}
