package workload

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Words of Keys.Kind.
const (
	KeysNone       = "none"
	KeysRoundRobin = "roundrobin"
	KeysUniform    = "uniform"
	KeysZipf       = "zipf"
	KeysHot        = "hot"
)

// DefaultKeyCount is the number of distinct keys where the setting does not name one.
const DefaultKeyCount = 10000

// Keys says which key each record gets. It reads and prints as none, roundrobin(n), uniform(n), zipf(s), zipf(n, s),
// hot(share, fraction) or hot(n, share, fraction).
type Keys struct {
	Kind string // one of the words above; empty is none
	N    int    // distinct keys
	S    float64
	// Share of the records goes to Fraction of the keys, the rest to the others; uniform within both parts.
	Share, Fraction float64
}

// String prints the form that UnmarshalText reads.
func (k Keys) String() string {
	n := ""
	if k.N != DefaultKeyCount {
		n = strconv.Itoa(k.N) + ", "
	}
	switch k.Kind {
	case KeysRoundRobin, KeysUniform:
		return fmt.Sprintf("%s(%d)", k.Kind, k.N)
	case KeysZipf:
		return fmt.Sprintf("zipf(%s%s)", n, number(k.S))
	case KeysHot:
		return fmt.Sprintf("hot(%s%s, %s)", n, number(k.Share), number(k.Fraction))
	}
	return KeysNone
}

// MarshalText is String.
func (k Keys) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what String prints; uniform and roundrobin alone mean DefaultKeyCount keys.
func (k *Keys) UnmarshalText(b []byte) error {
	kind, args, err := call(string(b))
	if err != nil {
		return err
	}
	out := Keys{Kind: kind, N: DefaultKeyCount}
	var tail []*float64
	switch kind {
	case KeysNone, "":
		out = Keys{Kind: KeysNone}
		if len(args) > 0 {
			return fmt.Errorf("keys none takes no arguments")
		}
		*k = out
		return nil
	case KeysRoundRobin, KeysUniform:
	case KeysZipf:
		tail = []*float64{&out.S}
	case KeysHot:
		tail = []*float64{&out.Share, &out.Fraction}
	default:
		return fmt.Errorf("keys %q is none of none, roundrobin(n), uniform(n), zipf([n,] s), hot([n,] share, fraction)%s",
			kind, didYouMean(kind, []string{KeysNone, KeysRoundRobin, KeysUniform, KeysZipf, KeysHot}))
	}
	if len(args) == len(tail)+1 {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return fmt.Errorf("keys %s: %q is not a number of keys", kind, args[0])
		}
		out.N, args = n, args[1:]
	}
	if len(args) != len(tail) {
		return fmt.Errorf("keys %q: wrong number of arguments (zipf([n,] s), hot([n,] share, fraction), uniform(n))", string(b))
	}
	for i, a := range args {
		if *tail[i], err = strconv.ParseFloat(a, 64); err != nil {
			return fmt.Errorf("keys %s: %q is not a number", kind, a)
		}
	}
	if err := out.check(); err != nil {
		return err
	}
	*k = out
	return nil
}

func (k Keys) check() error {
	switch {
	case k.Kind == KeysNone || k.Kind == "":
		return nil
	case k.N < 1 || k.N > 1<<26:
		return fmt.Errorf("keys %s: the number of keys must be 1 to %d", k.Kind, 1<<26)
	case k.Kind == KeysZipf && !(k.S >= 0 && k.S <= 10):
		return fmt.Errorf("keys zipf: s must be 0 to 10, not %v", k.S)
	case k.Kind == KeysHot && !(k.Share >= 0 && k.Share <= 1 && k.Fraction > 0 && k.Fraction <= 1):
		return fmt.Errorf("keys hot: share (0 to 1) of the records goes to fraction (above 0, to 1) of the keys")
	}
	return nil
}

// SizeWeight is one size of a histogram and its weight.
type SizeWeight struct {
	Bytes  int
	Weight float64
}

