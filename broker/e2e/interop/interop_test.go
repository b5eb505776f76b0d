// Package interop drives the broker as the users of other languages do: kcat, Java, confluent-kafka, kafka-python, kafkajs,
// and Apache Kafka's own command-line tools, each as a program of its own. `make interop` installs them and runs it.
package interop

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/broker/proc"
)

const records = 100

// target is the broker under test: ours, or any other that TIDEMARK_INTEROP_BOOTSTRAP names (to try the suite itself
// against Apache Kafka; then nothing restarts).
type target struct {
	addr   string
	data   string
	broker *proc.Broker
	opts   proc.Options
}

func startTarget(t *testing.T, properties ...string) *target {
	t.Helper()
	if addr := os.Getenv("TIDEMARK_INTEROP_BOOTSTRAP"); addr != "" {
		return &target{addr: addr}
	}
	dir := t.TempDir()
	tg := &target{data: dir, opts: proc.Options{Bin: proc.Binary(t), Data: dir, NoAdmin: true, Listen: "127.0.0.1:" + freePort(t),
		Properties: append(properties, "group.initial.rebalance.delay.ms=0", "num.partitions=3")}}
	tg.start(t)
	t.Cleanup(func() { _ = tg.broker.Stop() })
	return tg
}

func (tg *target) start(t *testing.T) {
	t.Helper()
	b, err := proc.Start(t.Context(), tg.opts)
	if err != nil {
		t.Fatal(err)
	}
	tg.broker, tg.addr = b, b.Addr
}

// freePort picks a port that a restarted broker can take again.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func (tg *target) admin(t *testing.T) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(tg.addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

func (tg *target) topic(t *testing.T, name string) string {
	t.Helper()
	name = fmt.Sprintf("%s-%d", name, os.Getpid())
	if _, err := tg.admin(t).CreateTopic(t.Context(), 3, 1, nil, name); err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
	return name
}

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// TestEveryCodecBetweenClients: what each client writes with each codec is read whole by every other.
func TestEveryCodecBetweenClients(t *testing.T) {
	tl := needTools(t)
	tg := startTarget(t)
	clients := tl.clients()
	for _, from := range clients {
		topic := tg.topic(t, "codecs-"+from.name)
		for i, codec := range codecs {
			from.run(t, tl, "produce", tg.addr, topic, codec, "all", i*records, records)
		}
		for _, to := range clients {
			t.Run(from.name+"/"+to.name, func(t *testing.T) {
				wantValues(t, rows(t, to.run(t, tl, "consume", tg.addr, topic, len(codecs)*records)), from.name, 0, len(codecs)*records)
			})
		}
		t.Run(from.name+"/kcat", func(t *testing.T) {
			out := run(t, nil, "", tl.kcat, "-q", "-b", tg.addr, "-t", topic, "-C", "-e", "-f", `%p %o %T %k %s\n`)
			wantValues(t, rows(t, out), from.name, 0, len(codecs)*records)
		})
		t.Run(from.name+"/franz-go", func(t *testing.T) {
			wantValues(t, consumeGo(t, tg.addr, topic, len(codecs)*records), from.name, 0, len(codecs)*records)
		})
	}
}

func consumeGo(t *testing.T, addr, topic string, n int) []row {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var rs []row
	for len(rs) < n {
		fs := cl.PollFetches(t.Context())
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			rs = append(rs, row{int64(r.Partition), r.Offset, r.Timestamp.UnixMilli(), string(r.Key), string(r.Value)})
			if len(r.Headers) != 1 || r.Headers[0].Key != "n" {
				t.Errorf("record %s has headers %v, want n", r.Value, r.Headers)
			}
		})
	}
	return rs
}

// TestAcks: each client with acks 0 and 1.
func TestAcks(t *testing.T) {
	tl := needTools(t)
	tg := startTarget(t)
	for _, c := range tl.clients() {
		for _, acks := range []string{"0", "1"} {
			t.Run(c.name+"/acks="+acks, func(t *testing.T) {
				topic := tg.topic(t, "acks"+acks+"-"+c.name)
				c.run(t, tl, "produce", tg.addr, topic, "none", acks, 0, records)
				wantValues(t, consumeGo(t, tg.addr, topic, records), c.name, 0, records)
			})
		}
	}
}

