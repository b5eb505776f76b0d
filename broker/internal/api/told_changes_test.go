package api

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
)

// TestTheLogTellsOfChangesAndLittleElse: a client cannot fill the log with what it asks for.
func TestTheLogTellsOfChangesAndLittleElse(t *testing.T) {
	n, _ := newTopicNode(t)
	n.create(7, topicRequest("t", 1, "segment.ms=60000"))
	var log bytes.Buffer
	n.handlers.Logger = slog.New(slog.NewTextHandler(&log, nil))
	told := func(what string, lines int, words ...string) {
		t.Helper()
		text := log.String()
		log.Reset()
		if n := strings.Count(text, "\n"); n != lines || len(text) > 1000*(lines+1) {
			t.Errorf("%s: %d lines of %d bytes, want %d lines: %.500s", what, n, len(text), lines, text)
		}
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q is not told in %.500s", what, w, text)
			}
		}
	}
	alter := func(name string, settings ...string) {
		t.Helper()
		kind := ofBroker
		if name == "t" {
			kind = ofTopic
		}
		if code, text := n.alter(1, kind, name, settings...); code != kafka.None {
			t.Fatal(code, text)
		}
	}
	alter("t", "segment.ms=60000", "retention.ms=7", "-retention.bytes")
	told("one of three is new", 1, "setting changed", "topic=t", "property=retention.ms", "value=7")
	alter("t", "-segment.ms")
	told("one is gone", 1, "setting removed", "property=segment.ms")
	for _, name := range []string{"3", ""} {
		alter(name, "log.retention.ms=77")
		told("for a broker", 1, "setting changed", "broker=", "property=log.retention.ms", "value=77")
	}
	alter("3", "log.retention.ms=77")
	told("the same again", 0)
	removals := []string{"-log.retention.ms"}
	for i := range 2000 {
		removals = append(removals, fmt.Sprint("-", strings.Repeat("k", 500), i))
	}
	alter("3", removals...)
	told("what was not there is not removed", 1, "setting removed", "property=log.retention.ms")
}

// TestOneRequestLeavesFewLines: what is beyond them is counted.
func TestOneRequestLeavesFewLines(t *testing.T) {
	var log bytes.Buffer
	told := &toldLines{Logger: slog.New(slog.NewTextHandler(&log, nil)), left: maxToldLines}
	for range maxToldLines + 7 {
		told.log(slog.LevelInfo, "setting changed")
	}
	told.end()
	if lines := strings.Count(log.String(), "\n"); lines != maxToldLines+1 || !strings.Contains(log.String(), "lines=7\n") {
		t.Errorf("%d lines: %s", lines, log.String())
	}
}
