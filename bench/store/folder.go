package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/bench/host"
	"github.com/tidemark/tidemark/loadgen/result"
)

// ErrNoRun says that a folder holds no bench run.
var ErrNoRun = errors.New("no bench run here: there is no plan.json")

// ErrNewer says that a folder was written by a later version of this program.
var ErrNewer = errors.New("written by a newer version of tidemark: its schema is not known here")

// Host is host.json: what the machine is and what it can do at best.
type Host struct {
	Schema      int              `json:"schema"`
	Fingerprint host.Fingerprint `json:"fingerprint"`
	Ceilings    []host.Ceiling   `json:"ceilings"`
}

// Folder is the folder of one bench run.
type Folder struct {
	dir  string
	lock *os.File
}

// Create makes dir for a new run and refuses one that is there and not empty.
func Create(dir string) (*Folder, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case err == nil && len(entries) > 0:
		return nil, fmt.Errorf("%s is not empty: name another folder with --out, or go on with what is there by --resume", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("results folder: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "cells"), 0o755); err != nil {
		return nil, fmt.Errorf("results folder: %w", err)
	}
	return &Folder{dir: dir}, nil
}

// Open opens the folder of a run that was started before.
func Open(dir string) (*Folder, error) {
	if _, err := os.Stat(filepath.Join(dir, "plan.json")); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", dir, ErrNoRun)
		}
		return nil, err
	}
	return &Folder{dir: dir}, nil
}

// Dir is the folder's path as it was given.
func (f *Folder) Dir() string { return f.dir }

// Path joins elements to the folder's path.
func (f *Folder) Path(elements ...string) string {
	return filepath.Join(append([]string{f.dir}, elements...)...)
}

// WritePlan writes plan.json, which a run does once.
func (f *Folder) WritePlan(p *Plan) error { return writeJSON(f.Path("plan.json"), p) }

// WriteHost writes host.json.
func (f *Folder) WriteHost(h *Host) error { return writeJSON(f.Path("host.json"), h) }

// WriteStatus replaces status.json.
func (f *Folder) WriteStatus(s *Status) error { return writeJSON(f.Path("status.json"), s) }

// WriteFile replaces a file of the folder: whole or not at all.
func (f *Folder) WriteFile(name string, content []byte) error {
	return writeWhole(f.Path(name), content)
}

// CellDir is the folder of a cell: its number and its name, with what file systems dislike replaced.
func (f *Folder) CellDir(c *Cell) string { return f.Path("cells", CellFolder(c)) }

// CellFolder is the last element of CellDir.
func CellFolder(c *Cell) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("=.,-_()%", r):
			return r
		}
		return '_'
	}, c.Name)
	return fmt.Sprintf("%03d-%.80s", c.Number, name)
}

// RunDir is the folder of a finished repeat; that after the planned ones is the profiled one.
func (f *Folder) RunDir(c *Cell, repeat int) string {
	if repeat > c.Repeats {
		return filepath.Join(f.CellDir(c), "profiled")
	}
	return filepath.Join(f.CellDir(c), fmt.Sprintf("rep-%d", repeat))
}

// Done reports whether a repeat is complete on disk.
func (f *Folder) Done(c *Cell, repeat int) bool {
	_, err := os.Stat(filepath.Join(f.RunDir(c, repeat), "run.json"))
	return err == nil
}

