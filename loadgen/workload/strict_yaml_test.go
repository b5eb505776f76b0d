package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestBadFilesAreRefusedWithPlaceAndNearestName(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown field", "acks: all\n  \nlingr: 5ms\n", `w.yaml:3:1: unknown field "lingr" (did you mean "linger"?)`},
		{"unknown far field", "acks: all\nqqqqqqqqqq: 1\n", `w.yaml:2:1: unknown field "qqqqqqqqqq"`},
		{"fraction in int", "partitions: 5.5\n", `w.yaml:1:13: partitions: must be a whole number, not "5.5"`},
		{"text in int", "partitions: six\n", `w.yaml:1:13: partitions: must be a whole number, not "six"`},
		{"quoted number", "partitions: \"6\"\n", `w.yaml:1:13: partitions: must be a number, not "6"`},
		{"out of range", "producers: 99999999999999999999\n", `w.yaml:1:12: producers: 99999999999999999999 is out of range`},
		{"second document", "acks: all\n---\nacks: 1\n", `w.yaml:2:1: a second document`},
		{"empty", "", `w.yaml: the file is empty`},
		{"only comments", "# nothing\n", `w.yaml: the file is empty`},
		{"only a marker", "---\n", `w.yaml: the file is empty`},
		{"list at top", "- a\n- b\n", `w.yaml:1:1: must be fields`},
		{"no value", "linger:\nacks: 1\n", `linger: has no value`},
		{"null", "linger: ~\n", `linger: has no value`},
		{"twice", "acks: 1\nacks: all\n", `w.yaml:2:1: `},
		{"no unit", "linger: 5\n", `w.yaml:1:9: linger: "5" needs a unit`},
		{"size in duration", "linger: 5KiB\n", `w.yaml:1:9: linger: "5KiB" is not a length of time`},
		{"duration in size", "batch-size: 5ms\n", `w.yaml:1:13: batch-size: "5ms" is not a size`},
		{"negative duration", "linger: -5ms\n", `is negative`},
		{"part of a byte", "batch-size: 1.0001KiB\n", `is not a whole number of bytes`},
		{"list for scalar", "linger: [1ms]\n", `linger: must be one value, not a list`},
		{"fields for scalar", "acks:\n  level: 1\n", `acks: must be one value, not fields`},
		{"scalar for list", "groups: 3\n", `groups: must be a list`},
		{"unknown keys", "keys: zipff(1.1)\n", `keys "zipff" is none of`},
		{"zipf below zero", "keys: zipf(-1)\n", `s must be 0 to 10`},
		{"zipf not a number", "keys: zipf(NaN)\n", `s must be 0 to 10`},
		{"broken bracket", "keys: zipf(1.1\n", `the brackets do not match`},
		{"sizes reversed", "record-size: uniform(2KiB, 1KiB)\n", `the first must not be larger`},
		{"infinite rate", "rate: .inf\n", `rate: must be a number`},
		{"unit of a rate", "rate: 5ms\n", `w.yaml:1:7: rate: must be a number, not "5ms"`},
		{"unit of a count", "partitions: 6KiB\n", `w.yaml:1:13: partitions: must be a whole number, not "6KiB"`},
		{"size beyond all", "batch-size: 99999999999GiB\n", `batch-size: size "99999999999GiB" is out of range`},
		{"time beyond all", "linger: 99999999999h\n", `linger: "99999999999h" is not a length of time`},
		{"unknown unit", "record-size: 5 elephants\n", `record-size: `},
		{"misplaced", "acks: 1\nproducer:\n  linger: 5ms\n", `w.yaml:2:1: unknown field "producer": linger in it stands one level higher, beside the others`},
		{"of a suite", "matrix:\n  acks: [1, all]\n", `w.yaml:1:1: unknown field "matrix": acks in it stands one level higher`},
		{"inside a scalar", "linger:\n  ms: 5\n", `w.yaml:2:5: linger: must be one value, not fields`},
		{"markup as a field", "<script>: 1\n", `w.yaml:1:1: unknown field "<script>"`},
		{"escape sequence as a field", "\"\\e[2Jacks\": 1\n", `unknown field "\x1b[2Jacks"`},
		{"bad indentation", "acks: 1\n   linger: 5ms\n bad", `w.yaml:`},
		{"alias of nothing", "acks: *nowhere\n", `w.yaml:1:`},
		{"bool", "idempotence: yes please\n", `idempotence: must be true or false`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("w.yaml", []byte(c.text))
			if err == nil {
				t.Fatalf("accepted:\n%s", c.text)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			var p *Problem
			if !errors.As(err, &p) {
				t.Errorf("%T is no *Problem", err)
			}
		})
	}
}

