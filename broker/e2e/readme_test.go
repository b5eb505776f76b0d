package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/broker/proc"
)

// TestReadmeCommands runs what README.md tells a newcomer to type in its sh blocks, against a port and in a folder of its
// own: the broker first, in the background, then each command to its end.
func TestReadmeCommands(t *testing.T) {
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	results, err := filepath.Abs("../../results")
	if err == nil {
		err = os.Symlink(results, filepath.Join(dir, "results")) // what the repository publishes is there to be read
	}
	if err != nil {
		t.Fatal(err)
	}
	bin := proc.Binary(t)
	broker, ran := "", 0
	for i, block := range strings.Split(string(b), "```") {
		if i%2 == 0 || !strings.HasPrefix(block, "sh\n") {
			continue
		}
		for line := range strings.Lines(strings.TrimPrefix(block, "sh\n")) {
			args := strings.Fields(line)
			if len(args) == 0 || args[0] != "bin/tidemark" {
				continue
			}
			ran++
			if args[1] == "broker" {
				p, err := proc.Start(t.Context(), proc.Options{Bin: bin, Data: dir + "/data", Args: args[6:]})
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				if want := []string{"--listen", "127.0.0.1:9092", "--data", "./data"}; strings.Join(args[2:6], " ") != strings.Join(want, " ") {
					t.Fatalf("README's broker line is %q: this test expects it to begin with %v", line, want)
				}
				broker = p.Addr
				t.Cleanup(func() { _ = p.Stop() })
				continue
			}
			cmd := exec.CommandContext(t.Context(), bin, strings.Fields(strings.ReplaceAll(strings.Join(args[1:], " "), "127.0.0.1:9092", broker))...)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			// A run on a host that is busy with other tests may well be limited by the generator: 4, with its result written.
			if code := cmd.ProcessState.ExitCode(); err != nil && code != 4 {
				t.Errorf("%s: exit %d\n%s", line, code, out)
			}
			if args[1] == "load" && !strings.Contains(string(out), "lost 0   duplicated 0   out of order 0") {
				t.Errorf("%s printed\n%s", line, out)
			}
		}
	}
	if ran < 2 {
		t.Errorf("README.md has %d commands in sh blocks: want the broker and a load at least", ran)
	}
}
