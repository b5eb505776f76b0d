package metadata

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
	"pgregory.net/rapid"
)

func topicID(n int) kafka.TopicID { return kafka.TopicID{byte(n >> 16), byte(n >> 8), byte(n), 1} }

func onBroker(id kafka.BrokerID, n int) []Partition {
	out := make([]Partition, n)
	for i := range out {
		out[i] = Partition{Leader: id, Replicas: []kafka.BrokerID{id}, ISR: []kafka.BrokerID{id}}
	}
	return out
}

func mustApply(t testing.TB, m *Image, records ...Record) (*Image, Delta) {
	t.Helper()
	next, d, err := m.Apply(records, m.Offset+1)
	if err != nil {
		t.Fatal(err)
	}
	return next, d
}

func create(name string, id, partitions int) []Record {
	return []Record{&TopicRecord{Name: name, ID: topicID(id)}, &PartitionsRecord{TopicID: topicID(id), Partitions: onBroker(1, partitions)}}
}

func TestAnOlderImageStaysAsItWas(t *testing.T) {
	one, _ := mustApply(t, Empty(), create("a", 1, 2)...)
	two, d := mustApply(t, one, append(create("b", 2, 1), &LeaderEpochsRecord{Leader: 1},
		&ConfigRecord{Kind: TopicResource, Name: "a", Key: "retention.ms", Value: "1"})...)
	if one.Topic("b") != nil || one.Topic("a").Partitions[0].LeaderEpoch != 0 || one.Config(TopicResource, "a") != nil || one.NumPartitions() != 2 {
		t.Errorf("the first image has changed: %+v", one.Topic("a"))
	}
	if two.Topic("a").Partitions[1].LeaderEpoch != 1 || two.TopicByID(topicID(2)).Name != "b" || two.NumPartitions() != 3 || two.NumTopics() != 2 {
		t.Errorf("the second image: %+v", two.Topic("a"))
	}
	if len(d.Topics) != 2 || d.Topics[0].Old != nil || d.Topics[1].Old != one.Topic("a") || d.Topics[1].New != two.Topic("a") {
		t.Errorf("delta %+v", d)
	}
	if !slices.Equal(d.Configs, []ConfigChange{{TopicResource, "a"}}) {
		t.Errorf("configs %+v", d.Configs)
	}
}

func TestANameCreatedAgainIsTwoChanges(t *testing.T) {
	one, _ := mustApply(t, Empty(), append(create("a", 1, 1), &ConfigRecord{Kind: TopicResource, Name: "a", Key: "k", Value: "v"})...)
	two, d := mustApply(t, one, append([]Record{&RemoveTopicRecord{topicID(1)}}, create("a", 2, 3)...)...)
	if len(d.Topics) != 2 || d.Topics[0].New != nil || d.Topics[1].Old != nil || d.Topics[1].New.ID != topicID(2) {
		t.Errorf("delta %+v", d)
	}
	if two.Config(TopicResource, "a") != nil {
		t.Error("the new topic inherits the old one's settings")
	}
	_, d = mustApply(t, two, append(create("short", 3, 1), &RemoveTopicRecord{topicID(3)})...)
	if len(d.Topics) != 0 {
		t.Errorf("created and deleted in one go shows: %+v", d.Topics)
	}
}

func TestRecordsThatDoNotFitAreCorruption(t *testing.T) {
	m, _ := mustApply(t, Empty(), append(create("a", 1, 1), &ClusterRecord{"c"}, &ProducerIDsRecord{Next: 1000})...)
	for _, r := range []Record{
		&TopicRecord{Name: "a", ID: topicID(9)},
		&TopicRecord{Name: "b", ID: topicID(1)},
		&PartitionsRecord{TopicID: topicID(9)},
		&PartitionsRecord{TopicID: topicID(1), First: 2, Partitions: onBroker(1, 1)},
		&RemoveTopicRecord{topicID(9)},
		&ClusterRecord{"d"},
		&ProducerIDsRecord{Next: 999},
	} {
		if _, _, err := m.Apply([]Record{r}, 1); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%T %+v: %v", r, r, err)
		}
	}
}

