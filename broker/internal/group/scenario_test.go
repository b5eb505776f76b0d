package group

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// TestScenarios runs the files of testdata/scenarios. Each command is one message to the machine; what is printed are its effects.
// Time stands still but for "advance". Member ids end in a running number. Writes succeed at once unless "hold" was
// said; then "written ticket=N [error=NAME]" decides. The commands:
//
//	machine [delay=3s] [max-size=N] [retention=1h] [check=10m] [metadata-max=N]   a new, empty machine
//	join ref=R group=G [client=C] [member=M] [instance=I] [v=9] [session=10s] [rebalance=60s] [protocols=range:x,sticky:y]
//	sync ref=R group=G member=M gen=N [instance=I] [assign=M1:x,M2:y] [v=4] [type=T] [protocol=P]
//	heartbeat ref=R group=G member=M gen=N [instance=I]
//	leave ref=R group=G [member=M | instance=I ...] [v=5]
//	commit ref=R group=G [member=M] [gen=N] [v=9] offsets=topic-0:17,topic-1:18 [metadata=text] [retain=1h] [id=N]
//	fetch [ref=R] group=G [topics=topic-0,topic-1] [id=N] [stable=yes]      describe group=G      list [states=..] [types=..]
//	advance 10s          topics-deleted a b id=N          hold on|off          written ticket=N [error=NAME]
//	reload               a new machine is loaded from all that was written          resign
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := newScenario(scenarioConfig())
		datadriven.RunTest(t, path, s.run)
	})
}

func scenarioConfig() Config {
	return Config{
		MinSessionTimeoutMS: 6000, MaxSessionTimeoutMS: 1800000, InitialRebalanceDelayMS: 3000, MaxSize: 1 << 30, WriteTimeoutMS: 5000,
		OffsetMetadataMaxBytes: 4096, OffsetsRetentionMS: 7 * 24 * 3600 * 1000, RetentionCheckMS: 600000,
	}
}

// scenario is a machine with a log that is a slice.
type scenario struct {
	m    *Machine
	c    Config
	now  Now
	ids  int
	log  []Record
	hold bool
	held map[uint64][]Record
	out  strings.Builder

	fatal func(...any) // the test's
}

func newScenario(c Config) *scenario {
	s := &scenario{c: c, now: Now{MonoMS: 1000, WallMS: 1_700_000_000_000}}
	s.fresh()
	return s
}

func (s *scenario) fresh() {
	s.held = map[uint64][]Record{}
	s.m = New(s.c, func() string { s.ids++; return strconv.Itoa(s.ids) })
}

