// Package profiles captures pprof profiles of this process and of a broker, keeps them as files, pushes the same bytes to a
// Pyroscope server, receives such pushes, and tells what grew between two of them.
//
//	broker /debug/pprof --Fetch--.   (StartCPU: until its caller says so)
//	this process ------Self------+--> NAME.KIND.pprof --> Pusher (after the measured time) --> POST /ingest --> Receiver
//	                                        `--> Parse, Diff, Top
//
// Each profile is captured once: the file and the upload hold the same bytes. A Pyroscope that is down, answers errors or
// never answers costs a Pusher one time-out (5 s) and then nothing: it says what failed once and drops the rest.
//
// # Concurrency
//
// Functions have no state. A Pusher has one goroutine, started by NewPusher and ended by Close; a Receiver is an
// http.Handler for any number of requests at once.
package profiles

import (
	"fmt"
	"slices"
	"strings"

	"github.com/grafana/pyroscope-go/upstream"
)

// Kind is a kind of profile, named as in /debug/pprof.
type Kind string

// The kinds that Go's runtime has and that the kit keeps.
const (
	CPU       Kind = "cpu"
	Heap      Kind = "heap"
	Mutex     Kind = "mutex"
	Block     Kind = "block"
	Goroutine Kind = "goroutine"
)

// Kinds are all kinds, in the order they are shown.
var Kinds = []Kind{CPU, Heap, Mutex, Block, Goroutine}

// ParseKind reads a kind's name.
func ParseKind(s string) (Kind, error) {
	if k := Kind(s); slices.Contains(Kinds, k) {
		return k, nil
	}
	return "", fmt.Errorf("profile kind %q: want one of cpu, heap, mutex, block, goroutine", s)
}

// ParseKinds reads a list of names, each once.
func ParseKinds(names []string) ([]Kind, error) {
	var kinds []Kind
	for _, name := range names {
		k, err := ParseKind(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds, nil
}

// Light reports whether a measured run may carry these kinds: the CPU profile alone (METHOD 7).
func Light(kinds []Kind) bool {
	return !slices.ContainsFunc(kinds, func(k Kind) bool { return k != CPU })
}

// Sampling of the profiles that cost something (METHOD 7): one contention in MutexFraction, blocking of BlockRateNanos and
// longer in full.
const (
	MutexFraction  = 100
	BlockRateNanos = 10_000
)

// Name is the file name under which a profile of one process is kept: broker.cpu.pprof and so on.
func Name(process string, k Kind) string { return process + "." + string(k) + ".pprof" }

// sampleTypes is how Pyroscope is told to read each kind's values.
var sampleTypes = map[Kind]map[string]*upstream.SampleType{
	CPU: {
		"samples": {DisplayName: "cpu", Units: "samples", Sampled: true},
		"cpu":     {DisplayName: "cpu_nanoseconds", Units: "nanoseconds", Sampled: true},
	},
	Heap: {
		"alloc_objects": {Units: "objects"},
		"alloc_space":   {Units: "bytes"},
		"inuse_objects": {Units: "objects", Aggregation: "average"},
		"inuse_space":   {Units: "bytes", Aggregation: "average"},
	},
	Mutex: {
		"contentions": {DisplayName: "mutex_count", Units: "lock_samples"},
		"delay":       {DisplayName: "mutex_duration", Units: "lock_nanoseconds"},
	},
	Block: {
		"contentions": {DisplayName: "block_count", Units: "lock_samples"},
		"delay":       {DisplayName: "block_duration", Units: "lock_nanoseconds"},
	},
	Goroutine: {
		"goroutine": {DisplayName: "goroutines", Units: "goroutines", Aggregation: "average"},
	},
}

// Labels names a profile in Pyroscope: app{key=value,...}, keys sorted. Commas, braces, equals signs and blanks would end
// a value early there, so they become underscores, and so does what a label's name may not hold (in-flight: in_flight).
func Labels(app string, labels map[string]string) string {
	keys := make([]string, 0, len(labels))
	for k := range labels {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	b.WriteString(plain(app))
	b.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(labelName(k) + "=" + plain(labels[k]))
	}
	b.WriteByte('}')
	return b.String()
}

func labelName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, s)
}

func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(", {}=\"\n\t", r) || r < ' ' {
			return '_'
		}
		return r
	}, s)
}

// parseLabels reads what Labels writes.
func parseLabels(s string) (app string, labels map[string]string, err error) {
	app, rest, ok := strings.Cut(s, "{")
	if !ok {
		return s, nil, nil
	}
	rest, ok = strings.CutSuffix(rest, "}")
	if !ok {
		return "", nil, fmt.Errorf("name %q: the brace is not closed", s)
	}
	labels = map[string]string{}
	for pair := range strings.SplitSeq(rest, ",") {
		if pair == "" {
			continue
		}
		k, v, ok := strings.Cut(pair, "=")
		if !ok {
			return "", nil, fmt.Errorf("name %q: label %q has no value", s, pair)
		}
		labels[k] = v
	}
	return app, labels, nil
}
