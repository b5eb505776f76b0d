package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/proc"
)

// set turns "name=value" and "-name" into alterations.
func set(settings ...string) (out []kadm.AlterConfig) {
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		if rest, gone := strings.CutPrefix(name, "-"); gone {
			out = append(out, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: rest})
			continue
		}
		out = append(out, kadm.AlterConfig{Name: name, Value: &value})
	}
	return out
}

func alterTopic(t *testing.T, b *proc.Broker, topic string, settings ...string) {
	t.Helper()
	r, err := adminOf(t, b).AlterTopicConfigs(t.Context(), set(settings...), topic)
	if err == nil {
		err = r[0].Err
	}
	if err != nil {
		t.Fatalf("%s %v: %v", topic, settings, err)
	}
}

// alterBrokers sets for one broker, or, without an id, for all.
func alterBrokers(t *testing.T, b *proc.Broker, settings []string, ids ...int32) {
	t.Helper()
	r, err := adminOf(t, b).AlterBrokerConfigs(t.Context(), set(settings...), ids...)
	if err == nil {
		err = r[0].Err
	}
	if err != nil {
		t.Fatalf("brokers %v %v: %v", ids, settings, err)
	}
}

// send produces one record of a size and gives back what it became.
func send(t *testing.T, c *kgo.Client, topic string, key []byte, bytes int) (*kgo.Record, error) {
	t.Helper()
	return c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: key, Value: make([]byte, bytes)}).First()
}

// TestTopicSettingsChangeAtRunTime: producers see a change with their next request, retention with its next look.
func TestTopicSettingsChangeAtRunTime(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir(), Properties: []string{"log.retention.check.interval.ms=50", "log.segment.delete.delay.ms=0"}})
	create(t, b, "t", 1, "segment.bytes=1048576")
	c := newClient(t, b, kgo.ProducerBatchCompression(kgo.NoCompression()))
	if _, err := send(t, c, "t", nil, 100_000); err != nil {
		t.Fatal(err)
	}
	alterTopic(t, b, "t", "max.message.bytes=50000")
	if _, err := send(t, c, "t", nil, 100_000); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("a record above the new max.message.bytes: %v", err)
	}
	alterTopic(t, b, "t", "-max.message.bytes")
	if _, err := send(t, c, "t", nil, 100_000); err != nil {
		t.Errorf("after the setting went: %v", err)
	}
	// One replica is all that there can be in sync (KIP-966).
	alterTopic(t, b, "t", "min.insync.replicas=2")
	if _, err := send(t, c, "t", nil, 10); err != nil {
		t.Errorf("acks=all with min.insync.replicas above the replication factor: %v", err)
	}
	alterTopic(t, b, "t", "-min.insync.replicas")
	alterTopic(t, b, "t", "message.timestamp.type=LogAppendTime")
	before := nowMS()
	r, err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}).First()
	if err != nil || r.Timestamp.UnixMilli() < before {
		t.Errorf("LogAppendTime: %v, %v", r, err)
	}
	alterTopic(t, b, "t", "message.timestamp.type=CreateTime", "cleanup.policy=compact")
	if _, err := send(t, c, "t", nil, 10); !errors.Is(err, kerr.InvalidRecord) {
		t.Errorf("a record without key in a topic that has become compacted: %v", err)
	}
	if _, err := send(t, c, "t", []byte("k"), 10); err != nil {
		t.Errorf("a record with key: %v", err)
	}

	alterTopic(t, b, "t", "cleanup.policy=delete")
	fill(t, b, "t", 0, 60, 100_000, kgo.ProducerBatchCompression(kgo.NoCompression()))
	w := dial(t, b.Addr)
	if start := w.listOffset("t", -2).Offset; start != 0 {
		t.Fatalf("the log starts at %d", start)
	}
	alterTopic(t, b, "t", "retention.bytes=2097152")
	until(t, "retention.bytes deletes old segments", func() bool { return w.listOffset("t", -2).Offset > 0 })
	// Settings outlive the process.
	dir := b.Data
	b.Kill()
	b = start(t, proc.Options{NoAdmin: true, Data: dir})
	got, err := adminOf(t, b).DescribeTopicConfigs(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, c := range got[0].Configs {
		if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
			values[c.Key] = c.MaybeValue()
		}
	}
	if want := map[string]string{"segment.bytes": "1048576", "retention.bytes": "2097152", "cleanup.policy": "delete", "message.timestamp.type": "CreateTime"}; fmt.Sprint(values) != fmt.Sprint(want) {
		t.Errorf("after a kill: %v, want %v", values, want)
	}
}

