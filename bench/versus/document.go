package versus

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark/tidemark/bench/host"
	"github.com/tidemark/tidemark/bench/store"
)

// Schema is the version of versus.json that this build writes and reads.
const Schema = 1

// FileName is the document's name in its folder.
const FileName = "versus.json"

// Document is versus.json: everything that was measured, in the order in which it was, and nothing that follows from it.
type Document struct {
	Schema    int              `json:"schema"`
	Suite     string           `json:"suite"`
	SuiteHash string           `json:"suiteHash"` // SHA-256 of its text, hex
	Profile   string           `json:"profile"`
	About     string           `json:"about"` // what the profile cuts
	Command   []string         `json:"command"`
	State     string           `json:"state"` // running, finished, interrupted, failed
	Error     string           `json:"error,omitempty"`
	Started   time.Time        `json:"started"`
	Ended     time.Time        `json:"ended"`
	Seconds   float64          `json:"seconds"`
	Version   string           `json:"version"` // of this program
	GoVersion string           `json:"goVersion"`
	Seed      uint64           `json:"seed"`
	MinPairs  int              `json:"minPairs"`
	Processes int              `json:"processes"` // planned for each side
	Host      host.Fingerprint `json:"host"`
	Arms      []ArmInfo        `json:"arms"`
	Rows      []RowInfo        `json:"rows"`    // of this profile, in the table's order
	LeftOut   []string         `json:"leftOut"` // names of the suite's rows that the profile or the caller left out
	Missing   []Missing        `json:"missing"`
	Blocks    []*Block         `json:"blocks"`
	Notes     []string         `json:"notes"`
	// Damaged are windows of no block, such as those of a warm-up, in which data were broken: they count as the others do.
	Damaged []*Window `json:"damaged,omitempty"`
}

// ArmInfo is one side with its settings.
type ArmInfo struct {
	Name     string            `json:"name"` // tidemark, kafka, kafka-tuned
	About    string            `json:"about"`
	Ours     bool              `json:"ours"`
	Version  string            `json:"version"`
	Heap     string            `json:"heap,omitempty"`
	Settings map[string]string `json:"settings"`
	Cores    []int             `json:"cores"`
	Command  []string          `json:"command"`
}

// RowInfo is a row as the document needs it.
type RowInfo struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	Settings []string `json:"settings"` // name=value, as the suite gives them
	Ceiling  string   `json:"ceiling,omitempty"`
	Alone    string   `json:"alone,omitempty"`
	Goals    []Goal   `json:"goals"`
	Share    float64  `json:"share,omitempty"` // of each side's capacity, which is the rate asked
}

// Block is the windows of one row in one process of each side. It counts whole or not at all.
type Block struct {
	Row     string             `json:"row"`
	Process int                `json:"process"` // from 1
	Arms    []string           `json:"arms"`
	Windows []*Window          `json:"windows"` // in the order in which they ran
	Settled map[string]string  `json:"settled"` // by arm: "" is settled, else what was missing
	From    map[string]int     `json:"from"`    // by arm: first pair of the settled stretch
	Beside  *Beside            `json:"beside,omitempty"`
	Idle    map[string]float64 `json:"idle"` // by arm: share of a core that it used while another was measured
	// Probes are the closed loops in which each arm was taken to its limit before its share of it was asked, all of them.
	Probes []*Window `json:"probes,omitempty"`
	// Capacity is what they reached (records/s), in documents that do not have them.
	Capacity map[string][]float64 `json:"capacity,omitempty"`
	Seconds  float64              `json:"seconds"`
	Error    string               `json:"error,omitempty"`
	Profile  string               `json:"profile,omitempty"` // pprof file of our broker, of one window more
	Build    string               `json:"build,omitempty"`   // of our broker and the generator: version and SHA-256, twelve digits
}

// Counts reports whether the block enters ratios for the arms given: both settled, or measured alone.
func (b *Block) Counts(arms ...string) bool {
	for _, a := range arms {
		if why, ok := b.Settled[a]; !ok || why != "" {
			return false
		}
	}
	return b.Error == ""
}

// counting are the blocks that count for the arms given; where none does, all.
func counting(blocks []*Block, arms ...string) []*Block {
	out := slices.DeleteFunc(slices.Clone(blocks), func(b *Block) bool { return !b.Counts(arms...) })
	if len(out) == 0 {
		return blocks
	}
	return out
}

// Beside is the bare loop beside a block: a reading before each pair and one behind the last, per CPU-second of the side
// that stands for the broker. It is a row's ceiling where the row has one; for every row it says how steady the host was.
type Beside struct {
	Name     string    `json:"name"`
	Unit     string    `json:"unit"`               // of PerCPU: MB/CPU-s
	PerCPU   []float64 `json:"perCpu"`             // 0: could not be taken
	Requests []float64 `json:"requests,omitempty"` // per CPU-second
}

// around is the mean of the readings on both sides of a pair; 0: one of them is missing.
func around(readings []float64, pair int) float64 {
	if pair < 0 || pair+1 >= len(readings) || readings[pair] <= 0 || readings[pair+1] <= 0 {
		return 0
	}
	return (readings[pair] + readings[pair+1]) / 2
}