// Sizes says how long each record's value is. It reads and prints as 1KiB, uniform(100B, 2KiB) (both ends included) or
// histogram(100B:90, 10KiB:10) (weights need not add up to anything).
type Sizes struct {
	Min, Max int          // equal for a fixed size
	Weights  []SizeWeight // histogram; Min and Max are then its extremes
}

// FixedSize is n bytes always.
func FixedSize(n int) Sizes { return Sizes{Min: n, Max: n} }

// Fixed reports whether all records have the same size.
func (z Sizes) Fixed() bool { return z.Min == z.Max }

// Mean is the expected size.
func (z Sizes) Mean() float64 {
	if len(z.Weights) == 0 {
		return float64(z.Min+z.Max) / 2
	}
	sum, weight := 0.0, 0.0
	for _, w := range z.Weights {
		sum, weight = sum+float64(w.Bytes)*w.Weight, weight+w.Weight
	}
	return sum / weight
}

// String prints the form that UnmarshalText reads.
func (z Sizes) String() string {
	if len(z.Weights) > 0 {
		parts := make([]string, len(z.Weights))
		for i, w := range z.Weights {
			parts[i] = Bytes(w.Bytes).String() + ":" + number(w.Weight)
		}
		return "histogram(" + strings.Join(parts, ", ") + ")"
	}
	if z.Fixed() {
		return Bytes(z.Min).String()
	}
	return fmt.Sprintf("uniform(%s, %s)", Bytes(z.Min), Bytes(z.Max))
}

// MarshalText is String.
func (z Sizes) MarshalText() ([]byte, error) { return []byte(z.String()), nil }

// UnmarshalText reads what String prints.
func (z *Sizes) UnmarshalText(b []byte) error {
	kind, args, err := call(string(b))
	if err != nil {
		return err
	}
	var out Sizes
	switch {
	case kind == "uniform" && len(args) == 2:
		if out.Min, err = size(args[0]); err == nil {
			out.Max, err = size(args[1])
		}
	case kind == "histogram" && len(args) > 0:
		err = out.histogram(args)
	case len(args) == 0 && kind != "uniform" && kind != "histogram":
		out.Min, err = size(kind)
		out.Max = out.Min
	default:
		err = fmt.Errorf("%q is not a size: 1KiB, uniform(100B, 2KiB) or histogram(100B:90, 10KiB:10)", string(b))
	}
	if err != nil {
		return err
	}
	if out.Min > out.Max {
		return fmt.Errorf("record sizes %q: the first must not be larger than the second", string(b))
	}
	*z = out
	return nil
}

func (z *Sizes) histogram(args []string) error {
	z.Min = math.MaxInt
	for _, a := range args {
		s, w, ok := strings.Cut(a, ":")
		if !ok {
			return fmt.Errorf("histogram entry %q is not size:weight", a)
		}
		n, err := size(s)
		if err != nil {
			return err
		}
		weight, err := strconv.ParseFloat(strings.TrimSpace(w), 64)
		if err != nil || !(weight > 0) || math.IsInf(weight, 0) {
			return fmt.Errorf("histogram entry %q: the weight must be a number above 0", a)
		}
		z.Weights = append(z.Weights, SizeWeight{n, weight})
		z.Min, z.Max = min(z.Min, n), max(z.Max, n)
	}
	return nil
}

func size(s string) (int, error) {
	var b Bytes
	if err := b.UnmarshalText([]byte(s)); err != nil {
		return 0, err
	}
	if b > 1<<30 {
		return 0, fmt.Errorf("record size %s is above 1GiB", b)
	}
	return int(b), nil
}

// call splits word(a, b) into the word and its arguments.
func call(s string) (word string, args []string, err error) {
	s = strings.TrimSpace(s)
	word, rest, ok := strings.Cut(s, "(")
	if !ok {
		return s, nil, nil
	}
	rest, ok = strings.CutSuffix(rest, ")")
	if !ok || strings.ContainsAny(rest, "()") {
		return "", nil, fmt.Errorf("%q: the brackets do not match", s)
	}
	for _, a := range strings.Split(rest, ",") {
		args = append(args, strings.TrimSpace(a))
	}
	return strings.TrimSpace(word), args, nil
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
