package metadata

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
	"pgregory.net/rapid"
)

func names(m *Image) (out []string) {
	for topic := range m.Topics() {
		out = append(out, topic.Name)
	}
	return out
}

// A Load makes the image that Apply makes, from a snapshot's records and from those that follow it.
func TestALoadMakesWhatApplyMakes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := Empty()
		for i := range rapid.IntRange(0, 40).Draw(rt, "topics") {
			want, _ = mustApply(t, want, create(fmt.Sprintf("t%03d", i), i+1, 1+i%3*8)...)
		}
		load := NewLoad()
		for r := range want.Records {
			if err := load.Decode(AppendRecord(nil, r), want.Offset); err != nil {
				rt.Fatal(err)
			}
		}
		image := func() *Image {
			m, err := load.Image(want.Offset)
			if err != nil {
				rt.Fatal(err)
			}
			return m
		}
		if rapid.Bool().Draw(rt, "look at the snapshot's") {
			same(rt, want, image())
		}
		for i := range rapid.IntRange(1, 60).Draw(rt, "steps") {
			group := []Record{&LeaderEpochsRecord{1}}
			id := rapid.IntRange(1, 60).Draw(rt, "id")
			switch have := want.TopicByID(topicID(id)); rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0:
				if have == nil {
					group = create(fmt.Sprint("u", i), id, 1+i%3)
				} else {
					group = []Record{&RemoveTopicRecord{have.ID}}
				}
			case 1:
				if have != nil {
					group = []Record{&PartitionsRecord{TopicID: have.ID, First: kafka.Partition(len(have.Partitions)), Partitions: onBroker(1, 2)}}
				}
			case 2:
				if have != nil {
					group = []Record{&PartitionsRecord{TopicID: have.ID, Partitions: onBroker(2, 1)}, &LeaderEpochsRecord{2}}
				}
			case 3:
				group = []Record{&ConfigRecord{Kind: TopicResource, Name: "t001", Key: "k", Value: fmt.Sprint(i), Remove: i%2 == 0}}
			}
			var encoded [][]byte
			for _, r := range group {
				encoded = append(encoded, AppendRecord(nil, r))
			}
			want, _ = mustApply(t, want, group...)
			if i%2 == 0 {
				var again []Record
				for _, b := range encoded {
					r, _ := DecodeRecord(b)
					again = append(again, r)
				}
				if err := load.Apply(again, want.Offset); err != nil {
					rt.Fatal(err)
				}
				continue
			}
			for _, b := range encoded {
				if err := load.Decode(b, want.Offset); err != nil {
					rt.Fatal(err)
				}
			}
		}
		got := image()
		same(rt, want, got)
		if !slices.Equal(names(want), names(got)) {
			rt.Fatalf("topics %v, want %v", names(got), names(want))
		}
		next, d := mustApply(t, got, &LeaderEpochsRecord{1}) // what follows is as ever
		if n := len(d.Topics); n > 0 && (d.Topics[0].Old == d.Topics[0].New || next.TopicByID(d.Topics[0].New.ID) != d.Topics[0].New) {
			rt.Fatalf("the image behind a Load is changed in place: %+v", d.Topics[0])
		}
	})
}

func TestALoadRefusesWhatDoesNotFit(t *testing.T) {
	for _, settled := range []bool{false, true} {
		loadRefuses(t, settled)
	}
}

func loadRefuses(t *testing.T, settled bool) {
	t.Helper()
	for _, r := range []Record{
		&TopicRecord{Name: "a", ID: topicID(9)},
		&TopicRecord{Name: "b", ID: topicID(1)},
		&TopicRecord{Name: "b"},
		&PartitionsRecord{TopicID: topicID(9)},
		&PartitionsRecord{TopicID: topicID(1), First: 2, Partitions: onBroker(1, 1)},
		&RemoveTopicRecord{topicID(9)},
	} {
		l := NewLoad()
		if err := l.Apply(create("a", 1, 1), 0); err != nil {
			t.Fatal(err)
		}
		if settled {
			if _, err := l.Image(0); err != nil {
				t.Fatal(err)
			}
		}
		err := l.Decode(AppendRecord(nil, r), 1)
		if err == nil { // topics are gathered first
			_, err = l.Image(1)
		}
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%T %+v: %v", r, r, err)
		}
		if b := AppendRecord(nil, r); l.Decode(b[:len(b)-1], 1) == nil {
			t.Errorf("%T cut short is taken", r)
		}
	}
}

func TestTrieOfManyIsTheOneOfEach(t *testing.T) {
	for _, n := range []int{0, 1, 2, 31, 32, 33, 1000, 5000} {
		values := make([]int, n)
		for i := range values {
			values[i] = i * 7
		}
		e := &edit{}
		m, ok := trieOf(e, values, func(v int) int { return v })
		if !ok || m.len != n {
			t.Fatalf("%d values: %d, %v", n, m.len, ok)
		}
		for _, v := range values {
			if got, found := m.get(v); !found || got != v {
				t.Fatalf("%d of %d: %d, %v", v, n, got, found)
			}
		}
		if _, found := m.get(3); found {
			t.Error("what is not there is found")
		}
		for i, v := range values { // it can be changed as any other
			if i%2 == 0 {
				m = m.without(e, v)
			}
		}
		if m = m.with(&edit{}, 3, 3); m.len != n/2+1 {
			t.Errorf("%d are left of %d", m.len, n)
		}
		count := 0
		m.all(func(int, int) bool { count++; return true })
		if count != m.len {
			t.Errorf("%d of %d", count, m.len)
		}
	}
	if _, ok := trieOf(&edit{}, []int{1, 2, 1}, func(v int) int { return v }); ok {
		t.Error("a key that comes twice is taken")
	}
}
