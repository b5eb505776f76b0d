package workload

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time that reads and prints as 5ms, 1.5s or 2m. A bare number other than 0 is refused.
type Duration time.Duration

const second = Duration(time.Second)

// D is the same length as the standard library's type.
func (d Duration) D() time.Duration { return time.Duration(d) }

// Nanos is the length in nanoseconds.
func (d Duration) Nanos() int64 { return int64(d) }

// String prints the shortest exact form: 0s, 5ms, 1m30s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// MarshalText is String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what String prints and anything else time.ParseDuration takes.
func (d *Duration) UnmarshalText(b []byte) error {
	s := strings.TrimSpace(string(b))
	v, err := time.ParseDuration(s)
	if err != nil {
		if _, numErr := strconv.ParseFloat(s, 64); numErr == nil {
			return fmt.Errorf("%q needs a unit: ns, us, ms, s, m or h (as in %sms)", s, s)
		}
		return fmt.Errorf("%q is not a length of time (as in 5ms, 1.5s, 2m)", s)
	}
	if v < 0 {
		return fmt.Errorf("%q is negative", s)
	}
	*d = Duration(v)
	return nil
}

// Bytes is a number of bytes that reads and prints as 512B, 1KiB or 16MiB; KB, MB and GB are powers of ten. A bare number
// is bytes.
type Bytes int64

// byteUnits in the order in which String tries them.
var byteUnits = []struct {
	name string
	n    int64
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

// String prints the shortest exact form.
func (b Bytes) String() string {
	if b == 0 {
		return "0B"
	}
	for _, u := range byteUnits {
		if int64(b)%u.n == 0 {
			return strconv.FormatInt(int64(b)/u.n, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// MarshalText is String.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads a size; 1.5KiB is taken where it comes out whole.
func (b *Bytes) UnmarshalText(t []byte) error {
	s := strings.TrimSpace(string(t))
	num, unit := s, int64(1)
	for _, u := range byteUnits {
		if head, ok := cutSuffixFold(s, u.name); ok {
			num, unit = strings.TrimSpace(head), u.n
			break
		}
	}
	if n, err := strconv.ParseInt(num, 10, 64); err == nil {
		if n < 0 || n > math.MaxInt64/unit {
			return fmt.Errorf("size %q is out of range", s)
		}
		*b = Bytes(n * unit)
		return nil
	}
	f, err := strconv.ParseFloat(num, 64)
	if err != nil {
		return fmt.Errorf("%q is not a size (as in 512B, 1KiB, 16MiB)", s)
	}
	v := f * float64(unit)
	if v != math.Trunc(v) || v < 0 || v >= 1<<62 {
		return fmt.Errorf("size %q is not a whole number of bytes", s)
	}
	*b = Bytes(v)
	return nil
}

func cutSuffixFold(s, suffix string) (string, bool) {
	if len(s) < len(suffix) || !strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s, false
	}
	return s[:len(s)-len(suffix)], true
}
