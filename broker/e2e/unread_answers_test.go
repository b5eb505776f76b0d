package e2e

import (
	"bytes"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/proc"
)

// TestNeverReadingAdministrator: one connection that asks again and again for answers fifty times as large as its requests, and
// reads none, costs the broker no more than a few of them.
func TestNeverReadingAdministrator(t *testing.T) {
	log := &logText{}
	b := start(t, proc.Options{Data: t.TempDir(), Stderr: log})
	good := newBystander(t, b)
	good.roundTrip(t)
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.ValidateOnly, r.TimeoutMillis = 5, true, 60_000
	for i := range 9_999 {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "a"+strings.Repeat("b", i%100)+strings.Repeat("c", i/100), 1, 1
		r.Topics = append(r.Topics, topic)
	}
	one := frame(r, 1)
	w := dial(t, b.Addr)
	go func() { _, _ = w.Write(bytes.Repeat(one, 100)) }() // it ends with the connection
	for range 200 {
		good.roundTrip(t)
	}
	if peak := residentKiB(t, b.PID, "VmHWM"); peak > 400<<10 {
		t.Errorf("the peak is %d MiB resident", peak>>10)
	} else {
		t.Logf("peak %d MiB resident", peak>>10)
	}
	endsInOrder(t, b, log)
}
