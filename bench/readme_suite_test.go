package bench

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheSuitesOfTheReadmeArePlanned: a reader copies them.
func TestTheSuitesOfTheReadmeArePlanned(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) == 0 {
		t.Fatal("README.md shows no suite")
	}
	for _, b := range blocks {
		file := filepath.Join(t.TempDir(), "suite.yaml")
		if err := os.WriteFile(file, b[1], 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := output(t, "bench", "plan", file)
		if err != nil {
			t.Errorf("%v\n%s", err, b[1])
		}
		if strings.Contains(string(b[1]), "search: true") && (!strings.Contains(out, "searching") || !strings.Contains(out, "objective p99 within 10 ms")) {
			t.Errorf("the search is not planned:\n%s", out)
		}
		t.Log(out)
	}
}
