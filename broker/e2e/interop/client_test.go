package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

// recordTime is the time of record 0: an hour ago, so that retention by time leaves it alone.
const recordAge = time.Hour

// client runs one verb of one library (testdata says which) as a program of its own.
type client struct {
	name string
	argv []string
}

// tools is where scripts/interop/run put the other languages' clients.
type tools struct{ dir, python, node, classpath, kcat, java string }

// needTools skips where the clients are not installed: `go test ./...` must pass with only Go.
func needTools(t *testing.T) tools {
	t.Helper()
	dir := os.Getenv("TIDEMARK_INTEROP")
	if dir == "" {
		t.Skip("the clients of other languages are installed by `make interop`, which runs this test")
	}
	cp, err := os.ReadFile(filepath.Join(dir, "classpath"))
	if err != nil {
		t.Fatalf("the Java class path: %v; run make interop", err)
	}
	return tools{dir: dir, python: filepath.Join(dir, "venv/bin/python"), node: "node", java: "java",
		classpath: filepath.Join(dir, "classes") + ":" + strings.TrimSpace(string(cp)), kcat: "kcat"}
}

func (tl tools) clients() []client {
	py := func(lib string) client {
		return client{name: lib, argv: []string{tl.python, "testdata/clients.py", lib}}
	}
	return []client{
		py("confluent"),
		py("kafka-python"),
		{name: "kafkajs", argv: []string{tl.node, "testdata/client.js"}},
		{name: "java", argv: []string{tl.java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", tl.classpath, "Client"}},
	}
}

// started is the time of record 0 in milliseconds, the same for every program of this test process.
func started(t *testing.T) int64 {
	t.Helper()
	if s := os.Getenv("INTEROP_BASE_MS"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := time.Now().Add(-recordAge).UnixMilli()
	os.Setenv("INTEROP_BASE_MS", strconv.FormatInt(n, 10))
	return n
}

// run runs a program and gives its standard output; a failure ends the test with all it said.
func run(t *testing.T, env []string, stdin string, argv ...string) string {
	t.Helper()
	out, _ := runBoth(t, env, stdin, argv...)
	return out
}

// runBoth gives what a program wrote to its standard error too.
func runBoth(t *testing.T, env []string, stdin string, argv ...string) (string, string) {
	t.Helper()
	started(t)
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", strings.Join(argv[max(0, len(argv)-8):], " "), err, tail(errs.String()), tail(out.String()))
	}
	return out.String(), errs.String()
}

func tail(s string) string { return s[max(0, len(s)-3000):] }

func (c client) run(t *testing.T, tl tools, verb string, args ...any) string {
	t.Helper()
	argv := append(append([]string{}, c.argv...), verb)
	for _, a := range args {
		argv = append(argv, fmt.Sprint(a))
	}
	return run(t, []string{"NODE_PATH=" + filepath.Join(tl.dir, "node_modules")}, "", argv...)
}

// row is one record as a client printed it.
type row struct {
	partition, offset, timestamp int64
	key, value                   string
}

func rows(t *testing.T, out string) []row {
	t.Helper()
	var rs []row
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 5 {
			t.Fatalf("a consumer printed %q: want partition, offset, timestamp, key, value", line)
		}
		var n [3]int64
		for i := range n {
			v, err := strconv.ParseInt(f[i], 10, 64)
			if err != nil {
				t.Fatalf("a consumer printed %q: %v", line, err)
			}
			n[i] = v
		}
		rs = append(rs, row{n[0], n[1], n[2], f[3], f[4]})
	}
	return rs
}

// wantValues checks that the rows hold exactly the values PREFIX-FIRST up to PREFIX-(END-1), with their keys and times, and
// that one key's records stand in one partition in order.
func wantValues(t *testing.T, rs []row, prefix string, first, end int) {
	t.Helper()
	base := started(t)
	var got []int
	place := map[string]int64{}
	for _, r := range rs {
		s, ok := strings.CutPrefix(r.value, prefix+"-")
		i, err := strconv.Atoi(s)
		if !ok || err != nil {
			t.Fatalf("unexpected value %q, want %s-N", r.value, prefix)
		}
		if want := fmt.Sprintf("k%d", i%10); r.key != want || r.timestamp != base+int64(i) {
			t.Errorf("record %s: key %s, timestamp %d; want %s, %d", r.value, r.key, r.timestamp, want, base+int64(i))
		}
		if p, seen := place[r.key]; seen && p != r.partition {
			t.Errorf("key %s stands in partitions %d and %d", r.key, p, r.partition)
		}
		place[r.key] = r.partition
		got = append(got, i)
	}
	sort.Ints(got)
	if len(got) != end-first {
		t.Fatalf("%d records, want %d", len(got), end-first)
	}
	for i, v := range got {
		if v != first+i {
			t.Fatalf("record %d of %s is missing or there twice", first+i, prefix)
		}
	}
}
