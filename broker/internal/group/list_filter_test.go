package group

import (
	"fmt"
	"testing"
)

// A filter names states and types in any case, any number of times, and what does not exist.
func TestListFilter(t *testing.T) {
	m := machineOf(0)
	now := Now{MonoMS: 1000, WallMS: 1_700_000_000_000}
	commitOne(m, now, -1) // "g", Empty
	m.Take()
	r := joinOf("a", 0, "range")
	r.Group = "joined"
	joinCode(m, r) // CompletingRebalance
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprint("state-", i))
	}
	for _, c := range []struct {
		states, types []string
		want          string
	}{
		{nil, nil, "[g joined]"},
		{[]string{"empty"}, nil, "[g]"},
		{[]string{"EMPTY", "Empty", "Stable"}, []string{"Classic"}, "[g]"},
		{append(many, "completingrebalance"), []string{"consumer", "CLASSIC"}, "[joined]"},
		{[]string{"Empty", "CompletingRebalance"}, nil, "[g joined]"},
		{many, nil, "[]"},
		{[]string{""}, nil, "[]"},
		{nil, []string{"consumer"}, "[]"},
		{nil, []string{""}, "[]"},
	} {
		ids := []string{}
		for _, g := range m.List(NewFilter(c.states, c.types)) {
			ids = append(ids, g.Group)
		}
		if got := fmt.Sprint(ids); got != c.want {
			t.Errorf("states %.3v, types %v: %s, want %s", c.states, c.types, got, c.want)
		}
	}
}

// BenchmarkListFiltered lists 10,000 groups by a filter of so many states.
func BenchmarkListFiltered(b *testing.B) {
	for _, states := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("states=%d", states), func(b *testing.B) {
			m := machineOf(0)
			for i := range 10_000 {
				r := joinOf("a", 0, "range")
				r.Group = fmt.Sprint("g", i)
				joinCode(m, r)
			}
			names := make([]string, states)
			for i := range names {
				names[i] = fmt.Sprint("PreparingRebalanc", i)
			}
			b.ReportAllocs()
			for b.Loop() {
				m.List(NewFilter(names, nil))
			}
		})
	}
}
