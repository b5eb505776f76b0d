package suites_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/suites"
)

func TestBuiltInSuitesRead(t *testing.T) {
	names := suites.Names()
	if len(names) == 0 {
		t.Fatal("no built-in suite")
	}
	for _, name := range names {
		s, err := suites.Find(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if s.Name != name {
			t.Errorf("suite %s calls itself %s", name, s.Name)
		}
	}
}

func TestBadSuitesAreRefusedWithPlaceAndNearestName(t *testing.T) {
	const head = "name: x\nrate: 100\nwindow: 1s\n"
	for _, c := range []struct{ name, text, want string }{
		{"unknown field", head + "ladderr: {}\n", `s.yaml:4:1: unknown field "ladderr" in the suite (did you mean "ladder"?)`},
		{"unknown workload field", head + "baseline:\n  set:\n    lingr: 5ms\n", `s.yaml:6:5: unknown setting "lingr" (did you mean "linger"?)`},
		{"bad workload value", head + "baseline:\n  set:\n    partitions: 5.5\n", `s.yaml:6:17: partitions: `},
		{"bad unit", head + "matrix:\n  axes:\n    linger: [5ms, 7]\n", `s.yaml:6:19: linger:`},
		{"repeated", head + "rate: 5\n", `s.yaml:4:1: `},
		{"second document", head + "---\nname: y\n", "second document"},
		{"empty", "", "empty"},
		{"no value", head + "seconds:\n", "has no value"},
		{"owned", head + "baseline: {set: {rate: 7}}\n", "set by the bench itself"},
		{"zero rate", "name: x\nrate: 0\nwindow: 1s\n", "rate must be a number from 1"},
		{"share without unit", head + "allowance: 0.05\n", "percentage such as 50%"},
		{"profiles of nothing", head + "profiles: {extra: some}\n", `s.yaml:4:19: extra must be baseline, all, none, not "some"`},
		{"plain without profiles", head + "profiles: {cpu: false, plain: 2}\n", "what the CPU profile costs"},
		{"half true", head + "profiles: {cpu: maybe}\n", "cpu must be true or false"},
		{"admin without port", head + "target: {bootstrap: 127.0.0.1:9092, admin: localhost}\n", "admin of the target must be HOST:PORT"},
		{"admin alone", head + "target: {admin: 127.0.0.1:8080}\n", "needs bootstrap"},
		{"ladder without probes", head + "ladder: {shares: [50%]}\n", "set probes"},
		{"syntax", "name: [x\n", "s.yaml:1:"},
		{"list", "- a\n", "must be a mapping"},
		{"design", head + "matrix: {design: ful}\n", "design must be one-factor, full, pairwise"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := suites.Parse("s.yaml", []byte(c.text))
			if err == nil {
				t.Fatal("accepted")
			}
			if !errors.Is(err, suites.ErrSuite) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestUnknownSuiteNamesTheNearest(t *testing.T) {
	if _, err := suites.Find("quik"); err == nil || !strings.Contains(err.Error(), `did you mean "quick"?`) {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range suites.Names() {
		if s, err := suites.Find(name); err == nil {
			f.Add(s.Text)
		}
	}
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := suites.Parse("f.yaml", text); err == nil && s.Name == "" {
			t.Error("a suite without a name was accepted")
		}
	})
}