// TestKcat produces with every codec and acks level and reads by time and in a group.
func TestKcat(t *testing.T) {
	tl := needTools(t)
	tg := startTarget(t)
	topic := tg.topic(t, "kcat")
	want := 0
	for _, codec := range codecs {
		for _, acks := range []string{"0", "1", "all"} {
			var in strings.Builder
			for i := range records {
				fmt.Fprintf(&in, "k%d:kcat-%d\n", i%10, i)
			}
			run(t, nil, in.String(), tl.kcat, "-q", "-b", tg.addr, "-t", topic, "-P", "-K:", "-z", codec, "-X", "acks="+acks)
			want += records
		}
	}
	out := run(t, nil, "", tl.kcat, "-q", "-b", tg.addr, "-t", topic, "-C", "-e", "-o", "beginning", "-f", `%p %o %T %k %s\n`)
	if got := rows(t, out); len(got) != want {
		t.Errorf("kcat read %d records, want %d", len(got), want)
	}
	base := started(t)
	if got := rows(t, run(t, nil, "", tl.kcat, "-q", "-b", tg.addr, "-t", topic, "-C", "-e", "-o", fmt.Sprintf("s@%d", base), "-f", `%p %o %T %k %s\n`)); len(got) != want {
		t.Errorf("kcat read %d records from a time before all, want %d", len(got), want)
	}
	// kcat -e leaves a group at the ends it saw first; the next member of the group goes on from what that one committed.
	seen := map[[2]int64]bool{}
	for round := 0; len(seen) < want && round < 20; round++ {
		for _, r := range rows(t, run(t, nil, "", tl.kcat, "-q", "-b", tg.addr, "-e", "-G", "kcat-group", "-X", "auto.offset.reset=earliest",
			"-f", `%p %o %T %k %s\n`, topic)) {
			seen[[2]int64{r.partition, r.offset}] = true
		}
	}
	if len(seen) != want {
		t.Errorf("kcat read %d records in a group, want %d", len(seen), want)
	}
	if out := run(t, nil, "", tl.kcat, "-b", tg.addr, "-L", "-t", topic); !strings.Contains(out, "with 3 partitions") {
		t.Errorf("kcat -L printed %q", out)
	}
}

// TestFromTime: each client finds the first record at or after a time, in every partition, as franz-go does.
func TestFromTime(t *testing.T) {
	tl := needTools(t)
	tg := startTarget(t)
	clients := tl.clients()
	topic := tg.topic(t, "times")
	for i, codec := range []string{"none", "zstd"} {
		clients[0].run(t, tl, "produce", tg.addr, topic, codec, "all", i*records, records)
	}
	for _, at := range []int64{started(t) - 1, started(t) + records/2, started(t) + records + 7, started(t) + 1<<30} {
		offsets, err := tg.admin(t).ListOffsetsAfterMilli(t.Context(), at, topic)
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		for p := range int32(3) {
			o, ok := offsets.Lookup(topic, p)
			if !ok || o.Err != nil {
				t.Fatalf("partition %d: %v", p, o.Err)
			}
			if o.Timestamp < 0 {
				o.Offset = -1
			}
			want += fmt.Sprintf("%d %d\n", p, o.Offset)
		}
		for _, c := range clients {
			got := c.run(t, tl, "fromtime", tg.addr, topic, 3, at)
			if got != want {
				t.Errorf("%s at %d: %q, want %q", c.name, at, got, want)
			}
		}
	}
}

// TestGroupGoesOnAfterRestart: a member reads and commits half; the broker restarts; another member of the group gets the rest.
func TestGroupGoesOnAfterRestart(t *testing.T) {
	tl := needTools(t)
	tg := startTarget(t)
	for _, c := range tl.clients() {
		t.Run(c.name, func(t *testing.T) {
			topic := tg.topic(t, "group-"+c.name)
			c.run(t, tl, "produce", tg.addr, topic, "lz4", "all", 0, records)
			first := rows(t, c.run(t, tl, "group", tg.addr, topic, "g-"+c.name, records/2))
			tg.restart(t)
			c.run(t, tl, "produce", tg.addr, topic, "none", "all", records, records)
			rest := rows(t, c.run(t, tl, "group", tg.addr, topic, "g-"+c.name, 2*records-len(first)))
			wantValues(t, append(first, rest...), c.name, 0, 2*records)
		})
	}
}

func (tg *target) restart(t *testing.T) {
	t.Helper()
	if tg.broker == nil {
		return
	}
	if err := tg.broker.Stop(); err != nil {
		t.Fatal(err)
	}
	// The new process takes the same address; its life is the whole test's, not the subtest's.
	b, err := proc.Start(context.WithoutCancel(t.Context()), tg.opts)
	if err != nil {
		t.Fatal(err)
	}
	tg.broker = b
}

// TestRebalance: two members share the partitions, then the one that stays owns them all.
func TestRebalance(t *testing.T) {
	tl := needTools(t)
	tg := startTarget(t)
	for _, c := range tl.clients() {
		t.Run(c.name, func(t *testing.T) {
			topic := tg.topic(t, "rebalance-"+c.name)
			out := c.run(t, tl, "rebalance", tg.addr, topic, "rb-"+c.name, 3)
			if !strings.Contains(out, "together ") || !strings.Contains(out, "alone ") {
				t.Errorf("printed %q", out)
			}
		})
	}
}