//tidy:long one case for each command
func (s *scenario) run(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	s.fatal = t.Fatal
	a := args{t: t, d: d}
	switch d.Cmd {
	case "machine":
		s.c = scenarioConfig()
		s.c.InitialRebalanceDelayMS = int32(a.ms("delay", int64(s.c.InitialRebalanceDelayMS)))
		s.c.MaxSize = int32(a.int("max-size", int(s.c.MaxSize)))
		s.c.OffsetMetadataMaxBytes = int32(a.int("metadata-max", int(s.c.OffsetMetadataMaxBytes)))
		s.c.OffsetsRetentionMS = a.ms("retention", s.c.OffsetsRetentionMS)
		s.c.RetentionCheckMS = a.ms("check", s.c.RetentionCheckMS)
		s.log, s.ids = nil, 0
		s.fresh()
	case "join":
		s.m.JoinGroup(s.now, a.str("ref", ""), a.str("client", "c"), "/10.0.0.1", a.join())
	case "sync":
		r := kmsg.NewPtrSyncGroupRequest()
		r.Version, r.Group, r.MemberID = int16(a.int("v", 4)), a.str("group", ""), a.str("member", "")
		r.Generation, r.InstanceID = int32(a.int("gen", -1)), a.opt("instance")
		r.Protocol, r.ProtocolType = a.opt("protocol"), a.opt("type")
		for _, pair := range a.list("assign") {
			ga := kmsg.NewSyncGroupRequestGroupAssignment()
			m, x, _ := strings.Cut(pair, ":")
			ga.MemberID, ga.MemberAssignment = m, []byte(x)
			r.GroupAssignment = append(r.GroupAssignment, ga)
		}
		s.m.SyncGroup(s.now, a.str("ref", ""), r)
	case "heartbeat":
		r := kmsg.NewPtrHeartbeatRequest()
		r.Version, r.Group, r.MemberID = 4, a.str("group", ""), a.str("member", "")
		r.Generation, r.InstanceID = int32(a.int("gen", -1)), a.opt("instance")
		s.m.Heartbeat(s.now, a.str("ref", ""), r)
	case "leave":
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Version, r.Group, r.MemberID = int16(a.int("v", 5)), a.str("group", ""), a.str("member", "")
		for _, id := range a.list("member") {
			r.Members = append(r.Members, kmsg.LeaveGroupRequestMember{MemberID: id})
		}
		for _, id := range a.list("instance") {
			r.Members = append(r.Members, kmsg.LeaveGroupRequestMember{InstanceID: &id})
		}
		s.m.LeaveGroup(s.now, a.str("ref", ""), r)
	case "commit":
		s.m.OffsetCommit(s.now, a.str("ref", ""), a.commit())
	case "fetch":
		if stable := a.str("stable", "") == "yes"; a.opt("ref") == nil {
			s.printFetch(s.m.fetch(a.fetch(), stable)) // what is there now
		} else {
			s.m.OffsetFetch(a.str("ref", ""), a.fetch(), stable)
		}
	case "describe":
		s.printDescribe(a.str("group", ""))
	case "list":
		for _, g := range s.m.List(NewFilter(a.list("states"), a.list("types"))) {
			fmt.Fprintf(&s.out, "%s type=%q state=%s kind=%s\n", g.Group, g.ProtocolType, g.GroupState, g.GroupType)
		}
	case "advance":
		s.advance(a.duration(d.CmdArgs[0].Key))
	case "topics-deleted":
		topics := map[string][16]byte{}
		for _, arg := range d.CmdArgs {
			if arg.Key != "id" {
				topics[arg.Key] = [16]byte{15: byte(a.int("id", 0))}
			}
		}
		s.m.RemoveOffsets(s.now, func(topic string, id [16]byte) bool { t, ok := topics[topic]; return ok && id == t })
	case "delete-group":
		s.m.DeleteGroup(s.now, a.str("ref", ""), a.str("group", ""))
	case "delete-offsets":
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = a.str("group", "")
		for _, topic := range a.list("topics") {
			t := kmsg.NewOffsetDeleteRequestTopic()
			t.Topic, t.Partitions = topic, []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}
			r.Topics = append(r.Topics, t)
		}
		s.m.OffsetDelete(s.now, a.str("ref", ""), r)
	case "hold":
		s.hold = d.CmdArgs[0].Key == "on"
	case "written":
		ticket := uint64(a.int("ticket", 0))
		s.written(ticket, s.held[ticket], a.code("error"))
	case "reload":
		s.fresh()
		for _, r := range s.log {
			if err := s.m.Replay(r.Key, r.Value); err != nil {
				t.Fatal(err)
			}
		}
		s.m.Loaded(s.now)
	case "resign":
		s.m.Resign(s.now)
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	s.effects()
	return s.out.String()
}

// advance moves time through every deadline on the way.
func (s *scenario) advance(by time.Duration) {
	until := s.now.MonoMS + by.Milliseconds()
	for {
		next, ok := s.m.Next()
		if !ok || next > until {
			break
		}
		step := max(next-s.now.MonoMS, 0)
		s.now.MonoMS += step
		s.now.WallMS += step
		s.m.Tick(s.now)
		if fx := s.m.fx; len(fx.Writes)+len(fx.Answers)+len(fx.Notes) > 0 {
			fmt.Fprintf(&s.out, "-- %s left\n", time.Duration(until-s.now.MonoMS)*time.Millisecond)
		}
		s.effects()
	}
	s.now.WallMS += until - s.now.MonoMS
	s.now.MonoMS = until
}

func (s *scenario) written(ticket uint64, records []Record, code kafka.ErrorCode) {
	delete(s.held, ticket)
	if code == kafka.None {
		s.log = append(s.log, records...)
	}
	s.m.Written(s.now, ticket, code)
}

// effects prints and carries out until there are none.
func (s *scenario) effects() {
	for {
		fx := s.m.Take()
		if len(fx.Writes)+len(fx.Answers)+len(fx.Notes) == 0 {
			return
		}
		for _, n := range fx.Notes {
			fmt.Fprintf(&s.out, "note %s: %s\n", n.Group, n.Text)
		}
		for _, a := range fx.Answers {
			s.printAnswer(a)
		}
		for _, w := range fx.Writes {
			records := s.collect(w)
			for _, r := range records {
				fmt.Fprintf(&s.out, "write %d: %s\n", w.Ticket, describeRecord(r))
			}
			if s.hold {
				s.held[w.Ticket] = records
				continue
			}
			s.written(w.Ticket, records, kafka.None)
		}
	}
}

// collect makes the records of a write, which must be as large as it says.
func (s *scenario) collect(w Write) []Record {
	var records []Record
	bytes := 0
	for i := range w.Records.Count() {
		r := w.Records.Record(i)
		records, bytes = append(records, r), bytes+r.bytes()
	}
	if bytes != w.Bytes {
		s.fatal(fmt.Sprintf("write of %d bytes says %d", bytes, w.Bytes))
	}
	return records
}

