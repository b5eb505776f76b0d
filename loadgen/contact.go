package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// clientID is what every client of a run begins its client.id with.
const clientID = "tidemark-load"

// Bounds of the first contact: it must not be a load itself.
const (
	contactTrips   = 5  // small requests for each broker
	contactBrokers = 20 // that are asked
	contactQuotas  = 8  // that are kept
)

// errChecked ends a run that was asked for the first contact only.
var errChecked = errors.New("checked")

// contact asks the cluster what a careful operator would look at before a load: versions, the topics' replicas in sync,
// quotas, the round trip, and what will be written. It sends nothing to a topic. missing are topics that are not there yet.
func (r *run) contact(ctx context.Context, missing []string) error {
	one, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	c := &result.Contact{Security: "PLAINTEXT", Brokers: len(r.view.Brokers), Controller: int(r.view.ControllerID)}
	if r.o.Security != nil {
		c.Security = r.o.Security.Words()
	}
	r.met = c
	if err := r.roundTrips(one, c); err != nil {
		return failure(fmt.Errorf("first contact: %w", err))
	}
	r.askQuotas(one, c)
	for _, t := range r.topics {
		row := result.ContactTopic{Name: t.Name, Partitions: r.spec.Partitions, Replication: r.spec.Replication, Missing: slices.Contains(missing, t.Name)}
		if tv := r.view.Topics[t.Name]; tv != nil && !row.Missing {
			row.Partitions = len(tv.Partitions)
			row.MinISR, _ = strconv.Atoi(r.before[t.Name]["min.insync.replicas"]) // 0: not told
			for i, p := range tv.Partitions {
				if i == 0 || p.ISR < row.InSync {
					row.InSync, row.Replication = p.ISR, p.Replicas
				}
			}
		}
		c.Topics = append(c.Topics, row)
	}
	c.WillWriteBytes = r.willWrite()
	if w := r.o.Notes; w != nil {
		printContact(w, c, r.view.ClusterID, r.spec)
	}
	return r.inSyncEnough(c)
}

// inSyncEnough refuses what a target would refuse record by record.
func (r *run) inSyncEnough(c *result.Contact) error {
	for _, t := range c.Topics {
		if !t.Missing && r.spec.Acks == workload.AcksAll && r.spec.Producers > 0 && t.InSync > 0 && t.InSync < t.MinISR {
			return failure(fmt.Errorf("topic %s: a partition has %d replicas in sync, fewer than its min.insync.replicas %d: acks=all would be refused", t.Name, t.InSync, t.MinISR))
		}
	}
	return nil
}

// roundTrips asks each broker for its versions a few times, and keeps what the first one said.
func (r *run) roundTrips(ctx context.Context, c *result.Contact) error {
	var all []int64
	ids := make([]kafka.BrokerID, 0, len(r.view.Brokers))
	for id := range r.view.Brokers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids[:min(len(ids), contactBrokers)] {
		var own []int64
		for i := range contactTrips + 1 {
			req := kmsg.NewPtrApiVersionsRequest()
			req.ClientSoftwareName, req.ClientSoftwareVersion = "tidemark", "1" // without names it is refused, and tells nothing
			from := clock.Nanos()
			kresp, err := r.cluster.AskBroker(ctx, r.view.Brokers[id], req)
			if err != nil {
				return fmt.Errorf("broker %d: %w", id, err)
			}
			if i > 0 { // the first one connects
				own = append(own, clock.Nanos()-from)
			}
			resp := kresp.(*kmsg.ApiVersionsResponse)
			c.ThrottleNanos += int64(resp.ThrottleMillis) * int64(time.Millisecond)
			for _, k := range resp.ApiKeys {
				switch {
				case c.RoundTrips > 0 || i > 0:
				case k.ApiKey == int16(kmsg.Produce):
					c.ProduceMin, c.ProduceMax = int(k.MinVersion), int(k.MaxVersion)
				case k.ApiKey == int16(kmsg.Fetch):
					c.FetchMin, c.FetchMax = int(k.MinVersion), int(k.MaxVersion)
				}
			}
		}
		c.RoundTrips += len(own)
		slices.Sort(own)
		if m := own[len(own)/2]; m >= c.Slowest {
			c.Slowest, c.SlowestBroker = m, int(id)
		}
		all = append(all, own...)
	}
	slices.Sort(all)
	if len(all) > 0 {
		c.RoundTrip = all[len(all)/2]
	}
	return nil
}

