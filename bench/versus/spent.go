package versus

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/tidemark/tidemark/profiles"
)

// spentParts name what a broker's CPU is spent on; the innermost known function of a stack decides.
//
//tidy:table
var spentParts = []struct {
	name    string
	pattern *regexp.Regexp
}{
	{"receive", regexp.MustCompile(`unix\.Read$|poll\.\(\*FD\)\.Read|server\.readSocket|server\.\(\*conn\)\.read`)},
	{"check", regexp.MustCompile(`^hash/crc32\.|core/record\.`)},
	{"write to the log", regexp.MustCompile(`unix\.[pP]write|core/vfs\.\(\*\w+\)\.Write`)},
	{"send", regexp.MustCompile(`unix\.(Writev?|Sendfile|Splice)$|unix\.Sendmsg|poll\.\(\*FD\)\.Write`)},
	{"scheduler and poller", regexp.MustCompile(`^runtime\.(schedule|findRunnable|netpoll|park_m|mcall|futex|ready|goready|wakep|startm|stopm|epoll\w*)|^internal/runtime/syscall\.Epoll`)},
	{"garbage collection", regexp.MustCompile(`^runtime\.(gcBgMarkWorker|gcAssist\w*|bgsweep|bgscavenge|mallocgc)`)},
	{"timers and sysmon", regexp.MustCompile(`^runtime\.(sysmon|\(\*timers\))`)},
}

// spentTop is how many functions a sentence names.
const spentTop = 4

// Spent says in one sentence what a CPU profile of our broker shows.
func Spent(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	p, err := profiles.Parse(b)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	index, _ := profiles.Value(p)
	sums, total := map[string]int64{}, int64(0)
	for _, s := range p.Sample {
		v := s.Value[index]
		total += v
		sums[spentOn(s)] += v
	}
	if total == 0 {
		return "", fmt.Errorf("%s: no samples", file)
	}
	var names []string
	for name := range sums {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if sums[a] != sums[b] {
			return int(sums[b] - sums[a])
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, name := range names {
		if share := 100 * float64(sums[name]) / float64(total); share >= 1 {
			parts = append(parts, fmt.Sprintf("%s %.0f%%", name, share))
		}
	}
	return strings.Join(parts, ", ") + "; most in " + strings.Join(mostIn(p), ", ") + fmt.Sprintf(" (%d samples)", profiles.Samples(p)), nil
}

// spentOn is the part that a stack belongs to.
func spentOn(s *profile.Sample) string {
	for _, at := range s.Location { // leaf first
		for _, l := range at.Line {
			if l.Function == nil {
				continue
			}
			for _, part := range spentParts {
				if part.pattern.MatchString(l.Function.Name) {
					return part.name
				}
			}
		}
	}
	return "the rest"
}

// mostIn are the functions of most flat cost.
func mostIn(p *profile.Profile) []string {
	funcs, total := profiles.Top(p)
	var out []string
	for _, f := range funcs[:min(spentTop, len(funcs))] {
		name := f.Name
		if i := strings.LastIndexByte(name, '/'); i >= 0 {
			name = name[i+1:]
		}
		out = append(out, fmt.Sprintf("%s %.0f%%", name, 100*float64(f.Flat)/float64(max(1, total))))
	}
	return out
}