// Begin makes the folder that a repeat is filled in, throwing away what an interrupted try has left there.
func (f *Folder) Begin(c *Cell, repeat int) (dir string, err error) {
	dir = f.RunDir(c, repeat) + ".partial"
	if err := errors.Join(f.unseal(), os.RemoveAll(dir)); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// Commit writes run.json into the folder that Begin made, brings its files to the disk and gives it its final name.
// From then on the repeat is done. It sets r.Dir.
func (f *Folder) Commit(c *Cell, r *Run) error {
	final := f.RunDir(c, r.Repeat)
	partial := final + ".partial"
	if err := writeJSON(filepath.Join(partial, "run.json"), r); err != nil {
		return err
	}
	if err := syncTree(partial); err != nil {
		return err
	}
	if err := os.Rename(partial, final); err != nil {
		return err
	}
	r.Dir = final
	return syncDir(filepath.Dir(final))
}

// Discard removes what Begin made.
func (f *Folder) Discard(c *Cell, repeat int) error {
	return os.RemoveAll(f.RunDir(c, repeat) + ".partial")
}

// Data is everything that a folder holds.
type Data struct {
	Dir      string
	Plan     Plan
	Status   Status
	Host     Host
	Runs     []*Run // finished ones, in the order in which they ran
	Profiled []*Run // finished ones of Plan.Profiled: never in Runs, so that no statistic meets them
}

// Load reads a folder. A missing host.json or status.json leaves the zero value; a missing or damaged run is an
// error that names its file.
func Load(dir string) (*Data, error) {
	f, err := Open(dir)
	if err != nil {
		return nil, err
	}
	d := &Data{Dir: dir}
	if err := readJSON(f.Path("plan.json"), &d.Plan); err != nil {
		return nil, err
	}
	if d.Plan.Schema > Schema {
		return nil, fmt.Errorf("%s: plan.json: schema %d: %w", dir, d.Plan.Schema, ErrNewer)
	}
	if err := d.Plan.sound(); err != nil {
		return nil, fmt.Errorf("%s: plan.json: %w", dir, err)
	}
	if err := readJSON(f.Path("status.json"), &d.Status); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := readJSON(f.Path("host.json"), &d.Host); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for i := range d.Plan.Cells {
		c := &d.Plan.Cells[i]
		for repeat := 1; repeat <= c.Repeats; repeat++ {
			if !f.Done(c, repeat) {
				continue
			}
			r, err := f.readRun(c, repeat)
			if err != nil {
				return nil, err
			}
			d.Runs = append(d.Runs, r)
		}
		if c.Profiled && f.Done(c, c.Repeats+1) {
			r, err := f.readRun(c, c.Repeats+1)
			if err != nil {
				return nil, err
			}
			d.Profiled = append(d.Profiled, r)
		}
	}
	slices.SortStableFunc(d.Runs, func(a, b *Run) int { return a.Order - b.Order })
	for _, r := range slices.Concat(d.Runs, d.Profiled) {
		d.cached(r)
	}
	return d, d.eachMeasured()
}

// maxRepeats bounds how often a plan may have a cell run: each is looked for on the disk.
const maxRepeats = 100_000

// sound refuses a plan whose parts do not fit each other, whoever wrote it.
func (p *Plan) sound() error {
	names := map[string]int{}
	for i := range p.Cells {
		c := &p.Cells[i]
		switch other, twice := names[c.Name]; {
		case c.Number != i+1:
			return fmt.Errorf("cell %d has number %d", i+1, c.Number)
		case c.Against < 0 || c.Against > len(p.Cells) || c.Against == c.Number:
			return fmt.Errorf("cell %d is compared with cell %d, of %d", c.Number, c.Against, len(p.Cells))
		case c.Against > 0 && p.Cells[c.Against-1].Kind != c.Kind:
			return fmt.Errorf("cell %d, %s, is compared with cell %d, %s", c.Number, c.Kind, c.Against, p.Cells[c.Against-1].Kind)
		case c.Kind != Latency && c.Kind != Capacity:
			return fmt.Errorf("cell %d asks for %q, which is neither %s nor %s", c.Number, c.Kind, Latency, Capacity)
		case c.Repeats < 0 || c.Repeats > maxRepeats:
			return fmt.Errorf("cell %d runs %d times", c.Number, c.Repeats)
		case twice:
			return fmt.Errorf("cells %d and %d are both called %q", other, c.Number, c.Name)
		}
		names[c.Name] = c.Number
	}
	for _, r := range slices.Concat(p.Runs, p.Search, p.Profiled) {
		if len(p.Cells) == 0 { // a page can still say so
			break
		}
		if r.Cell < 1 || r.Cell > len(p.Cells) || r.Repeat < 1 || r.Repeat > p.Cells[r.Cell-1].Repeats+1 {
			return fmt.Errorf("it plans repeat %d of cell %d, which has none such", r.Repeat, r.Cell)
		}
	}
	return nil
}

// cached says what the page cache was to a run whose target wrote on this host: METHOD 5 wants it beside what an ack meant.
// Nothing is said where it was measured elsewhere.
func (d *Data) cached(r *Run) {
	if r.Result == nil || r.Target.Mode == "bootstrap" || r.Target.Mode == "" {
		return
	}
	a := &r.Result.AckMeant
	if a.Cache == "" && r.Memory.Before.Free > 0 {
		if a.Cache = "memory used before"; r.Marked(MarkFreshMemory) {
			a.Cache = MarkFreshMemory
		}
	}
	f := d.Host.Fingerprint
	written, limit := r.Result.Produce.Batches.WireBytes, f.MemoryBytes/100*int64(f.DirtyBackgroundRatio)
	if a.Regime == "" && written > 0 && limit > 0 {
		if a.Regime = "burst"; written > limit { // the kernel had to write back beside it
			a.Regime = "sustained"
		}
	}
}

// eachMeasured refuses a folder in which one run's result stands for another's: a run draws its id at random.
func (d *Data) eachMeasured() error {
	seen := map[string]*Run{}
	for _, r := range d.Runs {
		if r.Result == nil || r.Result.Run.ID == "" {
			continue
		}
		if other := seen[r.Result.Run.ID]; other != nil {
			return fmt.Errorf("%s and %s hold one result, of run %s: a repeat was copied", other.Dir, r.Dir, r.Result.Run.ID)
		}
		seen[r.Result.Run.ID] = r
	}
	return nil
}

func (f *Folder) readRun(c *Cell, repeat int) (*Run, error) {
	r := &Run{}
	dir := f.RunDir(c, repeat)
	if err := readJSON(filepath.Join(dir, "run.json"), r); err != nil {
		return nil, err
	}
	if r.Schema > Schema {
		return nil, fmt.Errorf("%s: run.json: schema %d: %w", dir, r.Schema, ErrNewer)
	}
	if r.Cell != c.Number || r.Repeat != repeat {
		return nil, fmt.Errorf("%s: run.json says cell %d repeat %d", dir, r.Cell, r.Repeat)
	}
	r.Dir = dir
	res, err := result.Read(dir)
	switch {
	case err == nil:
		r.Result = res
		r.complete()
	case r.Status != Broken && r.Status != Invalid:
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return r, nil
}

// complete puts what the bench measured where readers of the result look for it.
func (r *Run) complete() {
	if r.Target.Process != nil {
		r.Result.Target = r.Target.Process
	}
	r.Result.Cores, r.Result.Ceilings = r.Cores, r.Ceilings
	memory := r.Memory
	r.Result.Memory = &memory
}

// Planned is how many runs the bench sets out to make: those of its plan without those that a stop rule left out, and those
// that a search has made so far.
func (d *Data) Planned() int {
	n := len(d.Plan.Runs)
	for _, r := range d.Runs {
		if c := d.Cell(r.Cell); c != nil && c.Searched {
			n++
		}
	}
	return n - d.LeftOut()
}

// LeftOut is how many runs of the plan the stop rule has left out.
func (d *Data) LeftOut() (n int) {
	for _, s := range d.Status.Stopped {
		if c := d.Cell(s.Cell); c != nil {
			n += max(0, c.Repeats-s.Runs)
		}
	}
	return n
}

// Repeats is how often a cell sets out to run: as planned, or as often as it has where a search or a stop rule decided that.
func (d *Data) Repeats(c *Cell) int {
	n := len(d.RunsOf(c.Number))
	if c.Searched {
		return n
	}
	for _, s := range d.Status.Stopped {
		if s.Cell == c.Number {
			return max(n, s.Runs)
		}
	}
	return max(n, c.Repeats)
}

// Cell returns the cell of a number, nil for none.
func (d *Data) Cell(number int) *Cell {
	if number < 1 || number > len(d.Plan.Cells) {
		return nil
	}
	return &d.Plan.Cells[number-1]
}

// RunsOf returns the finished runs of a cell in their order.
func (d *Data) RunsOf(number int) []*Run {
	var out []*Run
	for _, r := range d.Runs {
		if r.Cell == number {
			out = append(out, r)
		}
	}
	return out
}

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s is damaged: %w", path, err)
	}
	return nil
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return writeWhole(path, append(b, '\n'))
}

// writeWhole replaces path by content through a temporary file beside it, synced before the rename.
func writeWhole(path string, content []byte) error {
	tmp := path + ".tmp"
	w, err := os.Create(tmp)
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	if err == nil {
		err = w.Sync()
	}
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp)
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncDir(path)
	})
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// Lock keeps a second bench out of the folder until Unlock or the end of the process.
func (f *Folder) Lock() error {
	file, err := os.OpenFile(f.Path(".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return fmt.Errorf("%s is in use by another bench run", f.dir)
	}
	f.lock = file
	return nil
}

// Unlock lets go of the folder.
func (f *Folder) Unlock() {
	if f.lock != nil {
		f.lock.Close()
		f.lock = nil
	}
}