// TestBrokerSettingsChangeAtRunTime: a topic follows the broker's setting, the broker its own before that of all brokers;
// the topic's own wins.
func TestBrokerSettingsChangeAtRunTime(t *testing.T) {
	dir := t.TempDir()
	options := proc.Options{NoAdmin: true, Data: dir, Properties: []string{"message.max.bytes=400000", "node.id=5"}}
	b := start(t, options)
	create(t, b, "follows", 1)
	create(t, b, "own", 1, "max.message.bytes=500000")
	largest := func(topic string, bytes int) {
		t.Helper()
		c := newClient(t, b, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(900_000))
		if _, err := send(t, c, topic, nil, bytes-1000); err != nil {
			t.Errorf("%s takes no batch of nearly %d bytes: %v", topic, bytes, err)
		}
		if _, err := send(t, c, topic, nil, bytes+1000); !errors.Is(err, kerr.MessageTooLarge) {
			t.Errorf("%s with a batch above %d bytes: %v", topic, bytes, err)
		}
	}
	largest("follows", 400_000)
	alterBrokers(t, b, []string{"message.max.bytes=200000"})
	largest("follows", 200_000)
	alterBrokers(t, b, []string{"message.max.bytes=300000"}, 5)
	largest("follows", 300_000)
	largest("own", 500_000)
	b.Kill()
	b = start(t, options)
	largest("follows", 300_000)
	create(t, b, "new", 1)
	largest("new", 300_000)
	alterBrokers(t, b, []string{"-message.max.bytes"}, 5)
	largest("follows", 200_000)
	alterBrokers(t, b, []string{"-message.max.bytes"})
	largest("follows", 400_000)

	alterBrokers(t, b, []string{"max.connections.per.ip=1"})
	for range 2 { // the one that the client above may still have, and one more
		w := dial(t, b.Addr)
		defer w.Close()
	}
	dial(t, b.Addr).closes()
}

// TestDeletedRecordsStayDeleted: the log start moves, bounds are held, and a kill brings nothing back.
func TestDeletedRecordsStayDeleted(t *testing.T) {
	dir := t.TempDir()
	b := start(t, proc.Options{NoAdmin: true, Data: dir})
	create(t, b, "t", 2)
	create(t, b, "compacted", 1, "cleanup.policy=compact")
	fill(t, b, "t", 0, 10, 10)
	w := dial(t, b.Addr)
	coordinator := kmsg.NewPtrFindCoordinatorRequest()
	coordinator.CoordinatorKey = "g"
	ask[*kmsg.FindCoordinatorResponse](w, coordinator) // it makes __consumer_offsets
	for version := range int16(3) {
		for _, c := range []struct {
			topic     string
			partition int32
			offset    int64
			start     int64
			err       error
		}{
			{"t", 0, 3 + int64(version), 3 + int64(version), nil},
			{"t", 0, 1, 3 + int64(version), nil}, // below the start: nothing happens
			{"t", 0, 11, -1, kerr.OffsetOutOfRange},
			{"t", 0, -2, -1, kerr.OffsetOutOfRange},
			{"t", 1, -1, 0, nil},
			{"t", 7, 1, -1, kerr.UnknownTopicOrPartition},
			{"missing", 0, 1, -1, kerr.UnknownTopicOrPartition},
			{"__transaction_state", 0, 0, -1, kerr.UnknownTopicOrPartition},
			{"compacted", 0, 0, -1, kerr.PolicyViolation},
			{"__consumer_offsets", 0, 0, -1, kerr.InvalidTopicException},
		} {
			r := kmsg.NewPtrDeleteRecordsRequest()
			r.Version, r.TimeoutMillis = version, 10_000
			r.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: c.topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: c.partition, Offset: c.offset}}}}
			p := ask[*kmsg.DeleteRecordsResponse](w, r).Topics[0].Partitions[0]
			if err := kerr.ErrorForCode(p.ErrorCode); err != c.err || p.LowWatermark != c.start {
				t.Errorf("version %d: %s-%d before %d: start %d, %v; want %d, %v", version, c.topic, c.partition, c.offset, p.LowWatermark, err, c.start, c.err)
			}
		}
	}
	if got := w.listOffset("t", -2).Offset; got != 5 {
		t.Errorf("the log starts at %d, want 5", got)
	}
	if p := w.fetchOne("t", 4); kerr.ErrorForCode(p.ErrorCode) != kerr.OffsetOutOfRange {
		t.Errorf("a fetch below the start: %v", kerr.ErrorForCode(p.ErrorCode))
	}
	until(t, "the new start is in the checkpoint", func() bool {
		file, err := os.ReadFile(filepath.Join(dir, "log-start-offset-checkpoint"))
		return err == nil && strings.Contains(string(file), "t 0 5\n")
	})
	b.Kill()
	b = start(t, proc.Options{NoAdmin: true, Data: dir})
	if got := dial(t, b.Addr).listOffset("t", -2).Offset; got != 5 {
		t.Errorf("after a kill the log starts at %d, want 5", got)
	}
}

