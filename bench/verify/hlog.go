package verify

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"strings"
)

// counts is a decoded histogram: its buckets that are not empty, from the lowest.
type counts struct {
	buckets []bucket
	total   int64
}

// bucket is how many values are at most upper and above the bucket below.
type bucket struct{ upper, n int64 }

// line is one interval of a histogram log.
type line struct {
	number      int // in the file, from 1
	tag         string
	start, long float64 // seconds
	counts      counts
}

// Bounds of what a log may make this package hold.
const (
	maxLines   = 100_000
	maxBuckets = 1 << 23
)

// parseLog reads an HdrHistogram log 1.3, tags and all. Errors name the line.
func parseLog(text []byte) ([]line, error) {
	var out []line
	last := map[string]float64{}
	for i, s := range strings.Split(string(text), "\n") {
		s = strings.TrimRight(s, "\r")
		if s == "" || s[0] == '#' || s[0] == '"' {
			continue
		}
		if len(out) >= maxLines {
			return nil, fmt.Errorf("line %d: over %d intervals", i+1, maxLines)
		}
		l, err := parseLine(s)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if before, ok := last[l.tag]; ok && l.start < before {
			return nil, fmt.Errorf("line %d: time goes backwards: %.3f after %.3f", i+1, l.start, before)
		}
		last[l.tag], l.number = l.start, i+1
		out = append(out, l)
	}
	return out, nil
}

func parseLine(s string) (l line, err error) {
	if rest, ok := strings.CutPrefix(s, "Tag="); ok {
		tag, after, found := strings.Cut(rest, ",")
		if !found {
			return l, errors.New("a tag without figures")
		}
		l.tag, s = tag, after
	}
	parts := strings.Split(s, ",")
	if len(parts) != 4 {
		return l, fmt.Errorf("%d fields, want start, length, maximum and histogram", len(parts))
	}
	for i, into := range []*float64{&l.start, &l.long} {
		if *into, err = strconv.ParseFloat(parts[i], 64); err != nil {
			return l, err
		}
	}
	raw, err := base64.StdEncoding.DecodeString(parts[3])
	if err != nil {
		return l, fmt.Errorf("histogram: %w", err)
	}
	l.counts, err = decodeHistogram(raw)
	return l, err
}

// decodeHistogram decodes the V2 compressed form (HdrHistogram's EncodableHistogram): two cookies, a deflated payload of a
// head of 40 bytes and counts as ZigZag LEB128, in which a negative number stands for so many empty buckets.
func decodeHistogram(raw []byte) (counts, error) {
	const compressed, plain = 0x1c849304, 0x1c849303
	if len(raw) < 8 || binary.BigEndian.Uint32(raw)&^0xf0 != compressed&^0xf0 {
		return counts{}, errors.New("histogram: not in the V2 compressed encoding")
	}
	z, err := zlib.NewReader(bytes.NewReader(raw[8:]))
	if err != nil {
		return counts{}, fmt.Errorf("histogram: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(z, 16<<20))
	if err != nil {
		return counts{}, fmt.Errorf("histogram: %w", err)
	}
	if len(body) < 40 || binary.BigEndian.Uint32(body)&^0xf0 != plain&^0xf0 {
		return counts{}, errors.New("histogram: its payload is none")
	}
	payload := int64(binary.BigEndian.Uint32(body[4:]))
	digits := int(binary.BigEndian.Uint32(body[12:]))
	lowest := int64(binary.BigEndian.Uint64(body[16:]))
	if digits < 0 || digits > 5 || lowest < 1 || payload < 0 || payload > int64(len(body)-40) {
		return counts{}, fmt.Errorf("histogram: %d digits from %d in %d bytes", digits, lowest, payload)
	}
	var h counts
	upper, index := bucketing(lowest, digits), int64(0)
	for at := body[40 : 40+payload]; len(at) > 0; {
		v, n := zigzag(at)
		if n == 0 {
			return counts{}, errors.New("histogram: cut short")
		}
		at = at[n:]
		switch {
		case v < 0 && v < -maxBuckets || index > maxBuckets:
			return counts{}, errors.New("histogram: too many buckets")
		case v < 0:
			index -= v
			continue
		case h.total+v < h.total:
			return counts{}, errors.New("histogram: counts overflow")
		case v > 0:
			h.buckets = append(h.buckets, bucket{upper(int(index)), v})
			h.total += v
		}
		index++
	}
	return h, nil
}

// bucketing is the value of a bucket: halves of a power-of-two range, each cut into as many parts as the digits want.
func bucketing(lowest int64, digits int) func(int) int64 {
	unit := bits.Len64(uint64(lowest)) - 1
	wanted := int64(2)
	for range digits {
		wanted *= 10
	}
	half := max(bits.Len64(uint64(wanted-1)), 1) - 1 // log2 of the parts in a half
	return func(i int) int64 {
		power, part := (i>>half)-1, i&(1<<half-1)+1<<half
		if power < 0 {
			power, part = 0, part-1<<half
		}
		shift := power + unit
		if shift > 62 {
			return 1<<63 - 1
		}
		return int64(part)<<shift + 1<<shift - 1
	}
}

// zigzag reads one ZigZag LEB128 number of at most nine bytes, the last of which has eight bits.
func zigzag(b []byte) (v int64, n int) {
	var u uint64
	for n < len(b) && n < 9 {
		c := b[n]
		if n == 8 {
			u |= uint64(c) << 56
			n++
			return int64(u>>1) ^ -int64(u&1), n
		}
		u |= uint64(c&0x7f) << (7 * n)
		n++
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), n
		}
	}
	return 0, 0
}

// add merges another histogram.
func (c *counts) add(o counts) {
	a, b := c.buckets, o.buckets
	out := make([]bucket, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].upper < b[0].upper:
			out, a = append(out, a[0]), a[1:]
		case len(a) == 0 || b[0].upper < a[0].upper:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, bucket{a[0].upper, a[0].n + b[0].n}), a[1:], b[1:]
		}
	}
	c.buckets = out
	c.total += o.total
}

// rank returns the value of the n-th of all counted, from 1, and how many lie in its bucket or below.
func (c *counts) rank(n int64) (value, below int64) {
	for _, k := range c.buckets {
		if below += k.n; below >= n {
			return k.upper, below
		}
	}
	return 0, below
}