// askQuotas lists the quotas that may apply to the run's clients; where the cluster would not tell, why.
func (r *run) askQuotas(ctx context.Context, c *result.Contact) {
	kresp, err := r.cluster.Ask(ctx, kmsg.NewPtrDescribeClientQuotasRequest())
	if err != nil {
		c.QuotasNote = "not told: this cluster does not serve DescribeClientQuotas"
		return
	}
	resp := kresp.(*kmsg.DescribeClientQuotasResponse)
	c.ThrottleNanos += int64(resp.ThrottleMillis) * int64(time.Millisecond)
	if code := kafka.ErrorCode(resp.ErrorCode); code != kafka.None {
		c.QuotasNote = "not told: " + code.Error()
		return
	}
	user := ""
	if r.o.Security != nil {
		user = r.o.Security.User()
	}
	for _, e := range resp.Entries {
		words, applies := quotaEntity(e.Entity, user)
		if !applies {
			continue
		}
		for _, v := range e.Values {
			if len(c.Quotas) == contactQuotas {
				c.QuotasNote = "there are more"
				return
			}
			c.Quotas = append(c.Quotas, result.Quota{Entity: words, Key: v.Key, Value: v.Value})
		}
	}
}

// quotaEntity says whom a quota is for, and whether a client of the run may be among them.
func quotaEntity(parts []kmsg.DescribeClientQuotasResponseEntryEntity, user string) (words string, applies bool) {
	var all []string
	for _, p := range parts {
		if p.Name == nil {
			all = append(all, p.Type+" default")
			continue
		}
		all = append(all, p.Type+" "+*p.Name)
		switch p.Type {
		case "client-id":
			if *p.Name != clientID && !strings.HasPrefix(*p.Name, clientID+"-") {
				return "", false
			}
		case "user":
			if user != *p.Name && (user != "" || *p.Name != "ANONYMOUS") {
				return "", false
			}
		}
	}
	return strings.Join(all, ", "), true
}

// willWrite is how many bytes of keys and values the workload can write at most, 0 where nothing bounds it.
func (r *run) willWrite() int64 {
	s := r.spec
	most := int64(s.MaxBytes)
	if s.Question != workload.Latency {
		return most
	}
	record := s.RecordSize.Mean()
	if s.Keys.Kind != workload.KeysNone && s.Keys.Kind != "" {
		record += workload.KeyBytes
	}
	asked := int64(s.Rate * (s.WarmUp + s.Window).D().Seconds() * record)
	if most > 0 {
		return min(most, asked)
	}
	return asked
}

// printContact prints the first contact in a few lines.
func printContact(w io.Writer, c *result.Contact, clusterID string, s *workload.Spec) {
	line := func(label, format string, a ...any) {
		_, _ = fmt.Fprintf(w, "%-13s %s\n", label, visible(fmt.Sprintf(format, a...)))
	}
	controller := "no controller named"
	if c.Controller >= 0 {
		controller = fmt.Sprintf("controller %d", c.Controller)
	}
	line("cluster", "%s   %s, %s   %s   produce v%d to v%d, fetch v%d to v%d", clusterID, plural(int64(c.Brokers), "broker"), controller, c.Security,
		c.ProduceMin, c.ProduceMax, c.FetchMin, c.FetchMax)
	for i, t := range c.Topics {
		if i == 3 {
			line("", "and %s more", plural(int64(len(c.Topics)-i), "topic"))
			break
		}
		switch {
		case t.Missing:
			line("topic", "%s is not there: a run makes it, %s, replication %d", t.Name, plural(int64(t.Partitions), "partition"), t.Replication)
		default:
			isr := "min.insync.replicas not told"
			if t.MinISR > 0 {
				isr = fmt.Sprintf("min.insync.replicas %d", t.MinISR)
			}
			line("topic", "%s   %s, at least %d of %d replicas in sync, %s", t.Name, plural(int64(t.Partitions), "partition"), t.InSync, t.Replication, isr)
		}
	}
	quotas := c.QuotasNote
	if len(c.Quotas) == 0 && quotas == "" {
		quotas = "none that applies"
	}
	for _, q := range c.Quotas {
		line("quota", "%s %s for %s", q.Key, thousands(int64(q.Value)), q.Entity)
	}
	if quotas != "" {
		line("quotas", "%s", quotas)
	}
	if c.ThrottleNanos > 0 {
		line("throttled", "%s ms already, by these few requests", milliseconds(c.ThrottleNanos))
	}
	trip := fmt.Sprintf("%s ms (median of %d)", milliseconds(c.RoundTrip), c.RoundTrips)
	if c.Brokers > 1 {
		trip += fmt.Sprintf(", broker %d is the slowest: %s ms", c.SlowestBroker, milliseconds(c.Slowest))
	}
	line("round trip", "%s", trip)
	replicas := ""
	if n := c.Topics[0].Replication; n > 1 {
		replicas = fmt.Sprintf(", times %d replicas", n)
	}
	switch {
	case s.Producers == 0:
		line("writes", "nothing")
	case c.WillWriteBytes == 0:
		line("writes", "as much as the target takes in %s%s (--max-bytes bounds it)", (s.WarmUp + s.Window).D(), replicas)
	default:
		line("writes", "at most %s%s", size(c.WillWriteBytes), replicas)
	}
}

// visible takes the control characters out of what others named: a terminal would obey them.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' {
			return '\ufffd'
		}
		return r
	}, text)
}