func code(c int16) string { return kafka.ErrorCode(c).Error() }

func (s *scenario) printAnswer(a Answer) {
	fmt.Fprintf(&s.out, "%s: ", a.To)
	switch r := a.Make().(type) {
	case *kmsg.JoinGroupResponse:
		if r.ErrorCode != 0 {
			fmt.Fprintf(&s.out, "join %s member=%s\n", code(r.ErrorCode), r.MemberID)
			return
		}
		fmt.Fprintf(&s.out, "join gen=%d protocol=%s leader=%s member=%s", r.Generation, *r.Protocol, r.LeaderID, r.MemberID)
		if r.SkipAssignment {
			fmt.Fprint(&s.out, " skip-assignment")
		}
		for _, m := range r.Members {
			fmt.Fprintf(&s.out, " [%s", m.MemberID)
			if m.InstanceID != nil {
				fmt.Fprintf(&s.out, " instance=%s", *m.InstanceID)
			}
			fmt.Fprintf(&s.out, " %s]", printable(m.ProtocolMetadata))
		}
		fmt.Fprintln(&s.out)
	case *kmsg.SyncGroupResponse:
		fmt.Fprintf(&s.out, "sync %s assignment=%q\n", code(r.ErrorCode), r.MemberAssignment)
	case *kmsg.HeartbeatResponse:
		fmt.Fprintf(&s.out, "heartbeat %s\n", code(r.ErrorCode))
	case *kmsg.LeaveGroupResponse:
		fmt.Fprintf(&s.out, "leave %s", code(r.ErrorCode))
		for _, m := range r.Members {
			fmt.Fprintf(&s.out, " [%s %s]", m.MemberID+deref(m.InstanceID), code(m.ErrorCode))
		}
		fmt.Fprintln(&s.out)
	case *kmsg.OffsetCommitResponse:
		fmt.Fprint(&s.out, "commit")
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(&s.out, " %s-%d=%s", t.Topic, p.Partition, code(p.ErrorCode))
			}
		}
		fmt.Fprintln(&s.out)
	case *kmsg.OffsetFetchResponse:
		fmt.Fprintf(&s.out, "fetch %s\n", code(r.Groups[0].ErrorCode))
		s.printFetch(r.Groups[0])
	case *kmsg.DeleteGroupsResponse:
		fmt.Fprintf(&s.out, "delete-group %s\n", code(r.Groups[0].ErrorCode))
	case *kmsg.OffsetDeleteResponse:
		fmt.Fprintf(&s.out, "delete-offsets %s", code(r.ErrorCode))
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(&s.out, " %s-%d=%s", t.Topic, p.Partition, code(p.ErrorCode))
			}
		}
		fmt.Fprintln(&s.out)
	}
}

func (s *scenario) printFetch(r kmsg.OffsetFetchResponseGroup) {
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				fmt.Fprintf(&s.out, "%s-%d %s offset=%d\n", t.Topic, p.Partition, code(p.ErrorCode), p.Offset)
				continue
			}
			fmt.Fprintf(&s.out, "%s-%d offset=%d epoch=%d metadata=%q\n", t.Topic, p.Partition, p.Offset, p.LeaderEpoch, *p.Metadata)
		}
	}
}

func (s *scenario) printDescribe(group string) {
	r, ok := s.m.Describe(group)
	if !ok {
		fmt.Fprintln(&s.out, "unknown group")
		return
	}
	fmt.Fprintf(&s.out, "%s type=%q protocol=%q\n", r.State, r.ProtocolType, r.Protocol)
	for _, m := range r.Members {
		fmt.Fprintf(&s.out, "  %s %s subscription=%q assignment=%q\n", m.MemberID+deref(m.InstanceID), m.ClientHost, m.ProtocolMetadata, m.MemberAssignment)
	}
}

func deref(p *string) string {
	if p == nil {
		return ""
	}
	return "(" + *p + ")"
}

func describeRecord(r Record) string {
	var ok kmsg.OffsetCommitKey
	if r.Key[1] < 2 && ok.ReadFrom(r.Key) == nil {
		at := fmt.Sprintf("offset %s %s-%d", ok.Group, ok.Topic, ok.Partition)
		var v kmsg.OffsetCommitValue
		if r.Value == nil {
			return at + " tombstone"
		}
		if err := v.ReadFrom(r.Value); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%s v%d =%d", at, v.Version, v.Offset)
	}
	var gk kmsg.GroupMetadataKey
	if err := gk.ReadFrom(r.Key); err != nil {
		return err.Error()
	}
	if r.Value == nil {
		return "group " + gk.Group + " tombstone"
	}
	var v kmsg.GroupMetadataValue
	if err := v.ReadFrom(r.Value); err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("group %s v%d gen=%d", gk.Group, v.Version, v.Generation)
	for _, m := range v.Members {
		text += fmt.Sprintf(" [%s%s %s=%s]", m.MemberID, deref(m.InstanceID), printable(m.Subscription), m.Assignment)
	}
	return text
}

