package versus

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemark/tidemark/loadgen/workload"
)

//go:embed versus.yaml
var builtIn []byte

// Suite is versus.yaml.
type Suite struct {
	Name     string            `yaml:"name"`
	About    string            `yaml:"about"`
	Broker   map[string]string `yaml:"broker"` // properties that both sides get
	Kafka    []Kafka           `yaml:"kafka"`
	Profiles []Profile         `yaml:"profiles"`
	Set      map[string]string `yaml:"set"` // workload fields that every row starts from
	Rows     []Row             `yaml:"rows"`
	Missing  []Missing         `yaml:"missing"`
}

// Kafka is one setting of the other side.
type Kafka struct {
	Name  string            `yaml:"name"`
	About string            `yaml:"about"`
	Heap  string            `yaml:"heap"`
	Set   map[string]string `yaml:"set"`
}

// Profile bounds a session.
type Profile struct {
	Name         string            `yaml:"name"`
	About        string            `yaml:"about"`
	Budget       workload.Duration `yaml:"budget"`
	Processes    int               `yaml:"processes"`      // fresh processes of each side
	Pairs        int               `yaml:"pairs"`          // fewest of a row with a ratio
	Blocks       int               `yaml:"blocks"`         // fewest windows of a side before it can be settled, where a window is one run
	SettleAtMost workload.Duration `yaml:"settle-at-most"` // of a row in one process
	Tuned        bool              `yaml:"tuned"`          // Kafka's second setting too
	TunedRows    []string          `yaml:"tuned-rows"`     // where, in the first process; nil: everywhere
	WarmUp       workload.Duration `yaml:"warm-up"`        // of every fresh process, by a mix of rows
	Again        bool              `yaml:"again"`          // rows that had not settled are measured once more at a process's end
	Rows         []string          `yaml:"rows"`           // nil: all
}

// Row is one line of the table.
type Row struct {
	Name         string            `yaml:"name"`
	Title        string            `yaml:"title"`
	Set          map[string]string `yaml:"set"`           // workload fields
	TopicConfigs map[string]string `yaml:"topic-configs"` // of its topics
	Topic        string            `yaml:"topic"`         // "kept": one topic for all windows of a process, because making it takes long
	Prime        workload.Bytes    `yaml:"prime"`         // of a kept topic: so much is written before it is measured, a record for each partition and more
	Read         workload.Bytes    `yaml:"read"`          // a reading row: so much is written first, then read again and again
	Deletes      bool              `yaml:"deletes"`       // a window in which retention deleted nothing is none
	Share        float64           `yaml:"share"`         // the rate is this share of what each side reaches in a closed loop ...
	Capacity     map[string]string `yaml:"capacity"`      // ... with these workload fields instead
	Ceiling      Ceiling           `yaml:"ceiling"`
	Alone        string            `yaml:"alone"` // measured in processes of its own: start, memory, partitions, generator
	Goals        []Goal            `yaml:"goals"`
}

// Ceiling says which bare loop stands beside a row; the zero value is none.
type Ceiling struct {
	Frame    int  `yaml:"frame"`  // bytes of a request: receive, CRC-32C, pwrite, answer
	Window   int  `yaml:"window"` // requests in flight
	Sendfile bool `yaml:"sendfile"`
}

// None reports whether a row has no ceiling.
func (c Ceiling) None() bool { return c.Frame == 0 && !c.Sendfile }

// Goal is one figure of a row and what it should reach; zero fields ask for nothing.
type Goal struct {
	Measure    string  `yaml:"measure" json:"measure"`
	Against    string  `yaml:"against" json:"against,omitempty"`         // compare with another figure of the same window, not with Kafka
	Ratio      float64 `yaml:"ratio" json:"ratio,omitempty"`             // ours over Kafka's, at least
	AtMost     float64 `yaml:"at-most" json:"atMost,omitempty"`          // ours over Kafka's, at most
	OfCeiling  float64 `yaml:"of-ceiling" json:"ofCeiling,omitempty"`    // share of the ceiling beside it, at least
	OfRow      string  `yaml:"of-row" json:"ofRow,omitempty"`            // our own figure in another row ...
	OfRowShare float64 `yaml:"of-row-share" json:"ofRowShare,omitempty"` // ... and the share of it, at least
	Under      float64 `yaml:"under" json:"under,omitempty"`             // ours alone, in the measure's unit
}

// Missing is a row of the table that this suite cannot have, and why.
type Missing struct {
	Title string `yaml:"title" json:"title"`
	Why   string `yaml:"why" json:"why"`
}

// BuiltIn reads the suite that the program carries.
func BuiltIn() (*Suite, error) { return Parse("versus.yaml", builtIn) }

