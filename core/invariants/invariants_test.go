package invariants

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func panics(f func()) (text string) {
	defer func() { text, _ = recover().(string) }()
	f()
	return ""
}

func TestCheckStopsOnlyWhenEnabled(t *testing.T) {
	if got := panics(func() { Check(true, "never") }); got != "" {
		t.Fatalf("Check(true) panicked: %s", got)
	}
	got := panics(func() { Check(false, "offset %d", 7) })
	if Enabled && got != "bug: offset 7" || !Enabled && got != "" {
		t.Fatalf("Enabled=%v, got %q", Enabled, got)
	}
}

func TestBugIsMarkedAndKeepsItsCause(t *testing.T) {
	err := Bug("read %s: %w", "x", io.EOF)
	if !strings.HasPrefix(err.Error(), "bug: read x") || !errors.Is(err, ErrBug) || !errors.Is(err, io.EOF) {
		t.Fatalf("%v", err)
	}
}

func TestSometimes(t *testing.T) {
	hits := 0
	for range 10_000 {
		if Sometimes(100) {
			hits++
		}
		if Sometimes(0) {
			t.Fatal("Sometimes(0) was true")
		}
	}
	if want := map[bool]int{true: 10_000}[Enabled]; hits != want {
		t.Fatalf("Sometimes(100): %d of 10000", hits)
	}
}

func TestCloseOnce(t *testing.T) {
	var c CloseOnce
	c.AssertOpen()
	c.Close()
	if got := panics(c.AssertOpen); (got != "") != Enabled {
		t.Fatalf("use after close: %q", got)
	}
	if got := panics(c.Close); (got != "") != Enabled {
		t.Fatalf("second close: %q", got)
	}
}

func TestScribble(t *testing.T) {
	b := []byte("text")
	Scribble(b)
	if Scribbled(b) != Enabled {
		t.Fatalf("Enabled=%v, bytes %x", Enabled, b)
	}
}