// printable shows a subscription: our text, or the topics of a real one.
func printable(b []byte) string {
	var sub kmsg.ConsumerMemberMetadata
	if len(b) > 6 && sub.ReadFrom(b) == nil {
		return "topics=" + strings.Join(sub.Topics, "+")
	}
	return string(b)
}

// args reads the arguments of one command.
type args struct {
	t *testing.T
	d *datadriven.TestData
}

func (a args) opt(key string) *string {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == key && len(arg.Vals) > 0 {
			v := strings.Join(arg.Vals, ",")
			return &v
		}
	}
	return nil
}

func (a args) str(key, otherwise string) string {
	if v := a.opt(key); v != nil {
		return *v
	}
	return otherwise
}

func (a args) list(key string) []string {
	v := a.str(key, "")
	if v == "" {
		return nil
	}
	return strings.Split(v, ",")
}

func (a args) int(key string, otherwise int) int {
	v := a.opt(key)
	if v == nil {
		return otherwise
	}
	n, err := strconv.Atoi(*v)
	if err != nil {
		a.d.Fatalf(a.t, "%s: %v", key, err)
	}
	return n
}

func (a args) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		a.d.Fatalf(a.t, "%v", err)
	}
	return d
}

func (a args) ms(key string, otherwise int64) int64 {
	if v := a.opt(key); v != nil {
		return a.duration(*v).Milliseconds()
	}
	return otherwise
}

func (a args) code(key string) kafka.ErrorCode {
	name := a.str(key, "NONE")
	for c := kafka.ErrorCode(-1); c < 140; c++ {
		if c.Error() == name {
			return c
		}
	}
	a.d.Fatalf(a.t, "no error is called %s", name)
	return 0
}

func (a args) join() *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.MemberID = int16(a.int("v", 9)), a.str("group", ""), a.str("member", "")
	r.InstanceID, r.Reason = a.opt("instance"), a.opt("reason")
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = int32(a.ms("session", 10000)), int32(a.ms("rebalance", 60000))
	r.ProtocolType = a.str("type", "consumer")
	for _, p := range strings.Split(a.str("protocols", "range:x"), ",") {
		jp := kmsg.NewJoinGroupRequestProtocol()
		name, metadata, _ := strings.Cut(p, ":")
		jp.Name, jp.Metadata = name, []byte(metadata)
		if strings.HasPrefix(metadata, "topics=") {
			sub := kmsg.NewConsumerMemberMetadata()
			sub.Topics = strings.Split(metadata[len("topics="):], "+")
			jp.Metadata = sub.AppendTo(nil)
		}
		r.Protocols = append(r.Protocols, jp)
	}
	return r
}

// splitPartition takes "topic-1" apart.
func splitPartition(s string) (string, int32, error) {
	i := strings.LastIndexByte(s, '-')
	if i < 0 {
		return "", 0, errors.New("want topic-partition, not " + s)
	}
	p, err := strconv.Atoi(s[i+1:])
	return s[:i], int32(p), err
}

func (a args) commit() *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.MemberID = int16(a.int("v", 9)), a.str("group", ""), a.str("member", "")
	r.Generation, r.InstanceID = int32(a.int("gen", -1)), a.opt("instance")
	r.RetentionTimeMillis = a.ms("retain", -1)
	for _, o := range a.list("offsets") {
		where, offset, _ := strings.Cut(o, ":")
		topic, partition, err := splitPartition(where)
		n, err2 := strconv.ParseInt(offset, 10, 64)
		if err := errors.Join(err, err2); err != nil {
			a.d.Fatalf(a.t, "%v", err)
		}
		i := slices.IndexFunc(r.Topics, func(t kmsg.OffsetCommitRequestTopic) bool { return t.Topic == topic })
		if i < 0 {
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic, t.TopicID = topic, [16]byte{15: byte(a.int("id", 0))}
			r.Topics, i = append(r.Topics, t), len(r.Topics)
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, n, 3, a.opt("metadata")
		r.Topics[i].Partitions = append(r.Topics[i].Partitions, p)
	}
	return r
}

func (a args) fetch() *kmsg.OffsetFetchRequestGroup {
	r := kmsg.NewOffsetFetchRequestGroup()
	r.Group = a.str("group", "")
	for _, s := range a.list("topics") {
		topic, partition, err := splitPartition(s)
		if err != nil {
			a.d.Fatalf(a.t, "%v", err)
		}
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.TopicID, t.Partitions = topic, [16]byte{15: byte(a.int("id", 0))}, []int32{partition}
		r.Topics = append(r.Topics, t)
	}
	return &r
}
