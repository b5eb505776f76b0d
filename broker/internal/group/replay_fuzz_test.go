package group

import (
	"testing"
)

// FuzzReplay: whatever lies in the log, a machine takes it or refuses it, and what it has taken it can write again.
func FuzzReplay(f *testing.F) {
	s := newScenario(scenarioConfig())
	m := s.m
	g := m.newClassic("g")
	protocol := "range"
	g.protocol = &protocol
	mb := &member{id: "m", clientID: "c", host: "/h", sessionTimeoutMS: 1, rebalanceTimeoutMS: 2, assignment: []byte("a")}
	m.add(g, mb, "consumer")
	r := groupRecord(g, nil)
	f.Add(r.Key, r.Value)
	for _, expire := range []int64{-1, 5} {
		r = offsetRecord("g", offsetKey{"t", 1}, &committed{offset: 3, metadata: "x", commitMS: 4, expireMS: expire, topicID: [16]byte{1}})
		f.Add(r.Key, r.Value)
		for i := range r.Value {
			f.Add(r.Key, r.Value[:i])
		}
		for i := range r.Key {
			f.Add(r.Key[:i], r.Value)
		}
	}
	f.Add([]byte{0, 3, 0, 1, 'g'}, []byte{0, 0})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		s := newScenario(scenarioConfig())
		if s.m.Replay(key, value) != nil {
			return
		}
		s.m.Loaded(s.now)
		s.m.Take()
		again := newScenario(scenarioConfig())
		for id, of := range s.m.offsets {
			for k, o := range of.at {
				r := offsetRecord(id, k, &o)
				if err := again.m.Replay(r.Key, r.Value); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, g := range s.m.groups {
			if g.persisted {
				r := groupRecord(g, nil)
				if err := again.m.Replay(r.Key, r.Value); err != nil {
					t.Fatal(err)
				}
			}
		}
		if len(again.m.offsets) != len(s.m.offsets) {
			t.Fatal("offsets were lost")
		}
		s.m.Tick(Now{MonoMS: 1 << 50, WallMS: 1 << 50})
		s.m.Resign(s.now)
	})
}