func TestRecordsMakeTheImageAgain(t *testing.T) {
	m, _ := mustApply(t, Empty(), &ClusterRecord{"c"}, &FeatureRecord{"metadata.version", 20}, &ProducerIDsRecord{Broker: 1, Next: 5000},
		&BrokerRecord{Broker{ID: 3, Epoch: 4, Incarnation: [16]byte{1}, Rack: "r", Endpoints: []Endpoint{{"PLAINTEXT", "h", 9092, 0}}, Fenced: true}},
		&ConfigRecord{Kind: BrokerResource, Name: "3", Key: "x", Value: "y"})
	for i := range 50 {
		m, _ = mustApply(t, m, create(fmt.Sprint("t", i), i+1, i*50)...)
	}
	m, _ = mustApply(t, m, &ConfigRecord{Kind: TopicResource, Name: "t1", Key: "k", Value: "v"})
	var records []Record
	for r := range m.Records {
		again, err := DecodeRecord(AppendRecord(nil, r))
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("%+v came back as %+v, %v", r, again, err)
		}
		records = append(records, again)
	}
	got, _, err := Empty().Apply(records, m.Offset)
	if err != nil {
		t.Fatal(err)
	}
	same(t, m, got)
}

// same compares what readers can see.
func same(t rapid.TB, want, got *Image) {
	t.Helper()
	if want.ClusterID != got.ClusterID || want.NumTopics() != got.NumTopics() || want.NumPartitions() != got.NumPartitions() ||
		want.NextProducerID() != got.NextProducerID() || !maps.Equal(want.Features(), got.Features()) ||
		!reflect.DeepEqual(slices.Collect(want.Brokers()), slices.Collect(got.Brokers())) {
		t.Fatalf("images differ:\n%+v\n%+v", want, got)
	}
	for a := range want.Topics() {
		if b := got.Topic(a.Name); !reflect.DeepEqual(a, b) || got.TopicByID(a.ID) != b || !maps.Equal(want.Config(TopicResource, a.Name), got.Config(TopicResource, a.Name)) {
			t.Fatalf("topic %+v\nagainst %+v", a, b)
		}
	}
}

// Changes made in one run are what they are one by one; the image that the run began with stays as it was, and so do the topics
// that earlier steps of it gave.
func TestARunOfChangesIsWhatSingleOnesMake(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		base := Empty()
		for i := range 40 {
			base, _ = mustApply(t, base, create(fmt.Sprint("t", i), i+1, 1)...)
		}
		before, _ := mustApply(t, base)
		single, run, e := base, base, NewEdit()
		seen := map[*Topic]int{} // and how many partitions it had
		for i := range rapid.IntRange(1, 60).Draw(rt, "steps") {
			var group []Record
			id := rapid.IntRange(1, 60).Draw(rt, "id")
			switch have := single.TopicByID(topicID(id)); {
			case have == nil:
				group = create(fmt.Sprint("u", i), id, 1+i%3)
			case i%3 == 0:
				group = []Record{&RemoveTopicRecord{have.ID}}
			case i%3 == 1:
				group = []Record{&PartitionsRecord{TopicID: have.ID, First: kafka.Partition(len(have.Partitions)), Partitions: onBroker(1, 2)}}
			default:
				group = []Record{&ConfigRecord{Kind: TopicResource, Name: have.Name, Key: "k", Value: fmt.Sprint(i)}}
			}
			single, _ = mustApply(t, single, group...)
			var err error
			if run, _, err = run.ApplyIn(e, group, run.Offset+1); err != nil {
				rt.Fatal(err)
			}
			same(rt, single, run)
			if now := run.TopicByID(topicID(id)); now != nil {
				seen[now] = len(now.Partitions)
			}
			for topic, n := range seen {
				if len(topic.Partitions) != n {
					rt.Fatalf("a topic that an earlier step gave has been changed in place: %+v", topic)
				}
			}
		}
		same(rt, before, base)
	})
}

