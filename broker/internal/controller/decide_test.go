package controller

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

// scenario runs the commands of a file in testdata: each line of a command's input is one topic of the request.
type scenario struct {
	image  *metadata.Image
	config *config.Broker
	ids    byte
}

func TestDecisions(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &scenario{image: metadata.Empty(), config: config.Default()}
		datadriven.RunTest(t, path, s.run)
	})
}

func (s *scenario) run(t *testing.T, td *datadriven.TestData) string {
	d := &decision{image: s.image, config: s.config, newTopicID: func() kafka.TopicID {
		s.ids++
		return kafka.TopicID{15: s.ids}
	}}
	lines := strings.Split(strings.TrimSpace(td.Input), "\n")
	var results []TopicResult
	if td.HasArg("validate-only") {
		d = d.scratch()
	}
	switch td.Cmd {
	case "config":
		b, _, err := config.Parse("", nil, lines)
		if err != nil {
			t.Fatal(err)
		}
		s.config = b
		return ""
	case "register":
		var id int
		td.ScanArgs(t, "id", &id)
		epoch := decideRegister(d, metadata.Broker{ID: kafka.BrokerID(id), Fenced: td.HasArg("fenced")})
		s.image = committed(t, s.image, d)
		return fmt.Sprintf("broker epoch %d\n", epoch)
	case "create":
		results = decideCreate(d, parseTopics(t, lines))
	case "create-offsets-topic":
		results = []TopicResult{decideCreateOffsets(d)}
	case "delete":
		var refs []TopicRef
		for _, l := range lines {
			if id, err := strconv.Atoi(strings.TrimPrefix(l, "id=")); err == nil {
				refs = append(refs, TopicRef{ID: kafka.TopicID{15: byte(id)}})
			} else {
				refs = append(refs, TopicRef{Name: l})
			}
		}
		results = decideDelete(d, refs)
	case "more-partitions":
		var more []MorePartitions
		for _, topic := range parseTopics(t, lines) {
			more = append(more, MorePartitions{Name: topic.Name, Count: topic.NumPartitions, Assignments: topic.Assignments})
		}
		results = decideMorePartitions(d, more)
	case "producer-ids":
		first := decideProducerIDs(d, 1)
		s.image = d.image
		return fmt.Sprintf("from %d\n", first)
	case "image":
		return show(s.image)
	default:
		t.Fatalf("unknown command %s", td.Cmd)
	}
	if !td.HasArg("validate-only") {
		s.image = committed(t, s.image, d)
	}
	var b strings.Builder
	for _, r := range results {
		if r.Err != kafka.None {
			fmt.Fprintf(&b, "%s: %d %s: %s\n", r.Name, int16(r.Err), r.Err, r.Text)
			continue
		}
		fmt.Fprintf(&b, "%s: ok", r.Name)
		if r.Topic != nil {
			fmt.Fprintf(&b, ", %d partitions", len(r.Topic.Partitions))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// committed is the image that the entries of a decision make.
func committed(t *testing.T, m *metadata.Image, d *decision) *metadata.Image {
	for _, data := range d.entries() {
		records, err := decodeEntry(nil, data)
		if err == nil {
			m, _, err = m.Apply(records, m.Offset)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// parseTopics reads lines "NAME partitions=N factor=N assign=1,2;2,1 key=value...".
func parseTopics(t *testing.T, lines []string) []NewTopic {
	var out []NewTopic
	for _, l := range lines {
		fields := strings.Fields(l)
		n := NewTopic{Name: fields[0], NumPartitions: -1, ReplicationFactor: -1}
		for _, f := range fields[1:] {
			key, value, _ := strings.Cut(f, "=")
			number, _ := strconv.Atoi(value)
			switch key {
			case "partitions":
				n.NumPartitions = int32(number)
			case "factor":
				n.ReplicationFactor = int16(number)
			case "assign":
				for _, part := range strings.Split(value, ";") {
					ids := []kafka.BrokerID{}
					for _, id := range strings.FieldsFunc(part, func(r rune) bool { return r == ',' }) {
						v, err := strconv.Atoi(id)
						if err != nil {
							t.Fatal(err)
						}
						ids = append(ids, kafka.BrokerID(v))
					}
					n.Assignments = append(n.Assignments, ids)
				}
			default:
				if n.Configs == nil {
					n.Configs = map[string]string{}
				}
				n.Configs[key] = value
			}
		}
		out = append(out, n)
	}
	return out
}

func show(m *metadata.Image) string {
	var b strings.Builder
	for topic := range m.Topics() {
		fmt.Fprintf(&b, "%s id=%d internal=%v", topic.Name, topic.ID[15], topic.Internal)
		var keys []string
		c := m.Config(metadata.TopicResource, topic.Name)
		for k := range c {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			fmt.Fprintf(&b, " %s=%s", k, c[k])
		}
		b.WriteString("\n")
		for i, p := range topic.Partitions {
			if i == 4 {
				fmt.Fprintf(&b, "  ... %d in all\n", len(topic.Partitions))
				break
			}
			fmt.Fprintf(&b, "  %d: leader %d epoch %d replicas %v isr %v\n", i, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR)
		}
	}
	if b.Len() == 0 {
		return "no topics\n"
	}
	return b.String()
}
