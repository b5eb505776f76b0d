package e2e

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/proc"
)

// scaleFull says that the tests of scale run in their long form (make scale): 100,000 partitions, not a few thousand.
func scaleFull() bool { return os.Getenv("TIDEMARK_SCALE") == "full" }

// scaled is the first of the two in the long form.
func scaled(full, short int) int {
	if scaleFull() {
		return full
	}
	return short
}

// figures is a table of what one test of scale has measured. Times are printed, never asserted.
type figures struct {
	t    *testing.T
	name string
	rows [][2]string
}

func newFigures(t *testing.T, name string) *figures {
	f := &figures{t: t, name: name}
	t.Cleanup(f.print)
	return f
}

func (f *figures) add(what, format string, a ...any) {
	f.rows = append(f.rows, [2]string{what, fmt.Sprintf(format, a...)})
	if scaleFull() { // minutes may pass until the table is printed
		f.t.Logf("%s: "+format, append([]any{what}, a...)...)
	}
}

// took notes how long a step has lasted since began.
func (f *figures) took(what string, began time.Time) {
	f.add(what, "%.2f s", time.Since(began).Seconds())
}

// process notes a broker's memory and open files, and returns them.
func (f *figures) process(what string, pid int) (rssKiB, files int) {
	rssKiB, files = residentKiB(f.t, pid, "VmRSS"), openFiles(f.t, pid)
	f.add(what, "%.1f MB resident, peak %.1f MB, %d open files, %.2f CPU-s", float64(rssKiB)*1024/1e6,
		float64(residentKiB(f.t, pid, "VmHWM"))*1024/1e6, files, cpuSeconds(f.t, pid))
	return rssKiB, files
}

func (f *figures) print() {
	var b strings.Builder
	fmt.Fprintf(&b, "\n| %s | |\n|---|---|\n", f.name)
	for _, r := range f.rows {
		fmt.Fprintf(&b, "| %s | %s |\n", r[0], r[1])
	}
	f.t.Log(b.String())
}

// cpuSeconds is what a process has used so far, all its threads together.
func cpuSeconds(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return float64(user+system) / 100
}

// readBytes is what a process has read by read calls since it began, from files and sockets.
func readBytes(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	n, err := strconv.Atoi(strings.TrimPrefix(first, "rchar: "))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// shape is how many partitions lie in how many topics.
type shape struct {
	topics, partitions int
}

func (s shape) all() int              { return s.topics * s.partitions }
func (s shape) String() string        { return fmt.Sprintf("%d topics of %d", s.topics, s.partitions) }
func (s shape) topic(i int) string    { return fmt.Sprintf("scale-%06d", i) }
func (s shape) properties() []string  { return []string{"log.retention.check.interval.ms=1000"} }
func (s shape) patient(w *wire) *wire { _ = w.SetDeadline(time.Now().Add(10 * time.Minute)); return w }

// requestPartitions is how many partitions one request to create holds: fewer than 10,000 are taken.
const requestPartitions = 5000

// create makes the shape's topics: several to a request, a large topic by CreateTopics and CreatePartitions.
func (s shape) create(w *wire) { s.createNamed(w, "") }

// createNamed is create for one topic of another name.
func (s shape) createNamed(w *wire, name string) {
	w.t.Helper()
	topic := func(i int) string {
		if name != "" {
			return name
		}
		return s.topic(i)
	}
	perRequest := max(1, requestPartitions/s.partitions)
	for from := 0; from < s.topics; from += perRequest {
		r := kmsg.NewPtrCreateTopicsRequest()
		r.Version, r.TimeoutMillis = 7, 600_000
		for i := from; i < min(from+perRequest, s.topics); i++ {
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = topic(i), int32(min(s.partitions, requestPartitions)), 1
			r.Topics = append(r.Topics, t)
		}
		for _, t := range ask[*kmsg.CreateTopicsResponse](w, r).Topics {
			if t.ErrorCode != 0 {
				w.t.Fatalf("create %s: %d", t.Topic, t.ErrorCode)
			}
		}
	}
	for have := requestPartitions; have < s.partitions; {
		have = min(have+requestPartitions, s.partitions)
		for i := range s.topics {
			r := kmsg.NewPtrCreatePartitionsRequest()
			r.Version, r.TimeoutMillis = 3, 600_000
			t := kmsg.NewCreatePartitionsRequestTopic()
			t.Topic, t.Count = topic(i), int32(have)
			r.Topics = append(r.Topics, t)
			if got := ask[*kmsg.CreatePartitionsResponse](w, r).Topics[0]; got.ErrorCode != 0 {
				w.t.Fatalf("%d partitions for %s: %d", have, got.Topic, got.ErrorCode)
			}
		}
	}
}

// produce sends one small batch to each partition, a thousand to a request, with acks=all.
func (s shape) produce(w *wire) {
	w.t.Helper()
	one := batch(nobody(), make([]byte, 100), time.Now().UnixMilli())
	r := kmsg.NewPtrProduceRequest()
	n := 0
	send := func() {
		for _, t := range ask[*kmsg.ProduceResponse](w, r).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					w.t.Fatalf("produce to %s-%d: %d", t.Topic, p.Partition, p.ErrorCode)
				}
			}
		}
		r.Topics, n = nil, 0
	}
	r.Version, r.Acks, r.TimeoutMillis = 9, -1, 600_000
	for i := range s.topics {
		for p := 0; p < s.partitions; {
			t := kmsg.NewProduceRequestTopic()
			t.Topic = s.topic(i)
			for ; p < s.partitions && n < 1000; p++ {
				part := kmsg.NewProduceRequestTopicPartition()
				part.Partition, part.Records = int32(p), one
				t.Partitions = append(t.Partitions, part)
				n++
			}
			r.Topics = append(r.Topics, t)
			if n == 1000 {
				send()
			}
		}
	}
	if n > 0 {
		send()
	}
}

