package bench

import (
	"fmt"
	"maps"
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
		if got := field([]byte(text), flagsField)&isKernelThread != 0; got != kernel {
			t.Errorf("%q: %v", text, got)
		}
	}
	if _, mine := kernelThreads()[os.Getpid()]; mine {
		t.Error("this process is counted as a kernel thread")
	}
}

// TestTheCoreOfAThreadIsTheOneItLastRanOn: the 39th field of stat.
func TestTheCoreOfAThreadIsTheOneItLastRanOn(t *testing.T) {
	stat := "16 (ksoftirqd/1) S 2 0 0 0 -1 69238848 0 0 0 0 0 55 0 0 20 0 1 0 42 0 0 18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 1 0 0 0 0 0"
	if got := field([]byte(stat), coreField); got != 1 {
		t.Errorf("core %d", got)
	}
	for pid, one := range kernelThreads() {
		if one.core < 0 || one.core > 1<<14 || one.nanos < 0 {
			t.Errorf("thread %d: %+v", pid, one)
		}
	}
}

func TestKernelTimeIsWhatGrewAndWhatBegan(t *testing.T) {
	type threads map[int]kernelThread
	for _, c := range []struct {
		before, after threads
		want          map[int]int64
	}{
		{nil, nil, map[int]int64{}},
		{threads{1: {100, 0}, 2: {50, 1}}, threads{1: {130, 0}, 2: {50, 1}}, map[int]int64{0: 30}},
		{threads{1: {100, 0}, 2: {50, 1}}, threads{1: {130, 0}, 2: {52, 1}}, map[int]int64{0: 30, 1: 2}},
		{threads{1: {100, 0}, 2: {50, 1}}, threads{1: {130, 1}}, map[int]int64{1: 30}}, // one ended, one moved
		{threads{1: {100, 0}}, threads{1: {100, 0}, 3: {7, 0}}, map[int]int64{0: 7}},   // one began
		{threads{1: {100, 0}}, threads{1: {5, 0}}, map[int]int64{}},                    // another under the same number
	} {
		sum := int64(0)
		for _, n := range c.want {
			sum += n
		}
		if got, nanos := spentBetween(c.before, c.after); !maps.Equal(got, c.want) || nanos != sum {
			t.Errorf("%s: %v, %d, want %v", fmt.Sprint(c.before, c.after), got, nanos, c.want)
		}
	}
}