// Window is one run against one arm.
type Window struct {
	Arm    string `json:"arm"`
	Pair   int    `json:"pair"` // from 0, in the block
	Status string `json:"status"`
	// Reasons say why Status is not ok, Marks what stands beside the figures.
	Reasons []string `json:"reasons,omitempty"`
	Marks   []string `json:"marks,omitempty"`
	Folder  string   `json:"folder,omitempty"` // below the document's

	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"` // of the broker, by its CPU clock
	// GeneratorCPUSeconds is what the load process used.
	GeneratorCPUSeconds float64   `json:"generatorCpuSeconds"`
	Bytes               float64   `json:"bytes"`     // acked keys and values, before compression
	WireBytes           float64   `json:"wireBytes"` // batches as sent
	ReadBytes           float64   `json:"readBytes"` // delivered keys and values
	Records             float64   `json:"records"`
	Requests            float64   `json:"requests"`
	Series              []float64 `json:"series"` // acked or read MB for each CPU-second in its windows of equal work
	// Compilers is the share of a core that the JVM's compiler threads used.
	Compilers   float64               `json:"compilers"`
	Asked       float64               `json:"asked,omitempty"`   // records/s
	Reached     float64               `json:"reached,omitempty"` // records/s acked inside the window of a closed loop
	Held        float64               `json:"held,omitempty"`    // share of the records acked in time
	Percentiles map[string]Percentile `json:"percentiles,omitempty"`
	// Alone holds the figures of a row that is measured alone, by measure.
	Alone map[string]float64 `json:"alone,omitempty"`

	Acked      int64  `json:"acked"`
	ReadBack   int64  `json:"readBack"`
	Lost       int64  `json:"lost"`
	Duplicated int64  `json:"duplicated"`
	OutOfOrder int64  `json:"outOfOrder"`
	Corrupt    int64  `json:"corrupt"`
	Unverified string `json:"unverified,omitempty"` // why what was acked was not read back
	// Hidden is how many acknowledged records may be lost beyond Lost: records without an ack that are in the log stand in their
	// place, where the log is counted and not compared one by one.
	Hidden int64 `json:"hidden,omitempty"`

	RSSBytes    int64 `json:"rssBytes"`
	DirtyBefore int64 `json:"dirtyBefore"` // bytes, after the sync
	FreeBefore  int64 `json:"freeBefore"`
	CachedPages int64 `json:"cachedBefore"`
}

// Percentile is one figure with its support.
type Percentile struct {
	MS         float64 `json:"ms"`
	Above      int64   `json:"above"`
	Excursions int64   `json:"excursions"`
}

// Write writes the document into its folder, whole or not at all.
func (d *Document) Write(dir string) error {
	b, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return fmt.Errorf("%s: %w", FileName, err)
	}
	return writeFile(filepath.Join(dir, FileName), append(b, '\n'))
}

func writeFile(name string, b []byte) error {
	part := name + ".partial"
	if err := os.WriteFile(part, b, 0o644); err != nil {
		return err
	}
	return os.Rename(part, name)
}

// Read reads versus.json of a folder.
func Read(dir string) (*Document, error) {
	name := filepath.Join(dir, FileName)
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	d := &Document{}
	if err := json.Unmarshal(b, d); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if d.Schema < 1 || d.Schema > Schema {
		return nil, fmt.Errorf("%s has schema %d, this build reads up to %d", name, d.Schema, Schema)
	}
	for _, b := range d.Blocks {
		if b.Beside != nil { // measured beside the others, not alone: by the rule of this build
			b.judge()
		}
	}
	return d, nil
}

// arm finds an arm's description.
func (d *Document) arm(name string) *ArmInfo {
	for i := range d.Arms {
		if d.Arms[i].Name == name {
			return &d.Arms[i]
		}
	}
	return nil
}

// ours is the name of our own arm.
func (d *Document) ours() string {
	for _, a := range d.Arms {
		if a.Ours {
			return a.Name
		}
	}
	return ""
}

// blocksOf are the blocks of a row.
func (d *Document) blocksOf(row string) []*Block {
	var out []*Block
	for _, b := range d.Blocks {
		if b.Row == row {
			out = append(out, b)
		}
	}
	return out
}

// all are the windows of a block and the probes before them.
func (b *Block) all() []*Window { return slices.Concat(b.Probes, b.Windows) }

// damaged reports whether data that was acknowledged in the window is gone or is not what was sent, or was repeated or
// reordered against its promise, which the window's status tells: without one it is no fault.
func (w *Window) damaged() bool {
	return w.Lost+w.Corrupt > 0 || w.Status == string(store.Invalid) && w.Duplicated+w.OutOfOrder > 0
}

// windowsOf are an arm's windows of a block.
func (b *Block) windowsOf(arm string) []*Window {
	var out []*Window
	for _, w := range b.Windows {
		if w.Arm == arm {
			out = append(out, w)
		}
	}
	return out
}
