package loadgen

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/driver/raw"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// has reports whether a sink has a topic.
func has(ctx context.Context, to *sink.Sink, topic string) bool {
	c := raw.NewCluster([]string{to.Addr()}, "test", driver.Access{})
	defer c.Close()
	v, err := c.View(ctx, topic)
	return err == nil && v.Topics[topic] != nil && v.Topics[topic].Err == kafka.None
}

func TestTopicsThatStayAreSaid(t *testing.T) {
	to := target(t, sink.Script{KeepBytes: 1 << 20, RefuseDeletes: kafka.TopicAuthorizationFailed})
	dir := filepath.Join(t.TempDir(), "out")
	out, errs, err := tidemark(t, "load", "--bootstrap", to.Addr(), "--prefix", "a.b", "--topics", "2", "--rate", "100", "--window", "100ms", "--warm-up", "0s",
		"--no-progress", "--out", dir)
	if out == "" {
		t.Fatal(err)
	}
	want := "not deleted: a.b-0, a.b-1: TOPIC_AUTHORIZATION_FAILED; delete them with: kafka-topics.sh --bootstrap-server " + to.Addr() + ` --delete --topic 'a\.b-0|a\.b-1'`
	if !strings.Contains(errs, want) {
		t.Errorf("no %q in %q", want, errs)
	}
	res, err := result.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	left := res.Run.NotDeleted
	if len(left) != 2 || left[0] != (result.LeftTopic{Topic: "a.b-0", Why: "TOPIC_AUTHORIZATION_FAILED"}) || left[1].Topic != "a.b-1" {
		t.Errorf("%+v", left)
	}
	if err := res.CheckFiles(dir); err != nil {
		t.Error(err)
	}
}

func TestTopicsOfATargetThatDiedAreSaid(t *testing.T) {
	s := latency(500)
	s.Window = workload.Duration(time.Minute)
	to := target(t, sink.Script{})
	go func() {
		for to.Stats().Records < 100 {
			<-time.After(time.Millisecond)
		}
		_ = to.Close()
	}()
	var errs bytes.Buffer
	out := t.TempDir()
	res, _ := Run(t.Context(), Options{Spec: s, Bootstrap: []string{to.Addr()}, Out: out, Warnings: &errs})
	if res == nil {
		t.Fatal("no result")
	}
	if len(res.Run.NotDeleted) != 1 || !strings.Contains(res.Run.NotDeleted[0].Why, "the target died") {
		t.Fatalf("%+v; %s", res.Run.NotDeleted, reasons(res))
	}
	if kept, err := result.Read(out); err != nil || len(kept.Run.NotDeleted) != 1 {
		t.Errorf("%+v, %v", kept, err)
	}
	if !strings.Contains(errs.String(), "not deleted: "+res.Run.Topics[0]+": the target died") {
		t.Error(errs.String())
	}
}

// TestTopicsWhoseMakingIsNotAnsweredAreDeleted: who asked for them does not know whether they are there.
func TestTopicsWhoseMakingIsNotAnsweredAreDeleted(t *testing.T) {
	to := target(t, sink.Script{TopicsDelay: -1})
	dir := filepath.Join(t.TempDir(), "out")
	args := []string{"load", "--bootstrap", to.Addr(), "--no-progress", "--out", dir}
	_, errs, err := tidemark(t, append(args, "--prefix", "p")...)
	if ExitCode(err) != exitFailure || strings.Contains(errs, "not deleted") || has(t.Context(), to, "p-0") {
		t.Errorf("%v; %q; is there: %v", err, errs, has(t.Context(), to, "p-0"))
	}
	// One of a name that a person gave may be somebody else's who was faster.
	_, errs, err = tidemark(t, append(args, "--topic", "orders", "--create", "auto")...)
	if ExitCode(err) != exitFailure || !strings.Contains(errs, "not deleted: orders: ") || !has(t.Context(), to, "orders") {
		t.Errorf("%v; %q", err, errs)
	}
}

func TestASignalWhileTopicsAreMadeLeavesNone(t *testing.T) {
	s := latency(100)
	s.Prefix = "p"
	to := target(t, sink.Script{TopicsDelay: 200 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil && !has(ctx, to, "p-0") {
			<-time.After(time.Millisecond)
		}
		cancel()
	}()
	var errs bytes.Buffer
	res, err := Run(ctx, Options{Spec: s, Bootstrap: []string{to.Addr()}, Warnings: &errs})
	if has(t.Context(), to, "p-0") || errs.Len() > 0 {
		t.Errorf("the topic is there; %+v, %v; %q", res, err, errs.String())
	}
}
