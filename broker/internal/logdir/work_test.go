package logdir

import (
	"slices"
	"testing"
	"time"
)

// What a roll leaves is bounded in time for each turn of the schedule, and nothing of it is forgotten.
func TestATurnOfWorkEndsAndKeepsTheRest(t *testing.T) {
	f := newFolderTest(t)
	r := f.dirs.dirs[0]
	var ran []int
	for i := range 3 {
		r.later(nil, func() error {
			ran = append(ran, i)
			if i == 1 {
				r.later(nil, func() error { ran = append(ran, 9); return nil })
			}
			return nil
		})
	}
	r.doWork(-1)
	if len(ran) != 0 {
		t.Fatalf("%v ran in a turn without time", ran)
	}
	r.doWork(time.Hour)
	r.doWork(time.Hour)
	if want := []int{2, 1, 0, 9}; !slices.Equal(ran, want) {
		t.Fatalf("%v ran, want %v", ran, want)
	}
}