func TestTopicsComeSorted(t *testing.T) {
	m := Empty()
	for i, n := range []string{"b", "a", "d", "c"} {
		m, _ = mustApply(t, m, create(n, i+1, 1)...)
	}
	var got string
	for topic := range m.Topics() {
		got += topic.Name
	}
	for topic := range m.TopicsFrom("bb") {
		got += topic.Name
	}
	if got != "abcdcd" {
		t.Errorf("topics %q", got)
	}
}

func TestTrieIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m trie[int, int]
		model := map[int]int{}
		e := &edit{}
		old, oldModel := m, maps.Clone(model)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k, v := rapid.IntRange(0, 300).Draw(t, "k"), rapid.Int().Draw(t, "v")
				m, model[k] = m.with(e, k, v), v
			},
			"delete": func(t *rapid.T) {
				k := rapid.IntRange(0, 300).Draw(t, "k")
				m = m.without(e, k)
				delete(model, k)
			},
			"snapshot": func(*rapid.T) { old, oldModel, e = m, maps.Clone(model), &edit{} },
			"": func(t *rapid.T) {
				for _, c := range []struct {
					m     trie[int, int]
					model map[int]int
				}{{m, model}, {old, oldModel}} {
					got := map[int]int{}
					c.m.all(func(k, v int) bool { got[k] = v; return true })
					if !maps.Equal(got, c.model) || c.m.len != len(c.model) {
						t.Fatalf("holds %v (len %d), want %v", got, c.m.len, c.model)
					}
					for k, v := range c.model {
						if g, ok := c.m.get(k); !ok || g != v {
							t.Fatalf("%d is %d, %v, want %d", k, g, ok, v)
						}
					}
				}
			},
		})
	})
}

func FuzzDecodeRecord(f *testing.F) {
	m, _ := mustApply(f, Empty(), append(create("a", 1, 3), &ClusterRecord{"c"}, &FeatureRecord{"f", 2}, &ProducerIDsRecord{Next: 7},
		&BrokerRecord{Broker{ID: 1, Endpoints: []Endpoint{{"L", "h", 1, 0}}}}, &ConfigRecord{Kind: 2, Name: "a", Key: "k", Value: "v"})...)
	for r := range m.Records {
		f.Add(AppendRecord(nil, r))
	}
	f.Add(AppendRecord(nil, &RemoveTopicRecord{topicID(1)}))
	f.Add(AppendRecord(nil, &LeaderEpochsRecord{1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRecord(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		again, err := DecodeRecord(AppendRecord(nil, r))
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v came back as %+v, %v", r, again, err)
		}
		_, _, _ = m.Apply([]Record{r}, 1)
	})
}

func TestEveryTruncationIsRefused(t *testing.T) {
	m, _ := mustApply(t, Empty(), append(create("a", 1, 3), &ConfigRecord{Kind: 2, Name: "a", Key: "k", Value: "v"})...)
	for r := range m.Records {
		b := AppendRecord(nil, r)
		for i := range b {
			if _, err := DecodeRecord(b[:i]); err == nil {
				t.Errorf("%T cut at %d of %d is taken", r, i, len(b))
			}
		}
	}
}

func BenchmarkCreate(b *testing.B) {
	for _, existing := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("topics=%d", existing), func(b *testing.B) {
			m := Empty()
			for i := range existing {
				m, _ = mustApply(b, m, create(fmt.Sprint("topic-", i), i+1, 1)...)
			}
			b.ReportAllocs()
			i := existing
			for b.Loop() {
				i++
				mustApply(b, m, create("new", i, 1)...)
			}
		})
	}
}

func BenchmarkTopicByName(b *testing.B) {
	for _, existing := range []int{10, 100_000} {
		b.Run(fmt.Sprintf("topics=%d", existing), func(b *testing.B) {
			m := Empty()
			for i := range existing {
				m, _ = mustApply(b, m, create(fmt.Sprint("topic-", i), i+1, 1)...)
			}
			b.ReportAllocs()
			for b.Loop() {
				if m.Topic("topic-7") == nil {
					b.Fatal("missing")
				}
			}
		})
	}
}
