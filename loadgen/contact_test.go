package loadgen

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver/raw"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/workload"
)

func TestACheckSendsAndMakesNothing(t *testing.T) {
	to := target(t, sink.Script{})
	to.Create("mine", 3)
	denied := target(t, sink.Script{RefuseTopics: kafka.TopicAuthorizationFailed})
	dir := filepath.Join(t.TempDir(), "out")
	for _, c := range []struct {
		addr string
		args []string
		exit int
		says []string
	}{
		{to.Addr(), []string{"--prefix", "p", "--rate", "1000", "--window", "10s", "--warm-up", "0s"}, 0,
			[]string{"cluster ", "1 broker", "PLAINTEXT", "produce v", "p-0 is not there: a run makes it, 6 partitions, replication 1", "quotas ", "round trip ", "(median of 5)", "writes        at most 9.8 MiB"}},
		{to.Addr(), []string{"--topic", "mine", "--create", "never", "--partitions", "3", "--max"}, 0, []string{"mine   3 partitions, at least 1 of 1 replicas in sync", "as much as the target takes"}},
		{to.Addr(), []string{"--topic", "mine", "--create", "never", "--partitions", "4"}, exitUsage, []string{"3 partitions, fewer than the 4 asked for"}},
		{to.Addr(), []string{"--topic", "nowhere", "--create", "never"}, exitUsage, []string{"does not exist"}},
		{denied.Addr(), nil, exitFailure, []string{"TOPIC_AUTHORIZATION_FAILED"}},
	} {
		out, _, err := tidemark(t, append([]string{"load", "--bootstrap", c.addr, "--check-only", "--out", dir}, c.args...)...)
		text := out
		if err != nil {
			text = err.Error()
		}
		if ExitCode(err) != c.exit {
			t.Errorf("%q: exit %d: %v", c.args, ExitCode(err), err)
		}
		for _, want := range c.says {
			if !strings.Contains(text, want) {
				t.Errorf("%q: no %q in\n%s", c.args, want, text)
			}
		}
	}
	if st := to.Stats(); st.Records != 0 || st.ProduceRequests != 0 {
		t.Errorf("%+v", st)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a folder was made")
	}
	if _, _, err := tidemark(t, "load", "--bootstrap", to.Addr(), "--create", "never", "--topic", "p-0", "--check-only"); ExitCode(err) != exitUsage {
		t.Errorf("the check has made a topic: %v", err)
	}
}

func TestAQuotaCountsWhereAClientOfTheRunMayFallUnderIt(t *testing.T) {
	entity := func(parts ...string) (es []kmsg.DescribeClientQuotasResponseEntryEntity) {
		for _, p := range parts {
			kind, name, named := strings.Cut(p, "=")
			e := kmsg.DescribeClientQuotasResponseEntryEntity{Type: kind}
			if named {
				e.Name = &name
			}
			es = append(es, e)
		}
		return es
	}
	for _, c := range []struct {
		parts []string
		user  string
		want  string
	}{
		{[]string{"client-id"}, "", "client-id default"},
		{[]string{"client-id=tidemark-load"}, "", "client-id tidemark-load"},
		{[]string{"client-id=tidemark-load-p3"}, "", "client-id tidemark-load-p3"},
		{[]string{"client-id=tidemark-loader"}, "", ""},
		{[]string{"client-id=billing"}, "", ""},
		{[]string{"user=alice", "client-id"}, "alice", "user alice, client-id default"},
		{[]string{"user=bob"}, "alice", ""},
		{[]string{"user=ANONYMOUS"}, "", "user ANONYMOUS"},
		{[]string{"user=bob"}, "", ""},
		{[]string{"user"}, "alice", "user default"},
	} {
		words, applies := quotaEntity(entity(c.parts...), c.user)
		if applies != (c.want != "") || applies && words != c.want {
			t.Errorf("%q as %q: %q %v, want %q", c.parts, c.user, words, applies, c.want)
		}
	}
}

func TestTooFewReplicasInSyncAreRefusedBeforeTheLoad(t *testing.T) {
	s := workload.Default()
	r := run{spec: &s, view: &raw.View{}}
	c := &result.Contact{Topics: []result.ContactTopic{{Name: "t", Replication: 3, InSync: 1, MinISR: 2}}}
	if err := r.inSyncEnough(c); ExitCode(err) != exitFailure || !strings.Contains(err.Error(), "1 replicas in sync, fewer than its min.insync.replicas 2") {
		t.Errorf("%v", err)
	}
	s.Acks = workload.AcksLeader
	if err := r.inSyncEnough(c); err != nil {
		t.Errorf("acks=1 asks for no replica: %v", err)
	}
}

// TestOutsideNamesCannotMoveTheCursor prints names that others gave.
func TestOutsideNamesCannotMoveTheCursor(t *testing.T) {
	const evil = "\x1b[2J\x1b]0;owned\x07<script>\u202ex"
	res := measured(nil)
	res.Run.Bootstrap = []string{evil}
	res.Verification = result.Verification{On: true, Findings: []result.Finding{{Kind: "lost", Topic: evil, Text: evil}}}
	res.Errors = []result.ErrorCount{{Kind: evil, First: evil}}
	res.Add(result.Verdict{Kind: result.Saturated, Reason: evil})
	var out bytes.Buffer
	printResult(&out, res, evil)
	c := &result.Contact{Security: "PLAINTEXT", Brokers: 1, QuotasNote: evil, Quotas: []result.Quota{{Entity: evil, Key: evil}},
		Topics: []result.ContactTopic{{Name: evil}}}
	printContact(&out, c, evil, &res.Asked)
	out.WriteString(failure(errors.New(evil)).Error())
	if strings.ContainsAny(out.String(), "\x1b\x07\u202e") {
		t.Errorf("%q", out.String())
	}
	if n := strings.Count(out.String(), "<script>"); n < 10 {
		t.Errorf("%d of the names are shown", n)
	}
}

func TestPasswordsInAddressesAreNotKept(t *testing.T) {
	got := withoutPasswords([]string{"load", "--pyroscope=https://u:s3cr@host:1/a@b", "http://h/p?x=a@b", "--name", "a@b"})
	want := []string{"load", "--pyroscope=https://host:1/a@b", "http://h/p?x=a@b", "--name", "a@b"}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%q", got)
	}
}
