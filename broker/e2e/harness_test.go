package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/proc"
)

// patience bounds every wait of these tests. It is no promise of the broker: a loaded host needs more than an idle one.
const patience = 3 * time.Minute

// start starts a broker of the real binary and ends it with the test. The log of a broker is shown when its test fails.
func start(t *testing.T, o proc.Options) *proc.Broker {
	t.Helper()
	b, err := tryStart(t, t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tryStart is start for a broker that may refuse.
func tryStart(t *testing.T, ctx context.Context, o proc.Options) (*proc.Broker, error) {
	t.Helper()
	o.Bin = proc.Binary(t)
	o.Properties = append([]string{"group.initial.rebalance.delay.ms=0"}, o.Properties...)
	if o.Stderr == nil {
		log := &logText{}
		o.Stderr = log
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("log of the broker with %s:\n%s", strings.Join(o.Properties, " "), log.tail(60))
			}
		})
	}
	b, err := proc.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	t.Cleanup(b.Kill)
	return b, nil
}

// logText keeps what a broker logs.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logText) tail(lines int) string {
	all := strings.Split(strings.TrimSpace(l.String()), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// until polls a condition until it holds; what says what is waited for.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for this: %s", patience, what)
		}
	}
}

// seeded returns a random source whose seed is TIDEMARK_SEED, or drawn and printed.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("TIDEMARK_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("TIDEMARK_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("seed: TIDEMARK_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// pick is one of the given.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// adminOf is an admin client of a broker.
func adminOf(t *testing.T, b *proc.Broker) *kadm.Client {
	t.Helper()
	return kadm.NewClient(newClient(t, b))
}

// create makes a topic; configs are name=value.
func create(t *testing.T, b *proc.Broker, topic string, partitions int32, configs ...string) kadm.TopicID {
	t.Helper()
	set := map[string]*string{}
	for _, c := range configs {
		name, value, _ := strings.Cut(c, "=")
		set[name] = &value
	}
	r, err := adminOf(t, b).CreateTopic(t.Context(), partitions, 1, set, topic)
	if err != nil {
		t.Fatalf("create %s: %v %s", topic, err, r.ErrMessage)
	}
	return r.ID
}

// fill produces n records with the given value size to a partition, each batch waited for.
func fill(t *testing.T, b *proc.Broker, topic string, partition int32, n, valueBytes int, o ...kgo.Opt) {
	t.Helper()
	c := newClient(t, b, append([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}, o...)...)
	defer c.Close()
	value := bytes.Repeat([]byte("v"), valueBytes)
	var records []*kgo.Record
	for range n {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Value: value})
	}
	if err := c.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
}

// wire is a connection without a client's cleverness: one request is one frame, nothing is retried.
type wire struct {
	t *testing.T
	net.Conn
	in   *bufio.Reader
	sent int32
	read int32
}

func dial(t *testing.T, addr string) *wire {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	return &wire{t: t, Conn: nc, in: bufio.NewReaderSize(nc, 64<<10)}
}

// frame is a request as it goes over the wire.
func frame(r kmsg.Request, correlation int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("e2e")).AppendRequest(nil, r, correlation)
}

func (w *wire) send(r kmsg.Request) {
	w.t.Helper()
	w.sent++
	if _, err := w.Write(frame(r, w.sent)); err != nil {
		w.t.Fatalf("send %T: %v", r, err)
	}
}

// receive reads the next answer, which must be the one to r.
func (w *wire) receive(r kmsg.Request) (kmsg.Response, error) {
	var head [8]byte
	if _, err := io.ReadFull(w.in, head[:]); err != nil {
		return nil, err
	}
	body := make([]byte, int(binary.BigEndian.Uint32(head[:]))-4)
	if _, err := io.ReadFull(w.in, body); err != nil {
		return nil, err
	}
	w.read++
	if got := int32(binary.BigEndian.Uint32(head[4:])); got != w.read {
		return nil, fmt.Errorf("answer %d came where answer %d was due", got, w.read)
	}
	resp := r.ResponseKind()
	resp.SetVersion(r.GetVersion())
	if resp.IsFlexible() && resp.Key() != 18 {
		if body[0] != 0 {
			return nil, errors.New("tags in a response header")
		}
		body = body[1:]
	}
	return resp, resp.ReadFrom(body)
}

// ask sends a request and returns its answer.
func ask[R kmsg.Response](w *wire, r kmsg.Request) R {
	w.t.Helper()
	w.send(r)
	return answer[R](w, r)
}

// answer is the next answer, to r.
func answer[R kmsg.Response](w *wire, r kmsg.Request) R {
	w.t.Helper()
	resp, err := w.receive(r)
	if err != nil {
		w.t.Fatalf("%T version %d: %v", r, r.GetVersion(), err)
	}
	return resp.(R)
}

// closes waits until the broker has closed the connection; whatever it says before is an error.
func (w *wire) closes() {
	w.t.Helper()
	n, err := io.Copy(io.Discard, w.in)
	var timeout net.Error
	if n > 0 || errors.As(err, &timeout) && timeout.Timeout() {
		w.t.Errorf("the broker sent %d bytes and then: %v; want that it closes the connection", n, err)
	}
}

// alive says that the connection is served.
func (w *wire) alive() {
	w.t.Helper()
	r := kmsg.NewPtrApiVersionsRequest()
	r.Version, r.ClientSoftwareName, r.ClientSoftwareVersion = 3, "e2e", "1"
	if resp := ask[*kmsg.ApiVersionsResponse](w, r); resp.ErrorCode != 0 || len(resp.ApiKeys) == 0 {
		w.t.Errorf("ApiVersions answers %+v", resp)
	}
}

