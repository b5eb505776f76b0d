package raw

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/loadgen/driver"
)

// member is one member of a group as the assignors see it: those with an instance id are ordered by it.
type member struct {
	id       string
	instance string
}

func sortMembers(ms []member) {
	slices.SortFunc(ms, func(a, b member) int {
		switch {
		case a.instance != "" && b.instance != "":
			return strings.Compare(a.instance, b.instance)
		case a.instance != "":
			return -1
		case b.instance != "":
			return 1
		}
		return cmp.Compare(a.id, b.id)
	})
}

// assignRange deals each topic's partitions in runs: the first members get one more where it does not come out even
// (Kafka's RangeAssignor, for members that all read the same topics).
func assignRange(ms []member, topics []driver.Topic) map[string][]driver.TopicPartition {
	out := map[string][]driver.TopicPartition{}
	for t, topic := range topics {
		each, more := int(topic.Partitions)/len(ms), int(topic.Partitions)%len(ms)
		p := int32(0)
		for i, m := range ms {
			n := each
			if i < more {
				n++
			}
			for ; n > 0; n-- {
				out[m.id] = append(out[m.id], driver.TopicPartition{Topic: int32(t), Partition: p})
				p++
			}
		}
	}
	return out
}

// assignRoundRobin deals all partitions, topics in order of their names, one by one (Kafka's RoundRobinAssignor, for
// members that all read the same topics).
func assignRoundRobin(ms []member, topics []driver.Topic) map[string][]driver.TopicPartition {
	order := make([]int, len(topics))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(topics[a].Name, topics[b].Name) })
	out := map[string][]driver.TopicPartition{}
	i := 0
	for _, t := range order {
		for p := range topics[t].Partitions {
			id := ms[i%len(ms)].id
			out[id] = append(out[id], driver.TopicPartition{Topic: int32(t), Partition: p})
			i++
		}
	}
	return out
}