// ends checks by ListOffsets, 10,000 partitions to a request, that each partition ends at want.
func (s shape) ends(w *wire, want int64) {
	w.t.Helper()
	r := kmsg.NewPtrListOffsetsRequest()
	n := 0
	send := func() {
		for _, t := range ask[*kmsg.ListOffsetsResponse](w, r).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 || p.Offset != want {
					w.t.Fatalf("%s-%d ends at %d (error %d), want %d", t.Topic, p.Partition, p.Offset, p.ErrorCode, want)
				}
			}
		}
		r.Topics, n = nil, 0
	}
	r.Version, r.ReplicaID = 7, -1
	for i := range s.topics {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = s.topic(i)
		for p := range s.partitions {
			part := kmsg.NewListOffsetsRequestTopicPartition()
			part.Partition, part.Timestamp = int32(p), -1
			t.Partitions = append(t.Partitions, part)
		}
		r.Topics = append(r.Topics, t)
		if n += s.partitions; n >= 10_000 {
			send()
		}
	}
	if n > 0 {
		send()
	}
}

// allMetadata asks for every topic and returns how many topics and partitions there are, and the answer's size.
func (s shape) allMetadata(w *wire) (topics, partitions int) {
	w.t.Helper()
	r := kmsg.NewPtrMetadataRequest()
	r.Version = 12
	for _, t := range ask[*kmsg.MetadataResponse](w, r).Topics {
		topics++
		partitions += len(t.Partitions)
	}
	return topics, partitions
}

// describe pages through DescribeTopicPartitions.
func (s shape) describe(w *wire) (pages, partitions int) {
	w.t.Helper()
	r := kmsg.NewPtrDescribeTopicPartitionsRequest()
	r.ResponsePartitionLimit = 2000
	for {
		resp := ask[*kmsg.DescribeTopicPartitionsResponse](w, r)
		pages++
		for _, t := range resp.Topics {
			partitions += len(t.Partitions)
		}
		if resp.NextCursor == nil {
			return pages, partitions
		}
		c := kmsg.NewDescribeTopicPartitionsRequestCursor()
		c.Topic, c.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		r.Cursor = &c
	}
}

// delete removes all topics, a thousand to a request.
func (s shape) delete(w *wire) {
	w.t.Helper()
	for from := 0; from < s.topics; from += 1000 {
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.Version, r.TimeoutMillis = 6, 600_000
		for i := from; i < min(from+1000, s.topics); i++ {
			t := kmsg.NewDeleteTopicsRequestTopic()
			t.Topic = kmsg.StringPtr(s.topic(i))
			r.Topics = append(r.Topics, t)
		}
		for _, t := range ask[*kmsg.DeleteTopicsResponse](w, r).Topics {
			if t.ErrorCode != 0 {
				w.t.Fatalf("delete %s: %d", *t.Topic, t.ErrorCode)
			}
		}
	}
}

// scaleStart starts a broker whose start may take long, and notes the time until its port answers.
func scaleStart(t *testing.T, f *figures, what string, o proc.Options) *proc.Broker {
	t.Helper()
	o.NoAdmin, o.ReadyTimeout = true, 10*time.Minute
	if profile := os.Getenv("TIDEMARK_SCALE_ADMIN"); profile != "" { // to look at it by pprof
		o.Args = append(o.Args, "--admin", profile)
	}
	began := time.Now()
	b := start(t, o)
	if what != "" {
		f.took(what, began)
		f.process(what+", at once", b.PID)
	}
	return b
}

