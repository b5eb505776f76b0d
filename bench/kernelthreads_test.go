package bench

import (
	"fmt"
	"os"
	"testing"
)

func TestKernelThreadsAreTheOnesThatTheKernelSays(t *testing.T) {
	for text, kernel := range map[string]bool{
		"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0":                      true,
		"77 (kworker/u8:1-fl) (x)) I 2 0 0 0 -1 69238880 0 0 0":        true,
		"123 (a) 2 0 0 0 -1 2129984) R 1 123 123 0 -1 4194304 0 0 0 0": false, // a name that looks like a kernel thread's line
		"1 (init) S 0 1 1 0 -1 4194560 0":                              false,
		"no task":                                                      false,
		"5 (short) S 1":                                                false,
	} {
		if got := flagsOf([]byte(text))&isKernelThread != 0; got != kernel {
			t.Errorf("%q: %v", text, got)
		}
	}
	if _, mine := kernelThreads()[os.Getpid()]; mine {
		t.Error("this process is counted as a kernel thread")
	}
}

func TestKernelTimeIsWhatGrewAndWhatBegan(t *testing.T) {
	for _, c := range []struct {
		before, after map[int]int64
		want          int64
	}{
		{nil, nil, 0},
		{map[int]int64{1: 100, 2: 50}, map[int]int64{1: 130, 2: 50}, 30},
		{map[int]int64{1: 100, 2: 50}, map[int]int64{1: 130}, 30}, // one ended
		{map[int]int64{1: 100}, map[int]int64{1: 100, 3: 7}, 7},   // one began
		{map[int]int64{1: 100}, map[int]int64{1: 5}, 0},           // another under the same number
	} {
		if got := spentBetween(c.before, c.after); got != c.want {
			t.Errorf("%s: %d, want %d", fmt.Sprint(c.before, c.after), got, c.want)
		}
	}
}
