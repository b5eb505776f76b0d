package versus

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/exit"
	"github.com/tidemark/tidemark/bench/host"
)

func TestASessionIsGoneOnWithWhereItBegan(t *testing.T) {
	here := host.Fingerprint{Hostname: "here", CPUModel: "fast", Cores: 2, Kernel: "6.1", FileSystem: "ext4", Load1: 3, FreeBytes: 5, BootID: "a"}
	for _, c := range []struct {
		name, want string
		change     func(d *Document)
	}{
		{"the same", "", func(*Document) {}},
		{"another load, disk and boot", "", func(d *Document) { d.Host.Load1, d.Host.FreeBytes, d.Host.BootID = 0, 1, "b" }},
		{"suite", "give another --out", func(d *Document) { d.SuiteHash = "0123456789abcdef" }},
		{"profile", "--profile quick", func(d *Document) { d.Profile = "quick" }},
		{"host", "name there", func(d *Document) { d.Host.Hostname = "there" }},
		{"processor", "processor slow", func(d *Document) { d.Host.CPUModel = "slow" }},
		{"cores", "4 cores", func(d *Document) { d.Host.Cores = 4 }},
		{"kernel", "kernel 5.10", func(d *Document) { d.Host.Kernel = "5.10" }},
	} {
		d := &Document{SuiteHash: "abc", Profile: "full", Host: here}
		c.change(d)
		err := goesOn(d, "abc", "full", here)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	arms := []*arm{{info: ArmInfo{Name: "tidemark", Ours: true, Version: "2"}}, {info: ArmInfo{Name: "kafka", Version: "Apache Kafka 4.4.0"}}}
	before := []ArmInfo{{Name: "tidemark", Ours: true, Version: "1"}, {Name: "kafka", Version: "Apache Kafka 4.4.0"}, {Name: "kafka-tuned", Version: "Apache Kafka 4.4.0"}}
	if err := sameKafka(before, arms); err != nil {
		t.Error(err)
	}
	before[1].Version = "Apache Kafka 4.1.0"
	if err := sameKafka(before, arms); err == nil || !strings.Contains(err.Error(), "Apache Kafka 4.1.0") {
		t.Errorf("another Kafka: %v", err)
	}
}

// TestResumeRefusesBeforeItTouchesTheDocument: what is there stays as it was, and the exit code is that of a wrong call.
func TestResumeRefusesBeforeItTouchesTheDocument(t *testing.T) {
	suite, err := Parse("small.yaml", []byte(smallSuite))
	if err != nil {
		t.Fatal(err)
	}
	dir, sum := t.TempDir(), sha256.Sum256(builtIn)
	old := &Document{Schema: Schema, SuiteHash: "of another suite", Profile: "full", State: "interrupted", Host: host.Read(dir),
		Blocks: []*Block{{Row: "produce", Process: 1, Windows: []*Window{{Arm: "tidemark"}}, Probes: []*Window{{Arm: "tidemark"}}}}}
	if err := old.Write(dir); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Out: dir, Profile: "full", Resume: true, Version: "test", Progress: &bytes.Buffer{}, suite: suite, other: standIn}
	_, err = Run(t.Context(), o)
	after, readErr := os.ReadFile(filepath.Join(dir, FileName))
	if exit.Of(err) != exit.Usage || readErr != nil || !bytes.Equal(before, after) {
		t.Errorf("%v (exit %d), %v", err, exit.Of(err), readErr)
	}
	old.SuiteHash = hex.EncodeToString(sum[:])
	if err := old.Write(dir); err != nil {
		t.Fatal(err)
	}
	s := &session{options: o, suite: suite, profile: suite.Profiles[0], build: "test 0123"}
	if err := s.document(); err != nil {
		t.Fatal(err)
	}
	if want := "resumed by test 0123: blocks before are of " + unknownBuild; !slices.Contains(s.doc.Notes, want) || s.order != 103 {
		t.Errorf("notes %q, next window %d", s.doc.Notes, s.order)
	}
}

