package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestDumpLogSegmentsOfCompactedLogs: Apache Kafka reads what compaction has written, batches of every codec with tombstones, and
// the segments and snapshots of many idempotent producers; what it prints is what a consumer reads.
func TestDumpLogSegmentsOfCompactedLogs(t *testing.T) {
	tl := needTools(t)
	tg := startTarget(t, "log.cleaner.backoff.ms=100")
	if tg.data == "" {
		t.Skip("the files of another broker are not ours to read: this runs without TIDEMARK_INTEROP_BOOTSTRAP")
	}
	const rounds, keys = 40, 20
	written := rounds * keys
	small := func(more ...string) map[string]*string {
		all := map[string]*string{}
		for _, s := range append(more, "segment.index.bytes=80", "index.interval.bytes=1") { // a segment for every ten batches
			name, value, _ := strings.Cut(s, "=")
			all[name] = &value
		}
		return all
	}
	compacted, kept := fmt.Sprintf("compacted-%d", os.Getpid()), fmt.Sprintf("kept-%d", os.Getpid())
	adm := tg.admin(t)
	for topic, settings := range map[string]map[string]*string{
		compacted: small("cleanup.policy=compact", "min.cleanable.dirty.ratio=0.01"), kept: small()} {
		if _, err := adm.CreateTopic(t.Context(), 1, 1, settings, topic); err != nil {
			t.Fatal(err)
		}
	}
	last := writeKeyed(t, tg.addr, []string{compacted, kept}, rounds, keys)

	var read map[int64]string
	for deadline := time.Now().Add(time.Minute); ; {
		if read = offsetsAndKeys(t, tg.addr, compacted, adm); len(read) < written/2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d records are left: nothing has been compacted", len(read), written)
		}
	}
	if err := tg.broker.Stop(); err != nil {
		t.Fatal(err)
	}

	dump := func(topic string, allowed ...string) string {
		return tl.dumpSegments(t, segmentFiles(t, tg.data, topic), allowed, "--print-data-log")
	}
	out := dump(kept)
	if h := holes(out); len(h) > 0 {
		t.Errorf("a log that is not compacted has holes: %v", h)
	}
	wantText(t, "producer snapshots", out, `producerId: \d+ producerEpoch: \d+`)
	if n := len(dumped(out)); n != written {
		t.Errorf("%d records of a log that is not compacted were dumped, want %d", n, written)
	}
	// It has holes, as it should. The tool takes times from records, so that it finds none in a batch that compaction has left empty
	// for its producer's sake; Kafka's own cleaner leaves such batches and their times too.
	out = dump(compacted, "Found timestamp mismatch")
	for _, m := range regexp.MustCompile(`log timestamp: (\S+)`).FindAllStringSubmatch(out, -1) {
		if m[1] != "-1" || !regexp.MustCompile(`baseOffset: \d+ .*count: 0 `).MatchString(out) {
			t.Errorf("DumpLogSegments finds another time in the log than in its index: %s", m[0])
		}
	}
	records := dumped(out)
	newest := map[string]string{}
	for off, r := range records { // a later cleaning may have taken some that the consumer has read
		if key, ok := read[off]; !ok || r.key != key {
			t.Errorf("offset %d: Kafka's tool finds %+v, a consumer read key %q", off, r, key)
		}
	}
	for off := range int64(written) {
		if r, ok := records[off]; ok {
			newest[r.key] = r.value
		}
	}
	for key, value := range last {
		if newest[key] != value {
			t.Errorf("key %s is %q in what Kafka's tool reads, want %q", key, newest[key], value)
		}
	}
}

// writeKeyed writes rounds of a record for each key to the topics, each round by another codec and producer, and tells what each
// key was last set to; every fifth is a tombstone.
func writeKeyed(t *testing.T, addr string, topics []string, rounds, keys int) map[string]string {
	t.Helper()
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	var clients []*kgo.Client
	for _, c := range codecs {
		cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ProducerBatchCompression(c))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		clients = append(clients, cl)
	}
	last := map[string]string{}
	for round := range rounds {
		var rs []*kgo.Record
		for key := range keys {
			k, v := fmt.Sprint("k", key), []byte(fmt.Sprintf("v-%d-%d", round, key))
			if last[k] = string(v); (round+key)%5 == 4 {
				v, last[k] = nil, "null"
			}
			for _, topic := range topics {
				rs = append(rs, &kgo.Record{Topic: topic, Key: []byte(k), Value: v})
			}
		}
		if err := clients[round%len(clients)].ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

// offsetsAndKeys reads a topic of one partition to its end.
func offsetsAndKeys(t *testing.T, addr, topic string, adm *kadm.Client) map[int64]string {
	t.Helper()
	ends, err := adm.ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	all := map[int64]string{}
	for next := int64(0); next < end.Offset; {
		fs := cl.PollFetches(t.Context())
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) { all[r.Offset], next = string(r.Key), r.Offset+1 })
	}
	return all
}

func segmentFiles(t *testing.T, data, topic string) (files []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(data, topic+"-0", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`\.(log|index|timeindex|snapshot)$`).MatchString(f) && info.Size() > 0 {
			files = append(files, f)
		}
	}
	return files
}

// holes is what DumpLogSegments says of offsets that do not follow each other. It says so of the first one of each segment too.
func holes(out string) (list []string) {
	for _, m := range regexp.MustCompile(`(-?\d+) is followed by \d+`).FindAllStringSubmatch(out, -1) {
		if m[1] != "-1" {
			list = append(list, m[0])
		}
	}
	return list
}

type dumpedRecord struct{ key, value string }

// dumped reads the records that DumpLogSegments printed. A tombstone has no payload.
func dumped(out string) map[int64]dumpedRecord {
	record := regexp.MustCompile(`(?m)^\| offset: (\d+) .*\bkey: (\S+)(?: payload: (\S+))?`)
	all := map[int64]dumpedRecord{}
	for _, m := range record.FindAllStringSubmatch(out, -1) {
		var off int64
		_, _ = fmt.Sscan(m[1], &off)
		r := dumpedRecord{m[2], m[3]}
		if r.value == "" {
			r.value = "null"
		}
		all[off] = r
	}
	return all
}
