package versus

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/bench/exit"
	"github.com/tidemark/tidemark/bench/host"
)

// resumable writes a document that a session of the small suite may go on with, and is that session.
func resumable(t *testing.T, change func(d *Document), seed uint64) *session {
	t.Helper()
	suite, err := Parse("small.yaml", []byte(smallSuite))
	if err != nil {
		t.Fatal(err)
	}
	dir, sum := t.TempDir(), sha256.Sum256(builtIn)
	old := &Document{Schema: Schema, SuiteHash: hex.EncodeToString(sum[:]), Profile: "full", State: "failed", Host: host.Read(dir), Seed: 9,
		Seconds: 1000, Error: "a broker did not start"}
	change(old)
	if err := old.Write(dir); err != nil {
		t.Fatal(err)
	}
	o := Options{Out: dir, Profile: "full", Resume: true, Seed: seed, Version: "test", Progress: &bytes.Buffer{}, suite: suite, other: standIn}
	return &session{options: o, suite: suite, profile: suite.Profiles[0], began: time.Now(), build: "test 0123"}
}

func TestAResumedSessionTookTheTimeOfAllItsCalls(t *testing.T) {
	s := resumable(t, func(*Document) {}, 9)
	if err := s.document(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a call is counted once, however often it writes
		if err := s.save(); err != nil {
			t.Fatal(err)
		}
	}
	if s.doc.Seconds < 1000 || s.doc.Seconds > 2000 || s.doc.Error != "" || s.doc.State != "running" {
		t.Errorf("%v s, %s, error %q", s.doc.Seconds, s.doc.State, s.doc.Error)
	}
}

func TestAnotherSeedIsAnotherSession(t *testing.T) {
	s := resumable(t, func(*Document) {}, 7)
	if err := s.document(); exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), "--seed 9") {
		t.Errorf("%v", err)
	}
	s = resumable(t, func(*Document) {}, 7)
	s.options.KeepSeed = true // none was given
	if err := s.document(); err != nil || s.doc.Seed != 9 {
		t.Errorf("%v", err)
	}
}
