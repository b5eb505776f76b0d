package profiles

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/google/pprof/profile"
)

// MinSamples is the fewest samples of a CPU profile from which a difference is shown (METHOD 7).
const MinSamples = 1000

// ErrFewSamples says that a profile has too few samples to compare.
var ErrFewSamples = errors.New("too few samples to compare")

// Parse reads a pprof profile, gzipped or not.
func Parse(b []byte) (*profile.Profile, error) {
	p, err := profile.ParseData(b)
	if err != nil {
		return nil, fmt.Errorf("parse profile: %w", err)
	}
	if len(p.SampleType) == 0 {
		return nil, errors.New("parse profile: it does not say what it counts")
	}
	return p, nil
}

// Merge adds profiles of one kind: the repeats of a cell.
func Merge(ps []*profile.Profile) (*profile.Profile, error) {
	if len(ps) == 0 {
		return nil, errors.New("merge profiles: there is none")
	}
	return profile.Merge(ps)
}

// Func is what one function cost: Flat in itself, Cum with all it called, in the profile's unit.
type Func struct {
	Name      string
	Flat, Cum int64
}

// Value picks what is shown of a profile: the last sample type, as pprof does (cpu nanoseconds, inuse_space, delay).
func Value(p *profile.Profile) (index int, unit string) {
	i := len(p.SampleType) - 1
	return i, p.SampleType[i].Unit
}

// Top sums a profile by function, most flat cost first, and gives the total.
func Top(p *profile.Profile) (funcs []Func, total int64) {
	idx, _ := Value(p)
	by := map[string]*Func{}
	at := func(name string) *Func {
		f := by[name]
		if f == nil {
			f = &Func{Name: name}
			by[name] = f
		}
		return f
	}
	for _, s := range p.Sample {
		v := s.Value[idx]
		total += v
		seen := map[string]bool{}
		for i, name := range frames(s) {
			if i == 0 {
				at(name).Flat += v
			}
			if !seen[name] {
				seen[name] = true
				at(name).Cum += v
			}
		}
	}
	for _, f := range by {
		funcs = append(funcs, *f)
	}
	slices.SortFunc(funcs, func(a, b Func) int {
		return cmp.Or(cmp.Compare(b.Flat, a.Flat), cmp.Compare(b.Cum, a.Cum), cmp.Compare(a.Name, b.Name))
	})
	return funcs, total
}

// frames are the function names of a sample, innermost first, inlined ones included.
func frames(s *profile.Sample) []string {
	var out []string
	for _, loc := range s.Location {
		for _, line := range loc.Line {
			if line.Function != nil {
				out = append(out, line.Function.Name)
			}
		}
	}
	return out
}

// Change is one function in two profiles, each divided by its own amount of work.
type Change struct {
	Name          string
	Before, After float64 // flat cost for each unit of work
}

// Diff tells what grew from one profile to another, largest change first. The work of each side (records, MB) divides its
// cost; 1 and 1 compare as they are. Under MinSamples samples on a side of a CPU profile the error is ErrFewSamples.
func Diff(before, after *profile.Profile, workBefore, workAfter float64) ([]Change, error) {
	if workBefore <= 0 || workAfter <= 0 {
		return nil, fmt.Errorf("compare profiles: work %g and %g: both must be above 0", workBefore, workAfter)
	}
	bi, bu := Value(before)
	ai, au := Value(after)
	if before.SampleType[bi].Type != after.SampleType[ai].Type || bu != au {
		return nil, fmt.Errorf("compare profiles: one counts %s in %s, the other %s in %s", before.SampleType[bi].Type, bu, after.SampleType[ai].Type, au)
	}
	for _, p := range []*profile.Profile{before, after} {
		if n := Samples(p); p.SampleType[0].Type == "samples" && n < MinSamples {
			return nil, fmt.Errorf("%w: %d, at least %d are needed", ErrFewSamples, n, MinSamples)
		}
	}
	by := map[string]*Change{}
	add := func(p *profile.Profile, to func(*Change) *float64, work float64) {
		funcs, _ := Top(p)
		for _, f := range funcs {
			c := by[f.Name]
			if c == nil {
				c = &Change{Name: f.Name}
				by[f.Name] = c
			}
			*to(c) += float64(f.Flat) / work
		}
	}
	add(before, func(c *Change) *float64 { return &c.Before }, workBefore)
	add(after, func(c *Change) *float64 { return &c.After }, workAfter)
	var out []Change
	for _, c := range by {
		if c.Before != c.After {
			out = append(out, *c)
		}
	}
	abs := func(c Change) float64 { return max(c.After-c.Before, c.Before-c.After) }
	slices.SortFunc(out, func(a, b Change) int { return cmp.Or(cmp.Compare(abs(b), abs(a)), cmp.Compare(a.Name, b.Name)) })
	return out, nil
}

// Samples counts the samples of a CPU profile; 0 for other kinds.
func Samples(p *profile.Profile) int64 {
	if p.SampleType[0].Type != "samples" {
		return 0
	}
	var n int64
	for _, s := range p.Sample {
		n += s.Value[0]
	}
	return n
}
