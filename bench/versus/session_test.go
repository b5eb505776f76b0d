package versus

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/bench/target"
	"github.com/tidemark/tidemark/broker/proc"
)

// standIn is a second broker of ours in Apache Kafka's place: it speaks the same protocol and needs no Java.
func standIn(o *Options, s *Suite, _ Kafka, log io.Writer) func(context.Context, *arm) (*target.Target, error) {
	return func(ctx context.Context, a *arm) (*target.Target, error) {
		return startEmbedded(ctx, o, a, s.Broker, log)
	}
}

// TestSessionOfTwoBrokers runs every kind of row. How fast either was is nobody's promise; that each window moved records
// which were read back, that blocks alternate and that everything is written is.
func TestSessionOfTwoBrokers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts brokers")
	}
	suite, err := Parse("small.yaml", []byte(smallSuite))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out")
	var progress, table bytes.Buffer
	o := Options{Out: dir, Profile: "full", Seed: 7, Bin: proc.Binary(t), Version: "test", Progress: &progress, suite: suite, other: standIn, span: 20 * time.Millisecond}
	d, err := Run(t.Context(), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	rows := map[string]int{} // one that had not settled is measured once more
	for _, b := range d.Blocks {
		rows[b.Row]++
	}
	if d.State != "finished" || len(rows) != len(suite.Rows) || slices.Max(slices.Collect(maps.Values(rows))) > 2 {
		t.Errorf("state %s, %d blocks of %d rows\n%s", d.State, len(d.Blocks), len(suite.Rows), progress.String())
	}
	for _, b := range d.Blocks {
		checkBlock(t, b)
	}
	read, err := Read(dir)
	if err != nil || len(read.Blocks) != len(d.Blocks) {
		t.Errorf("%s: %v", FileName, err)
	}
	if err := finish(&table, read, dir); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"MB per CPU-s", "catch-up fetch", "lost 0  duplicated 0", "TLS: not built", "report.html"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
	for _, b := range d.Blocks { // or a note says why there is none
		if _, err := os.Stat(filepath.Join(dir, b.Profile)); err != nil || b.Row == "produce" && b.Profile == "" && len(d.Notes) == 0 {
			t.Errorf("%s: profile %q: %v", b.Row, b.Profile, err)
		}
	}
	for _, name := range []string{"report.html", "report.md"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("the brokers' data was left behind")
	}
	t.Log("\n" + table.String())
	o.Resume, o.Progress = true, &bytes.Buffer{}
	again, err := Run(t.Context(), o)
	if err != nil || len(again.Blocks) != len(d.Blocks) {
		t.Errorf("a finished session that is resumed measures nothing: %d blocks of %d, %v", len(again.Blocks), len(d.Blocks), err)
	}
	o.Resume = false
	if _, err := Run(t.Context(), o); err == nil {
		t.Error("a folder with results was written over")
	}
}

func checkBlock(t *testing.T, b *Block) {
	t.Helper()
	arms := map[string]int{}
	for i, w := range b.Windows {
		arms[w.Arm]++
		if len(b.Arms) == 2 && w.Arm != b.Arms[Order(w.Pair, 2)[i%2]] {
			t.Errorf("%s: window %d of pair %d is %s's", b.Row, i, w.Pair, w.Arm)
		}
		if w.Alone != nil {
			continue
		}
		// On a host that is busy with other things a short window may pass without an answer: that is said, and no fault.
		if w.Status == "failed" || w.Status == "invalid" && !strings.Contains(strings.Join(w.Reasons, " "), "not one record") {
			t.Errorf("%s %s: %s %v", b.Row, w.Arm, w.Status, w.Reasons)
		}
		if w.Records > 0 && w.CPUSeconds <= 0 || w.ReadBack == 0 {
			t.Errorf("%s %s: nothing measured: %+v", b.Row, w.Arm, w)
		}
		if w.Unverified != "" || w.Lost+w.Duplicated+w.Corrupt > 0 || b.Row != "fetch" && w.Acked == 0 {
			t.Errorf("%s %s: acked %d lost %d duplicated %d corrupt %d unverified %q", b.Row, w.Arm, w.Acked, w.Lost, w.Duplicated, w.Corrupt, w.Unverified)
		}
	}
	if arms["tidemark"] == 0 || arms["tidemark"] != arms["kafka"] {
		t.Errorf("%s: windows %v", b.Row, arms)
	}
}

// TestEveryRowAgainstKafka takes each row of the built-in suite through the least that it can run, with Apache Kafka started
// by the script that TIDEMARK_VERSUS_KAFKA names. It takes minutes, shows no figure worth reading, and finds rows that do not work.
func TestEveryRowAgainstKafka(t *testing.T) {
	script := os.Getenv("TIDEMARK_VERSUS_KAFKA")
	if script == "" {
		t.Skip("set TIDEMARK_VERSUS_KAFKA to scripts/kafka/kafka")
	}
	suite, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	p := &suite.Profiles[0]
	p.Processes, p.Blocks, p.Tuned, p.WarmUp = 1, 1, false, 0
	if rows := os.Getenv("TIDEMARK_VERSUS_ROWS"); rows != "" {
		p.Rows = strings.Split(rows, ",")
	}
	dir := filepath.Join(t.TempDir(), "out")
	if kept := os.Getenv("TIDEMARK_VERSUS_OUT"); kept != "" {
		dir = kept
	}
	o := Options{Out: dir, Profile: p.Name, Budget: time.Hour, Seed: 7, Bin: proc.Binary(t), Version: "test", Kafka: script, Progress: os.Stderr, suite: suite}
	for i := range suite.Profiles {
		suite.Profiles[i].SettleAtMost = 1
	}
	if script == "stand-in" {
		o.other = standIn
	}
	d, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range d.Blocks {
		for _, w := range b.Windows {
			if w.Status == "invalid" || w.Status == "failed" || w.Unverified != "" {
				t.Errorf("%s %s: %s %v unverified %q", b.Row, w.Arm, w.Status, w.Reasons, w.Unverified)
			}
		}
	}
	Print(os.Stderr, d, dir)
}