// TestGroupsAndOffsetsAreDeleted with a real member: what it reads stays, what it does not read goes, and the group goes
// when it has left.
func TestGroupsAndOffsetsAreDeleted(t *testing.T) {
	dir := t.TempDir()
	b := start(t, proc.Options{NoAdmin: true, Data: dir})
	for _, topic := range []string{"read", "unread"} {
		create(t, b, topic, 1)
		fill(t, b, topic, 0, 3, 10)
	}
	admin := adminOf(t, b)
	var offsets kadm.Offsets
	offsets.AddOffset("unread", 0, 2, -1)
	if err := admin.CommitAllOffsets(t.Context(), "g", offsets); err != nil {
		t.Fatal(err)
	}
	member := newClient(t, b, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("read"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	fs := member.PollFetches(t.Context())
	if err := errors.Join(fs.Err(), member.CommitRecords(t.Context(), fs.Records()...)); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.DeleteGroup(t.Context(), "g"); !errors.Is(err, kerr.NonEmptyGroup) {
		t.Errorf("a group with a member: %v", err)
	}
	var both kadm.TopicsSet
	both.Add("read", 0)
	both.Add("unread", 0)
	deleted, err := admin.DeleteOffsets(t.Context(), "g", both)
	if err != nil {
		t.Fatal(err)
	}
	if e1, e2 := deleted["read"][0], deleted["unread"][0]; !errors.Is(e1, kerr.GroupSubscribedToTopic) || e2 != nil {
		t.Errorf("offsets of a subscribed topic: %v; of another: %v", e1, e2)
	}
	left := func() (topics []string) {
		all, err := admin.FetchOffsets(t.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		for topic := range all {
			topics = append(topics, topic)
		}
		return topics
	}
	if got := left(); !slices.Equal(got, []string{"read"}) {
		t.Errorf("offsets are left of %v", got)
	}
	member.LeaveGroup()
	if _, err := admin.DeleteGroup(t.Context(), "g"); err != nil {
		t.Errorf("an empty group: %v", err)
	}
	if _, err := admin.DeleteGroup(t.Context(), "g"); !errors.Is(err, kerr.GroupIDNotFound) {
		t.Errorf("a group that went: %v", err)
	}
	b.Kill()
	b = start(t, proc.Options{NoAdmin: true, Data: dir})
	admin = adminOf(t, b)
	if got := left(); len(got) > 0 {
		t.Errorf("after a kill there are offsets of %v", got)
	}
	groups, err := admin.ListGroups(t.Context())
	if err != nil || len(groups) > 0 {
		t.Errorf("after a kill there are groups: %v %v", groups, err)
	}
}

// TestFoldersAndProducersAreDescribed in every version.
func TestFoldersAndProducersAreDescribed(t *testing.T) {
	dir := t.TempDir()
	b := start(t, proc.Options{NoAdmin: true, Data: dir})
	create(t, b, "t", 2)
	create(t, b, "u", 1)
	fill(t, b, "t", 0, 3, 1000)
	fill(t, b, "u", 0, 1, 10)
	w := dial(t, b.Addr)
	for version := int16(1); version <= 5; version++ {
		r := kmsg.NewPtrDescribeLogDirsRequest()
		r.Version = version
		sizes := func() map[string]int64 {
			resp := ask[*kmsg.DescribeLogDirsResponse](w, r)
			if len(resp.Dirs) != 1 || resp.Dirs[0].ErrorCode != 0 || resp.Dirs[0].Dir != dir {
				t.Fatalf("version %d: %+v", version, resp)
			}
			if d := resp.Dirs[0]; version >= 4 && (d.TotalBytes <= 0 || d.UsableBytes <= 0 || d.UsableBytes > d.TotalBytes) {
				t.Errorf("version %d: %d of %d bytes usable", version, d.UsableBytes, d.TotalBytes)
			}
			out := map[string]int64{}
			for _, topic := range resp.Dirs[0].Topics {
				for _, p := range topic.Partitions {
					out[fmt.Sprintf("%s-%d", topic.Topic, p.Partition)] = p.Size
				}
			}
			return out
		}
		info, err := os.Stat(filepath.Join(dir, "t-0", "00000000000000000000.log"))
		if err != nil {
			t.Fatal(err)
		}
		all := sizes()
		if empty, there := all["t-1"]; all["t-0"] != info.Size() || all["u-0"] == 0 || empty != 0 || !there {
			t.Errorf("version %d: %v, the file of t-0 has %d bytes", version, all, info.Size())
		}
		r.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "t", Partitions: []int32{0, 1}}}
		if some := sizes(); some["t-0"] != info.Size() || some["u-0"] != 0 {
			t.Errorf("version %d, one topic: %v", version, some)
		}
	}

	id := w.initProducer()
	for i, at := range []int64{1000, 2000} {
		id.seq = int32(i)
		if p := w.produce("t", 1, batch(id, []byte("v"), at)); p.ErrorCode != 0 {
			t.Fatal(kerr.ErrorForCode(p.ErrorCode))
		}
	}
	r := kmsg.NewPtrDescribeProducersRequest()
	r.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{1, 9}}}
	got := ask[*kmsg.DescribeProducersResponse](w, r).Topics[0].Partitions
	if len(got) != 2 || len(got[0].ActiveProducers) != 1 || kerr.ErrorForCode(got[1].ErrorCode) != kerr.UnknownTopicOrPartition {
		t.Fatalf("%+v", got)
	}
	if p := got[0].ActiveProducers[0]; p.ProducerID != id.id || p.ProducerEpoch != int32(id.epoch) || p.LastSequence != 1 || p.LastTimestamp != 2000 || p.CurrentTxnStartOffset != -1 {
		t.Errorf("%+v", p)
	}
}

