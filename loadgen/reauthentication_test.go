package loadgen

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/sink"
)

// sessions counts what clients of a front did.
type sessions struct {
	sync.Mutex
	first, again, intruded int
}

func (s *sessions) begins(again bool) {
	s.Lock()
	defer s.Unlock()
	if again {
		s.again++
	} else {
		s.first++
	}
}

// intrudes is a request of another kind while somebody says who he is, which ends the connection.
func (s *sessions) intrudes() {
	s.Lock()
	defer s.Unlock()
	s.intruded++
}

// TestAClientAuthenticatesAgainOnTheSameConnection: the target ends a session after a quarter of a second (KIP-368). The
// clients say again who they are, send nothing else meanwhile, and lose, repeat and reorder nothing.
func TestAClientAuthenticatesAgainOnTheSameConnection(t *testing.T) {
	for _, c := range []struct{ mechanism, module string }{
		{"PLAIN", "plain.PlainLoginModule"},
		{"SCRAM-SHA-256", "scram.ScramLoginModule"},
	} {
		t.Run(c.mechanism, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, target(t, sink.Script{KeepBytes: 8 << 20}), nil, c.mechanism)
			f.lifetime = 250 * time.Millisecond
			file := properties(t, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism="+c.mechanism, login(c.module, frontUser, frontSecret))
			dir := filepath.Join(t.TempDir(), "out")
			_, stderr, err := tidemark(t, "load", "--bootstrap", f.addr(), "--driver", "raw", "--command-config", file, "--out", dir,
				"--rate", "2000", "--window", "1s", "--warm-up", "100ms", "--groups", "1", "--linger", "0s")
			if err != nil && !strings.Contains(err.Error(), result.GeneratorLimited) && !strings.Contains(err.Error(), result.Saturated) {
				t.Fatal(err)
			}
			res, err := result.Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			if e, v := res.Ends, res.Verification; e.Intended == 0 || e.Acked != e.Intended || !v.Complete || !v.Clean() || v.Delivered != v.Acked {
				t.Errorf("%+v %+v\n%s", e, v, stderr)
			}
			f.sessions.Lock()
			defer f.sessions.Unlock()
			if f.sessions.again < 2 || f.sessions.intruded > 0 {
				t.Errorf("%d authentications, %d again, %d times something else was sent meanwhile", f.sessions.first, f.sessions.again, f.sessions.intruded)
			}
			t.Logf("%d authentications, %d again", f.sessions.first, f.sessions.again)
		})
	}
}
