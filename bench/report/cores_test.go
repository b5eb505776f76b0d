package report

import (
	"testing"

	"github.com/tidemark/tidemark/loadgen/result"
)

// TestEachCoreIsTold: what METHOD 4 asks to stand beside a process's CPU.
func TestEachCoreIsTold(t *testing.T) {
	got := coresOf([]result.Core{{Core: 0, Busy: 0.625, SoftIRQ: 0.02, Steal: 0.031, Kernel: 0.007}, {Core: 1, Busy: 0.5}})
	if want := " Core 0: busy 62.5%, soft interrupts 2.0%, the host took 3.1%, kernel threads 0.7%. Core 1: busy 50.0%, soft interrupts 0.0%, the host took 0.0%."; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := coresOf(make([]result.Core, 12)); len(got) > 12*70 || got[len(got)-18:] != " And 4 more cores." {
		t.Errorf("%q", got)
	}
}