// TestTransactionsAreRefused at once and for good, whatever a client begins with.
func TestTransactionsAreRefused(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	create(t, b, "t", 1)
	c := newClient(t, b, kgo.TransactionalID("x"), kgo.DefaultProduceTopic("t"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := c.BeginTransaction()
	if err == nil {
		err = c.ProduceSync(ctx, kgo.StringRecord("v")).FirstErr()
	}
	if !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		t.Errorf("a transactional producer: %v", err)
	}
	w := dial(t, b.Addr)
	for version := range int16(6) {
		id := "x"
		r := kmsg.NewPtrInitProducerIDRequest()
		r.Version, r.TransactionalID, r.TransactionTimeoutMillis = version, &id, 1000
		if code := ask[*kmsg.InitProducerIDResponse](w, r).ErrorCode; kerr.ErrorForCode(code) != kerr.TransactionalIDAuthorizationFailed {
			t.Errorf("InitProducerId %d: %v", version, kerr.ErrorForCode(code))
		}
	}
	for version := int16(1); version <= 6; version++ {
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.Version, r.CoordinatorType, r.CoordinatorKey, r.CoordinatorKeys = version, 1, "x", []string{"x"}
		resp := ask[*kmsg.FindCoordinatorResponse](w, r)
		code, text := resp.ErrorCode, resp.ErrorMessage
		if version >= 4 {
			code, text = resp.Coordinators[0].ErrorCode, resp.Coordinators[0].ErrorMessage
		}
		if kerr.ErrorForCode(code) != kerr.TransactionalIDAuthorizationFailed || text == nil || *text == "" {
			t.Errorf("FindCoordinator %d: %v, %v", version, kerr.ErrorForCode(code), text)
		}
	}
	records := batch(w.initProducer(), []byte("v"), nowMS())
	records[22] |= 1 << 4 // transactional
	if p := w.produce("t", 0, seal(records)); kerr.ErrorForCode(p.ErrorCode) != kerr.TransactionalIDAuthorizationFailed || p.ErrorMessage == nil {
		t.Errorf("a batch with the transactional bit: %v, %v", kerr.ErrorForCode(p.ErrorCode), p.ErrorMessage)
	}
}

// TestEpochEnds: OffsetForLeaderEpoch says where an epoch ended, which a restart begins anew.
func TestEpochEnds(t *testing.T) {
	dir := t.TempDir()
	b := start(t, proc.Options{NoAdmin: true, Data: dir})
	create(t, b, "t", 1)
	fill(t, b, "t", 0, 3, 10)
	b.Kill()
	b = start(t, proc.Options{NoAdmin: true, Data: dir})
	fill(t, b, "t", 0, 4, 10)
	w := dial(t, b.Addr)
	epoch := w.listOffset("t", -1).LeaderEpoch
	for version := int16(2); version <= 4; version++ {
		for _, c := range []struct {
			current, asked int32
			epoch          int32
			end            int64
			err            error
		}{
			{epoch, epoch, epoch, 7, nil},
			{-1, epoch - 1, epoch - 1, 3, nil},
			{epoch, epoch + 9, -1, -1, nil},
			{epoch - 1, epoch, -1, -1, kerr.FencedLeaderEpoch},
			{epoch + 1, epoch, -1, -1, kerr.UnknownLeaderEpoch},
		} {
			r := kmsg.NewPtrOffsetForLeaderEpochRequest()
			r.Version = version
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.CurrentLeaderEpoch, p.LeaderEpoch = c.current, c.asked
			r.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}
			got := ask[*kmsg.OffsetForLeaderEpochResponse](w, r).Topics[0].Partitions[0]
			if err := kerr.ErrorForCode(got.ErrorCode); err != c.err || got.LeaderEpoch != c.epoch || got.EndOffset != c.end {
				t.Errorf("version %d, epoch %d asked in %d: epoch %d ends at %d, %v; want %d, %d, %v", version, c.asked, c.current, got.LeaderEpoch, got.EndOffset, err, c.epoch, c.end, c.err)
			}
		}
	}
}

// TestMetricsOfGroupsAndMetadata: what an operator watches is counted.
func TestMetricsOfGroupsAndMetadata(t *testing.T) {
	b := start(t, proc.Options{Data: t.TempDir()})
	create(t, b, "t", 1)
	fill(t, b, "t", 0, 1, 10)
	c := newClient(t, b, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	fs := c.PollFetches(t.Context())
	if err := errors.Join(fs.Err(), c.CommitRecords(t.Context(), fs.Records()...)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + b.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"tidemark_groups 1", "tidemark_group_rebalances_total 1", "tidemark_group_records_total 2",
		"tidemark_group_append_failures_total 0", "tidemark_topics 2", "tidemark_metadata_disk_full 0"} {
		if !strings.Contains(string(page), "\n"+line+"\n") {
			t.Errorf("no line %q on the page:\n%s", line, page)
		}
	}
}