func TestContradictionsAreRefusedWhereTheyStand(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"zero rate", "question: latency\nrate: 0\n", `w.yaml:2:1: rate: a latency run needs a rate above 0`},
		{"rate of a closed loop", "question: capacity\nrate: 5\n", `w.yaml:2:1: rate: a capacity run is a closed loop`},
		{"idempotence", "acks: 1\nidempotence: true\n", `w.yaml:2:1: idempotence: needs acks all, not 1`},
		{"six in flight", "in-flight: 6\nidempotence: true\n", `w.yaml:1:1: in-flight: at most 5 with idempotence`},
		{"acks", "acks: 2\n", `w.yaml:1:1: acks: "2" is none of 0, 1, all`},
		{"codec", "compression: zst\n", `(did you mean "zstd"?)`},
		{"level", "compression-level: 3\n", `compression none has no levels`},
		{"small records", "record-size: 10B\n", `verification needs at least 24 bytes`},
		{"buffer", "buffer: 1KiB\nbatch-size: 1MiB\n", `buffer: 1KiB does not hold one batch of 1MiB`},
		{"pool verified", "payload-pool: 8\n", `(verify: off)`},
		{"never without topic", "create: never\n", `which topics?`},
		{"topic with blank", "topic: a b\n", `no name for a topic`},
		{"topic that escapes", "topic: ../../etc\n", `no name for a topic`},
		{"alone at the root", "topic: ..\n", `no name for a topic`},
		{"prefix that escapes", "prefix: ../x\n", `w.yaml:1:1: prefix: "../x" is no name for a topic`},
		{"prefix with markup", "prefix: <b>x</b>\n", `no name for a topic`},
		{"payload that escapes", "payload-file: ../../etc/shadow\n", `w.yaml:1:1: payload-file: "../../etc/shadow" leaves the folder in which the command runs`},
		{"payload elsewhere", "payload-file: /etc/shadow\n", `payload-file: "/etc/shadow" leaves the folder`},
		{"misplaced below", "topic-configs:\n  retention.ms: 1000\n  linger: 5ms\n", `w.yaml:3:3: topic-configs.linger: linger is a setting of the workload`},
		{"kgo's in flight", "driver: kgo\nin-flight: 1\nidempotence: true\n", `w.yaml:2:1: in-flight: with idempotence driver kgo always has 5 in flight`},
		{"null reads nothing", "driver: \"null\"\ngroups: [1]\n", `w.yaml:2:1: groups: the driver null sends nothing`},
		{"null alone reads nothing", "driver: \"null\"\nconsumers: 1\n", `consumers: the driver null sends nothing`},
		{"request", "record-size: 2MiB\n", `w.yaml:1:1: record-size: 2MiB does not fit into a request of at most 1MiB`},
		{"no byte", "max-bytes: 1B\n", `max-bytes: 1B is less than one record of 1KiB`},
		{"sums that overflow", "window: 2562047h\ndrain: 2562047h\n", `w.yaml:1:1: window: 2562047h is longer than 720h`},
		{"a crowd", "groups: [10000, 10000]\n", `groups: 20000 consumers are more than 10000`},
		{"an ocean of partitions", "topics: 10000\npartitions: 100000\n", `are more than 1000000 together`},
		{"fetches", "fetch-min: 100MiB\n", `fetch-min: 100MiB is more than fetch-max 50MiB`},
		{"delivery", "linger: 30s\ndelivery-timeout: 1s\n", `delivery-timeout: 1s is shorter than linger 30s`},
		{"too long", "window: 10m\n", `max-duration: 10m is shorter than`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Parse("w.yaml", []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if err = s.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestAFlagTakesTheFilesPlaceAway(t *testing.T) {
	s, err := Parse("w.yaml", []byte("rate: 100\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Set("rate", "0"); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err == nil || strings.Contains(err.Error(), "w.yaml") {
		t.Errorf("got %v, want an error that does not blame the file", err)
	}
}

const everySetting = `name: all of them
question: latency
rate: 20000.5
arrivals: constant
slo: 250ms
driver: kgo
producers: 3
acks: 1
in-flight: 7
linger: 30s
delivery-timeout: 1m30s
batch-size: 128KiB
compression: zstd
compression-level: -3
topics: 2
topic-configs:
  retention.ms: "1000"
  cleanup.policy: delete
keys: hot(500, 0.9, 0.01)
record-size: histogram(100B:90, 10KiB:10.5)
groups: [3, 1]
commit: sync
verify: on
seed: 18446744073709551615
`

func TestMarshalRoundTrips(t *testing.T) {
	for name, text := range map[string]string{
		"every": everySetting, "one": "acks: 0\n", "capacity": "question: capacity\noutstanding: 100\n",
		"uniform": "keys: uniform(7)\nrecord-size: uniform(100B, 2000B)\n", "zipf": "keys: zipf(0.99)\n",
		"odd words": "name: \"yes: no # {not} a comment\"\nprefix: \"123\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Parse("w.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(); err != nil {
				t.Fatal(err)
			}
			once := s.Marshal()
			again, err := Parse("again.yaml", once)
			if err != nil {
				t.Fatalf("%v in\n%s", err, once)
			}
			if !bytes.Equal(once, again.Marshal()) || s.Hash() != again.Hash() {
				t.Errorf("changed:\n%s\nto\n%s", once, again.Marshal())
			}
			js, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			var third Spec
			if err := json.Unmarshal(js, &third); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(once, third.Marshal()) {
				t.Errorf("JSON changed:\n%s\nto\n%s", once, third.Marshal())
			}
			fourth := Default()
			for _, f := range s.Flags() {
				if err := fourth.Set(f.Name, f.String()); err != nil {
					t.Errorf("--%s=%s: %v", f.Name, f.String(), err)
				}
			}
			if !bytes.Equal(once, fourth.Marshal()) {
				t.Errorf("flags changed:\n%s\nto\n%s", once, fourth.Marshal())
			}
		})
	}
}

func TestHashFollowsSettingsAlone(t *testing.T) {
	base := Default()
	for _, f := range base.Flags() {
		s := Default()
		text := map[string]string{
			"question": "capacity", "acks": "1", "arrivals": "constant", "driver": "kgo", "compression": "zstd", "create": "auto",
			"keys": "uniform(3)", "record-size": "2KiB", "groups": "3", "topic-configs": "a=b", "idempotence": "true",
			"keep-topics": "true", "verify": "off",
		}[f.Name]
		switch f.Type() {
		case "duration":
			text = "17s"
		case "bytes":
			text = "17MiB"
		case "int", "uint64", "float64":
			text = "17"
			if f.Name == "compressibility" {
				text = "0.5"
			}
		}
		if text == "" {
			text = "other"
		}
		if err := s.Set(f.Name, text); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		label := f.Name == "name" || f.Name == "prefix" || f.Name == "seed"
		if same := s.Hash() == base.Hash(); same != label {
			t.Errorf("%s=%s: hash the same is %v, want %v", f.Name, text, same, label)
		}
	}
	if base.Set("lingr", "1ms") == nil {
		t.Error("an unknown setting was set")
	}
}

func TestDefaultIsValid(t *testing.T) {
	s := Default()
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	for _, f := range s.Flags() {
		if f.Usage == "" || f.Type() == "" {
			t.Errorf("flag %s has no usage or type", f.Name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(everySetting)
	f.Add("acks: &a 1\ndriver: *a\n")
	f.Add("a: &a [*a]\n")
	f.Add("topic-configs: {a: b}\n--- \n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("w.yaml", []byte(text))
		if err != nil || s.Validate() != nil {
			return
		}
		again, err := Parse("again.yaml", s.Marshal())
		if err != nil {
			t.Fatalf("%v in\n%s", err, s.Marshal())
		}
		if s.Hash() != again.Hash() {
			t.Errorf("changed:\n%s\nto\n%s", s.Marshal(), again.Marshal())
		}
	})
}

func TestARateMayBeWrittenWithAnExponent(t *testing.T) {
	if s, err := Parse("w.yaml", []byte("rate: 1e6\n")); err != nil || s.Rate != 1e6 {
		t.Errorf("%v", err)
	}
}