func TestBuildsAreToldApartByWhatTheyConsistOf(t *testing.T) {
	dir := t.TempDir()
	names := map[string]bool{}
	for _, content := range []string{"one", "another", "one"} {
		bin := filepath.Join(dir, "tidemark")
		if err := os.WriteFile(bin, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		name, err := buildOf(bin, "(devel)")
		if err != nil || !strings.HasPrefix(name, "(devel) ") || len(name) != len("(devel) ")+buildDigits {
			t.Fatalf("%q, %v", name, err)
		}
		names[name] = true
	}
	if len(names) != 2 {
		t.Errorf("%v", names)
	}
	if _, err := buildOf(filepath.Join(dir, "nothing"), "1"); err == nil {
		t.Error("a program that is not there has a build")
	}
}

func TestARowOfSeveralBuildsSaysSoAndTellsNoGoal(t *testing.T) {
	p := repeat([2]float64{250, 100}, 2)
	d := document(Goal{Measure: "MB per CPU-s", Ratio: 2}, [][][2]float64{p, p, p})
	of := func() (Verdict, string) {
		r := Analyse(d)
		return r[0].Lines[0].Verdict, strings.Join(cells(&r[0], 0), " | ") + "\n" + strings.Join(footers(d, r, ""), "\n") + "\n" + strings.Join(provenance(d), "\n")
	}
	if v, text := of(); v != Met || strings.Contains(text, "builds") {
		t.Errorf("of a document that has none: %s\n%s", v, text)
	}
	for _, b := range d.Blocks {
		b.Build = "1 aaa"
	}
	if v, text := of(); v != Met || strings.Contains(text, "builds") || !strings.Contains(text, "blocks of 1 aaa") {
		t.Errorf("of one build: %s\n%s", v, text)
	}
	d.Blocks[2].Build = "1 bbb"
	if v, text := of(); v != CannotTell || !strings.Contains(text, "cannot tell (blocks of 2 builds)") || !strings.Contains(text, "builds    a row: process 1, 2 of 1 aaa; process 3 of 1 bbb") {
		t.Errorf("of two builds: %s\n%s", v, text)
	}
	// A block that counts for nothing is in no figure.
	d.Blocks[2].Settled["tidemark"] = "trend"
	d.Blocks = append(d.Blocks, document(d.Rows[0].Goals[0], [][][2]float64{p}).Blocks[0])
	d.Blocks[3].Process, d.Blocks[3].Build = 3, "1 aaa"
	if v, text := of(); v != Met || !strings.Contains(text, "process 3 of 1 bbb") {
		t.Errorf("a block of another build that had not settled: %s\n%s", v, text)
	}
}

// TestFiguresOfAnotherBuildAreABlockOfTheirOwn: what is measured alone is entered figure by figure.
func TestFiguresOfAnotherBuildAreABlockOfTheirOwn(t *testing.T) {
	s := &session{doc: &Document{}, build: "a"}
	s.figures("start", 1, &Window{Arm: "tidemark"})
	s.figures("start", 1, &Window{Arm: "kafka"})
	s.build = "b"
	s.figures("start", 1, &Window{Arm: "tidemark"})
	if len(s.doc.Blocks) != 2 || len(s.doc.Blocks[0].Windows) != 2 || s.doc.Blocks[1].Build != "b" {
		t.Errorf("%d blocks", len(s.doc.Blocks))
	}
}

// TestWhatIsLostBesideTheRowsCounts: in a warm-up, or in a block that was cut short.
func TestWhatIsLostBesideTheRowsCounts(t *testing.T) {
	d := document(Goal{Measure: "MB per CPU-s"}, [][][2]float64{{{250, 100}}})
	s := &session{doc: d}
	s.keepDamaged(&Window{Arm: "kafka", Acked: 5}, &Window{Arm: "kafka", Acked: 5, Lost: 2, Folder: "runs/007"})
	if len(d.Damaged) != 1 {
		t.Fatalf("%d kept", len(d.Damaged))
	}
	var out bytes.Buffer
	if err := finish(&out, d, t.TempDir()); exit.Of(err) != exit.Invalid || !strings.Contains(out.String(), "beside the rows: kafka lost 2") || !strings.Contains(out.String(), "runs/007") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestADocumentOfBeforeIsPrintedAgain: one without probes, builds and marks.
func TestADocumentOfBeforeIsPrintedAgain(t *testing.T) {
	const text = `{"schema":1,"profile":"full","state":"finished","version":"1","minPairs":5,"processes":3,
"arms":[{"name":"tidemark","ours":true},{"name":"kafka"}],
"rows":[{"name":"latency-share","title":"latency at half","share":0.5,"goals":[{"measure":"records/s asked"},{"measure":"ack p50","atMost":0.5}]}],
"blocks":[{"row":"latency-share","process":1,"arms":["tidemark","kafka"],"capacity":{"kafka":[4032,8768],"tidemark":[39296,37632]},"settled":{},
"windows":[{"arm":"tidemark","pair":0,"status":"ok","asked":19232,"percentiles":{"ack p50":{"ms":1}}},{"arm":"kafka","pair":0,"status":"ok","asked":3200,"percentiles":{"ack p50":{"ms":2}}}]}]}`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := finish(&out, d, dir); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"tidemark 39,296 37,632; kafka 4,032 8,768", "cannot tell (not known whether", "was not kept", "(19,232)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