// Parse reads a suite; file names it in errors, which are *workload.Problem with a place where they have one.
func Parse(file string, text []byte) (*Suite, error) {
	s := &Suite{}
	if _, err := workload.Decode(file, text, s); err != nil {
		return nil, err
	}
	if len(s.Kafka) == 0 || len(s.Kafka) > 2 {
		return nil, fmt.Errorf("%s: kafka has %d settings, one or two are compared with", file, len(s.Kafka))
	}
	seen := map[string]bool{}
	for i := range s.Rows {
		r := &s.Rows[i]
		switch {
		case r.Name == "" || seen[r.Name]:
			return nil, fmt.Errorf("%s: row %d has no name of its own (%q)", file, i+1, r.Name)
		case r.Alone != "" && !slices.Contains(alones, r.Alone):
			return nil, fmt.Errorf("%s: row %s: alone is %q, none of %s", file, r.Name, r.Alone, strings.Join(alones, ", "))
		case r.Ceiling.Frame > 0 && r.Ceiling.Window < 1:
			return nil, fmt.Errorf("%s: row %s: a ceiling of frames needs its window", file, r.Name)
		case r.Prime > 0 && r.Topic == "":
			return nil, fmt.Errorf("%s: row %s: only a kept topic can be primed", file, r.Name)
		case r.Share < 0 || r.Share >= 1 || r.Share > 0 && (r.Alone != "" || r.Topic != ""):
			return nil, fmt.Errorf("%s: row %s: a share of the capacity is between 0 and 1, of a row with fresh topics", file, r.Name)
		}
		seen[r.Name] = true
		for _, g := range r.Goals {
			if _, ok := measures[g.Measure]; !ok && r.Alone == "" {
				return nil, fmt.Errorf("%s: row %s: unknown measure %q", file, r.Name, g.Measure)
			}
			if g.OfRow != "" && !seen[g.OfRow] {
				return nil, fmt.Errorf("%s: row %s: of-row %q is no row above it", file, r.Name, g.OfRow)
			}
		}
		if r.Alone == "" {
			if _, err := s.spec(r); err != nil {
				return nil, err
			}
			if _, err := s.capacitySpec(r); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range s.Profiles {
		for _, name := range slices.Concat(p.Rows, p.TunedRows) {
			if !seen[name] {
				return nil, fmt.Errorf("%s: profile %s: %q is no row", file, p.Name, name)
			}
		}
	}
	return s, nil
}

// spec is the workload of a row.
func (s *Suite) spec(r *Row) (*workload.Spec, error) {
	spec := workload.Default()
	spec.Name = r.Name
	if r.Set["question"] == string(workload.Capacity) {
		spec.Rate = 0
	}
	for _, set := range []map[string]string{s.Set, r.Set} {
		for name, value := range set {
			if err := spec.Set(name, value); err != nil {
				return nil, fmt.Errorf("row %s: %s: %w", r.Name, name, err)
			}
		}
	}
	if len(r.TopicConfigs) > 0 {
		spec.TopicConfigs = r.TopicConfigs
	}
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("row %s: %w", r.Name, err)
	}
	return &spec, nil
}

// capacitySpec is the closed loop that finds what a side can carry, for a row whose rate is a share of it.
func (s *Suite) capacitySpec(r *Row) (*workload.Spec, error) {
	if r.Share == 0 {
		return nil, nil
	}
	closed := Row{Name: r.Name, Set: maps.Clone(r.Set), TopicConfigs: r.TopicConfigs}
	delete(closed.Set, "rate")
	maps.Copy(closed.Set, r.Capacity)
	closed.Set["question"] = string(workload.Capacity)
	spec, err := s.spec(&closed)
	if err != nil {
		return nil, fmt.Errorf("its capacity: %w", err)
	}
	return spec, nil
}

// tunes reports whether Kafka's second setting is measured in a row.
func (p Profile) tunes(row string) bool {
	return p.Tuned && (len(p.TunedRows) == 0 || slices.Contains(p.TunedRows, row))
}

// profile finds a profile by name.
func (s *Suite) profile(name string) (Profile, error) {
	var known []string
	for _, p := range s.Profiles {
		if p.Name == name {
			return p, nil
		}
		known = append(known, p.Name)
	}
	return Profile{}, fmt.Errorf("no profile %q, only %s", name, strings.Join(known, ", "))
}

// chosen are the rows that a profile (or a list of names, where it is not empty) asks for.
func (s *Suite) chosen(p Profile, only []string) (rows []*Row, err error) {
	want := p.Rows
	if len(only) > 0 {
		want = only
		for _, name := range only {
			if !slices.ContainsFunc(s.Rows, func(r Row) bool { return r.Name == name }) {
				return nil, fmt.Errorf("no row %q (%s)", name, workload.Nearest(name, s.names()))
			}
		}
	}
	for i := range s.Rows {
		if len(want) == 0 || slices.Contains(want, s.Rows[i].Name) {
			rows = append(rows, &s.Rows[i])
		}
	}
	return rows, nil
}

func (s *Suite) names() []string {
	var names []string
	for _, r := range s.Rows {
		names = append(names, r.Name)
	}
	return names
}

// split is into how many windows of equal work one run of a row is cut when it is judged whether a side has settled: a run
// at a fixed rate does equal work every second, a closed loop is one window.
func split(spec *workload.Spec) int {
	if spec.Question == workload.Capacity {
		return 1
	}
	return max(1, int(spec.Window.D()/time.Second))
}