// answers says how long a new connection waits for ApiVersions.
func answers(t *testing.T, addr string) time.Duration {
	t.Helper()
	began := time.Now()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = nc.Close()
	dial(t, addr).alive()
	return time.Since(began)
}

// TestScalePartitions takes partitions in many small and in few large topics through all that a broker does with them: they
// are made, listed, used, stopped with, killed with and deleted. What is held: memory and files by DESIGN 8, that a clean
// start reads the manifest and no partition's folder, and that nothing is lost.
func TestScalePartitions(t *testing.T) {
	for _, s := range []shape{{scaled(100_000, 1000), 1}, {scaled(10, 2), scaled(10_000, 500)}} {
		t.Run(strings.ReplaceAll(s.String(), " ", "-"), func(t *testing.T) { scalePartitions(t, s) })
	}
	if scaleFull() {
		t.Run("10000", func(t *testing.T) { scalePartitions(t, shape{100, 100}) })
	}
}

func scalePartitions(t *testing.T, s shape) {
	f := newFigures(t, s.String())
	o := proc.Options{Data: t.TempDir(), Properties: s.properties()}
	b := scaleStart(t, f, "", o)
	idle, _ := f.process("before", b.PID)
	w := s.patient(dial(t, b.Addr))

	began := time.Now()
	s.create(w)
	f.took("created", began)
	f.process("created", b.PID)
	began = time.Now()
	if topics, partitions := s.allMetadata(w); topics != s.topics || partitions != s.all() {
		t.Errorf("Metadata lists %d topics, %d partitions", topics, partitions)
	}
	f.took("Metadata of all", began)
	began = time.Now()
	pages, partitions := s.describe(w)
	if partitions != s.all() {
		t.Errorf("DescribeTopicPartitions lists %d partitions", partitions)
	}
	f.took(fmt.Sprintf("DescribeTopicPartitions, %d pages", pages), began)
	b = s.restart(t, f, b, o, "unused: ")
	rss, _ := f.process("unused, after a clean start", b.PID)
	if grown := (rss - idle) * 1024 / s.all(); grown > 2048+(20<<20)/s.all() {
		t.Errorf("an unused partition takes %d bytes", grown)
	}

	w = s.patient(dial(t, b.Addr))
	began = time.Now()
	s.produce(w)
	f.took("produced to each for the first time", began)
	f.process("produced", b.PID)
	began = time.Now()
	s.produce(w)
	f.took("produced to each again", began)
	f.process("produced again", b.PID)
	if s.topics < s.partitions { // once is enough: it takes the seconds after which a file counts as unused
		until(t, "no more than 300 files are open of partitions that are idle", func() bool { return openFiles(t, b.PID) <= 300 })
		f.process("idle", b.PID)
	}
	began = time.Now()
	s.ends(w, 2)
	f.took("ListOffsets of all", began)

	b = s.restart(t, f, b, o, "used: ")
	read := readBytes(t, b.PID)
	f.add("bytes read by the clean start", "%d", read)
	if limit := 4<<20 + 400*s.all(); read > limit {
		t.Errorf("a clean start reads %d bytes, more than %d", read, limit)
	}
	w = s.patient(dial(t, b.Addr))
	began = time.Now()
	s.ends(w, 2)
	f.took("ListOffsets of all after a clean start", began)
	f.process("listed after a clean start", b.PID)
	began = time.Now()
	s.produce(w)
	f.took("produced to each after a clean start", began)
	f.process("produced after a clean start", b.PID)
	b.Kill()
	b = scaleStart(t, f, "start after a kill", o)
	w = s.patient(dial(t, b.Addr))
	s.ends(w, 3)
	f.process("listed after a kill", b.PID)
	began = time.Now()
	s.delete(w)
	f.took("deleted", began)
	f.add("an answer right after", "%v", answers(t, b.Addr))
	if topics, _ := s.allMetadata(w); topics != 0 {
		t.Errorf("%d topics are left", topics)
	}
	f.process("deleted", b.PID)
	began = time.Now()
	if err := b.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	f.took("stop after the deletion", began)
}

// restart stops a broker cleanly and starts it again.
func (s shape) restart(t *testing.T, f *figures, b *proc.Broker, o proc.Options, what string) *proc.Broker {
	t.Helper()
	began := time.Now()
	if err := b.Stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	f.took(what+"stop", began)
	return scaleStart(t, f, what+"clean start", o)
}