// writer is what a hand-made batch says of its producer.
type writer struct {
	id    int64
	epoch int16
	seq   int32
}

// nobody produces without idempotence.
func nobody() writer { return writer{-1, -1, -1} }

// batch makes an uncompressed record batch without help of the broker's own code: one record for each timestamp, its
// value the given one.
func batch(w writer, value []byte, timestamps ...int64) []byte {
	var records []byte
	top := timestamps[0]
	for i, ts := range timestamps {
		r := kmsg.Record{TimestampDelta64: ts - timestamps[0], OffsetDelta: int32(i), Value: value}
		body := r.AppendTo(nil)[1:] // without the length, which is 0 in one byte
		records = append(binary.AppendVarint(records, int64(len(body))), body...)
		top = max(top, ts)
	}
	b := kmsg.RecordBatch{Length: int32(49 + len(records)), PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(len(timestamps) - 1),
		FirstTimestamp: timestamps[0], MaxTimestamp: top, ProducerID: w.id, ProducerEpoch: w.epoch, FirstSequence: w.seq,
		NumRecords: int32(len(timestamps)), Records: records}
	return seal(b.AppendTo(nil))
}

// seal writes the checksum of a batch.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// produceRequest carries one batch.
func produceRequest(topic string, partition int32, acks int16, records []byte) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks, r.TimeoutMillis = 9, acks, 30_000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	tp := kmsg.NewProduceRequestTopic()
	tp.Topic, tp.Partitions = topic, append(tp.Partitions, p)
	r.Topics = append(r.Topics, tp)
	return r
}

// produce sends one batch with acks=all.
func (w *wire) produce(topic string, partition int32, records []byte) kmsg.ProduceResponseTopicPartition {
	w.t.Helper()
	return ask[*kmsg.ProduceResponse](w, produceRequest(topic, partition, -1, records)).Topics[0].Partitions[0]
}

// initProducer takes a producer id.
func (w *wire) initProducer() writer {
	w.t.Helper()
	r := kmsg.NewPtrInitProducerIDRequest()
	r.Version = 4
	resp := ask[*kmsg.InitProducerIDResponse](w, r)
	if resp.ErrorCode != 0 || resp.ProducerID < 0 {
		w.t.Fatalf("InitProducerId answers %+v", resp)
	}
	return writer{id: resp.ProducerID, epoch: resp.ProducerEpoch}
}

// fetchRequest asks for partitions of one topic from the given offsets, without a session.
func fetchRequest(topic string, from map[int32]int64) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.MaxBytes, r.MinBytes, r.SessionEpoch = 12, 50<<20, 0, -1
	tp := kmsg.NewFetchRequestTopic()
	tp.Topic = topic
	for partition := range int32(len(from)) {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, from[partition], 1<<20
		tp.Partitions = append(tp.Partitions, p)
	}
	r.Topics = append(r.Topics, tp)
	return r
}

// fetchOne reads partition 0 from an offset.
func (w *wire) fetchOne(topic string, from int64) kmsg.FetchResponseTopicPartition {
	w.t.Helper()
	return ask[*kmsg.FetchResponse](w, fetchRequest(topic, map[int32]int64{0: from})).Topics[0].Partitions[0]
}

// batches cuts what a fetch has brought into batches; a last one that is not whole is left out.
func batches(t *testing.T, b []byte) []kmsg.RecordBatch {
	t.Helper()
	var all []kmsg.RecordBatch
	for len(b) >= 61 {
		n := 12 + int(binary.BigEndian.Uint32(b[8:]))
		if n > len(b) {
			break
		}
		var r kmsg.RecordBatch
		if err := r.ReadFrom(b[:n]); err != nil {
			t.Fatal(err)
		}
		if want := crc32.Checksum(b[21:n], crc32.MakeTable(crc32.Castagnoli)); uint32(r.CRC) != want {
			t.Fatalf("batch at offset %d has checksum %08x, its bytes %08x", r.FirstOffset, uint32(r.CRC), want)
		}
		all = append(all, r)
		b = b[n:]
	}
	return all
}

// listOffset asks for one offset of partition 0.
func (w *wire) listOffset(topic string, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	w.t.Helper()
	r := kmsg.NewPtrListOffsetsRequest()
	r.Version, r.ReplicaID = 11, -1
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = timestamp
	tp := kmsg.NewListOffsetsRequestTopic()
	tp.Topic, tp.Partitions = topic, append(tp.Partitions, p)
	r.Topics = append(r.Topics, tp)
	return ask[*kmsg.ListOffsetsResponse](w, r).Topics[0].Partitions[0]
}

// residentKiB is the memory of a process: VmRSS now, or VmHWM, its peak.
func residentKiB(t *testing.T, pid int, field string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s of process %d", field, pid)
	return 0
}

// openFiles counts the descriptors of a process.
func openFiles(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func metadataRequest(topic string) *kmsg.MetadataRequest {
	r := kmsg.NewPtrMetadataRequest()
	r.Version = 9
	tp := kmsg.NewMetadataRequestTopic()
	tp.Topic = &topic
	r.Topics = append(r.Topics, tp)
	return r
}

// figure reads one unlabelled figure from /metrics.
func figure(t *testing.T, b *proc.Broker, name string) float64 {
	t.Helper()
	resp, err := http.Get("http://" + b.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no figure %s on the page:\n%s", name, page)
	return 0
}
