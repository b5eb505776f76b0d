package compress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/tidemark/tidemark/core/invariants"
)

// text is n bytes that compress about as well as JSON events do.
func text(n int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, `{"user":%d,"event":"click","at":%d},`, r.IntN(1000), r.Uint64())
	}
	return b.Bytes()[:n]
}

// noise is n bytes that do not compress.
func noise(n int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func inputs() map[string][]byte {
	return map[string][]byte{
		"empty": {}, "one": {7}, "short": text(100), "page": text(4096), "large": text(300_000), "huge": text(3 << 20),
		"noise": noise(200_000), "zeros": make([]byte, 1<<20), "block": text(64 << 10), "block+1": text(64<<10 + 1),
	}
}

func eachCodec(t *testing.T, f func(t *testing.T, c *Codecs, codec Codec)) {
	c := New()
	for codec := None; codec <= Zstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) { f(t, c, codec) })
	}
}

func mustAppend(t testing.TB, c *Codecs, codec Codec, level int, src []byte) []byte {
	t.Helper()
	out, err := c.Append(nil, codec, level, src)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRoundTrip(t *testing.T) {
	eachCodec(t, func(t *testing.T, c *Codecs, codec Codec) {
		for name, src := range inputs() {
			packed, err := c.Append([]byte("head"), codec, 0, src)
			if err != nil || !bytes.HasPrefix(packed, []byte("head")) {
				t.Fatalf("%s: %v", name, err)
			}
			for _, codecs := range []*Codecs{c, c, nil} {
				out, err := codecs.AppendDecompressed([]byte("front"), codec, packed[4:], len(src))
				if err != nil || string(out) != "front"+string(src) {
					t.Fatalf("%s: %d bytes came back as %d, %v", name, len(src), len(out)-5, err)
				}
				r, err := codecs.NewReader(codec, packed[4:], len(src))
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				got, err := io.ReadAll(r)
				if err != nil || !bytes.Equal(got, src) {
					t.Fatalf("%s: Reader gave %d of %d bytes, %v", name, len(got), len(src), err)
				}
				r.Close()
			}
		}
	})
}

func TestLevels(t *testing.T) {
	c, src := New(), text(200_000)
	for _, l := range []struct {
		codec      Codec
		good, evil []int
	}{
		{Gzip, []int{1, 5, 9}, []int{-1, 10}},
		{Snappy, nil, []int{1}},
		{Lz4, []int{1, 8, 9, 10, 17}, []int{-1, 18}},
		{Zstd, []int{-131072, -1, 1, 3, 7, 11, 22}, []int{23, -131073}},
	} {
		for _, level := range l.good {
			out, err := c.AppendDecompressed(nil, l.codec, mustAppend(t, c, l.codec, level, src), len(src))
			if err != nil || !bytes.Equal(out, src) {
				t.Errorf("%s level %d: %v", l.codec, level, err)
			}
		}
		for _, level := range l.evil {
			if _, err := c.Append(nil, l.codec, level, src); err == nil {
				t.Errorf("%s level %d was taken", l.codec, level)
			}
		}
	}
}

func TestOutputBound(t *testing.T) {
	eachCodec(t, func(t *testing.T, c *Codecs, codec Codec) {
		for _, src := range [][]byte{text(100_000), make([]byte, 5<<20), make([]byte, 20<<20)} {
			packed := mustAppend(t, c, codec, 0, src)
			for _, bound := range []int{0, 1, len(src) / 2, len(src) - 1} {
				out, err := c.AppendDecompressed([]byte("x"), codec, packed, bound)
				if !errors.Is(err, ErrTooLarge) || string(out) != "x" {
					t.Fatalf("%d bytes with bound %d: %v", len(src), bound, err)
				}
				r, err := c.NewReader(codec, packed, bound)
				if err == nil {
					var n int64
					n, err = io.Copy(io.Discard, r)
					if n > int64(bound) {
						t.Fatalf("Reader gave %d bytes with bound %d", n, bound)
					}
					r.Close()
				}
				if !errors.Is(err, ErrTooLarge) {
					t.Fatalf("Reader of %d bytes with bound %d: %v", len(src), bound, err)
				}
			}
		}
	})
}

func TestTruncationAtEveryByteIsDamage(t *testing.T) {
	eachCodec(t, func(t *testing.T, c *Codecs, codec Codec) {
		if codec == None {
			t.Skip("any bytes are valid")
		}
		packed := mustAppend(t, c, codec, 0, text(3000))
		for n := range packed {
			if _, err := c.AppendDecompressed(nil, codec, packed[:n], 1<<20); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("cut to %d of %d bytes: %v", n, len(packed), err)
			}
		}
	})
}

func TestTrailingBytesAreDamage(t *testing.T) {
	eachCodec(t, func(t *testing.T, c *Codecs, codec Codec) {
		if codec == None {
			t.Skip("any bytes are valid")
		}
		packed := append(mustAppend(t, c, codec, 0, text(3000)), "trailer!"...)
		if _, err := c.AppendDecompressed(nil, codec, packed, 1<<20); !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	})
}

// xerial frames src as Java's snappy library does, in chunks of at most n bytes.
func xerial(c *Codecs, src []byte, n int) []byte {
	out := append([]byte(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	for len(src) > 0 {
		chunk, _ := c.Append(nil, Snappy, 0, src[:min(n, len(src))])
		src = src[min(n, len(src)):]
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(chunk))), chunk...)
	}
	return out
}

func TestJavaSnappyFraming(t *testing.T) {
	c := New()
	for name, src := range inputs() {
		packed := xerial(c, src, 32<<10)
		joined := append(bytes.Clone(packed), packed...)
		for _, f := range []struct{ packed, want []byte }{{packed, src}, {joined, append(bytes.Clone(src), src...)}} {
			out, err := c.AppendDecompressed(nil, Snappy, f.packed, len(f.want))
			if err != nil || !bytes.Equal(out, f.want) {
				t.Fatalf("%s: %d of %d bytes, %v", name, len(out), len(f.want), err)
			}
		}
	}
	packed := xerial(c, text(1000), 300)
	for n := xerialHeaderBytes + 1; n < len(packed); n++ {
		out, err := c.AppendDecompressed(nil, Snappy, packed[:n], 1<<20)
		if err == nil && len(out)%300 != 0 {
			t.Fatalf("cut to %d bytes inside a chunk: %d bytes and no error", n, len(out))
		}
	}
}

func TestS2RepeatsAreNotSnappy(t *testing.T) {
	// Length 12, literal "abcd", a copy of 4 from offset 4, then S2's repeat of 4.
	s2 := []byte{12, 3 << 2, 'a', 'b', 'c', 'd', 0x01, 4, 0x01, 0}
	if _, err := New().AppendDecompressed(nil, Snappy, s2, 100); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("a repeat of S2 was taken for snappy: %v", err)
	}
	s2[9] = 4
	out, err := New().AppendDecompressed(nil, Snappy, s2, 100)
	if err != nil || string(out) != "abcdabcdabcd" {
		t.Fatalf("%q %v", out, err)
	}
}

// TestForeignLz4Frames reads what pierrec's own frame writer makes, with every option that clients use.
func TestForeignLz4Frames(t *testing.T) {
	c := New()
	for name, src := range inputs() {
		for _, opts := range [][]lz4.Option{
			{},
			{lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(true)},
			{lz4.BlockSizeOption(lz4.Block4Mb), lz4.BlockChecksumOption(true), lz4.SizeOption(uint64(len(src)))},
		} {
			var b bytes.Buffer
			w := lz4.NewWriter(&b)
			if err := w.Apply(opts...); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(src); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			out, err := c.AppendDecompressed(nil, Lz4, b.Bytes(), len(src))
			if err != nil || !bytes.Equal(out, src) {
				t.Fatalf("%s: %d of %d bytes, %v", name, len(out), len(src), err)
			}
		}
		got, err := io.ReadAll(lz4.NewReader(bytes.NewReader(mustAppend(t, c, Lz4, 0, src))))
		if err != nil || !bytes.Equal(got, src) {
			t.Fatalf("%s: pierrec's reader: %v", name, err)
		}
	}
}

// TestLinkedLz4Blocks reads blocks that refer to the one before, as Python's lz4 writes them by default.
func TestLinkedLz4Blocks(t *testing.T) {
	frame := append(binary.LittleEndian.AppendUint32(nil, lz4Magic), 0x40, 0x40)
	frame = append(frame, byte(xxh32(frame[4:])>>8))
	frame = append(binary.LittleEndian.AppendUint32(frame, 10|lz4Stored), "0123456789"...)
	// No literals, a match of 8 from offset 10, then the five literals that end a block.
	block := []byte{0x04, 10, 0, 0x50, 'v', 'w', 'x', 'y', 'z'}
	frame = append(binary.LittleEndian.AppendUint32(frame, uint32(len(block))), block...)
	frame = append(frame, 0, 0, 0, 0)
	out, err := New().AppendDecompressed(nil, Lz4, frame, 1000)
	if err != nil || string(out) != "0123456789"+"01234567"+"vwxyz" {
		t.Fatalf("%q, %v", out, err)
	}
}

func TestLz4WindowKeepsTheLast64KiB(t *testing.T) {
	var s lz4Stream
	all := text(500_000)
	for i, n := 0, 1; i+n < len(all); i, n = i+n, n*7%70_001 {
		s.remember(all[i : i+n])
		if want := all[max(0, i+n-lz4Window) : i+n]; !bytes.Equal(s.window, want) {
			t.Fatalf("after %d bytes the window has %d", i+n, len(s.window))
		}
	}
}

func TestXxh32(t *testing.T) {
	for _, c := range []struct {
		in   string
		want uint32
	}{{"", 0x02CC5D05}, {"a", 0x550D7456}, {"abc", 0x32D153FF}, {"Nobody inspects the spammish repetition", 0xE2293B2F}} {
		if got := xxh32([]byte(c.in)); got != c.want {
			t.Errorf("xxh32(%q) = %08x, want %08x", c.in, got, c.want)
		}
	}
}

// TestZstdOfUnknownSize reads what a streaming encoder writes: no content size, a window that says nothing about the
// content, in the extreme the 128 MiB of level 22.
func TestZstdOfUnknownSize(t *testing.T) {
	c := New()
	for name, src := range inputs() {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithWindowSize(1<<20), zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		for rest := src; ; rest = rest[min(1000, len(rest)):] {
			if _, err := w.Write(rest[:min(1000, len(rest))]); err != nil {
				t.Fatal(err)
			}
			if len(rest) == 0 {
				break
			}
			if len(rest) == len(src) {
				_ = w.Flush() // so that the size cannot be known
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		packed := b.Bytes()
		if len(src) > 0 && packed[4]&zstdSingleSegment == 0 {
			packed[zstdWindowPos] = 17 << 3 // 128 MiB
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, err := c.AppendDecompressed(make([]byte, 0, len(src)), Zstd, packed, max(len(src), 1))
		runtime.ReadMemStats(&after)
		if len(src) == 0 && len(packed) == 0 {
			continue
		}
		if err != nil || !bytes.Equal(out, src) {
			t.Fatalf("%s: %d of %d bytes, %v", name, len(out), len(src), err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
			t.Fatalf("%s: %d MiB were allocated", name, used>>20)
		}
	}
}

func TestLyingSizesDoNotAllocate(t *testing.T) {
	c := New()
	lies := map[Codec][]byte{
		Snappy: {0xff, 0xff, 0xff, 0xff, 0x07, 0x00, 'x'},                                           // 2 GiB
		Zstd:   {0x28, 0xB5, 0x2F, 0xFD, 0xE0, 0, 0, 0, 0x40, 0, 0, 0, 0, 1, 0, 0},                  // 1 GiB, single segment
		Lz4:    append([]byte{4, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73}, 1, 0, 0, 0, 0xf0, 0, 0, 0, 0), // a block of 4 MiB
	}
	for codec, lie := range lies {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.AppendDecompressed(nil, codec, lie, 1<<30)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: no error", codec)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 2<<20 {
			t.Errorf("%s: %d KiB were allocated for a lie (%v)", codec, used>>10, err)
		}
	}
}

func TestCodecNames(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		if got, err := ParseCodec(codec.String()); got != codec || err != nil {
			t.Errorf("%s: %v, %v", codec, got, err)
		}
	}
	if _, err := ParseCodec("lzo"); err == nil {
		t.Error("lzo was taken")
	}
	if _, err := New().NewReader(5, nil, 1); err == nil || Codec(5).String() != "codec(5)" {
		t.Error("codec 5 was taken")
	}
	if _, err := New().Append(nil, -1, 0, nil); err == nil {
		t.Error("codec -1 was taken")
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("sync.Pool drops at random under the race detector")
	}
	eachCodec(t, func(t *testing.T, c *Codecs, codec Codec) {
		src := text(20_000)
		var packed, out []byte
		round := func() {
			packed, _ = c.Append(packed[:0], codec, 0, src)
			out, _ = c.AppendDecompressed(out[:0], codec, packed, len(src))
			r, err := c.NewReader(codec, packed, len(src))
			if err != nil {
				t.Fatal(err)
			}
			for {
				if _, err := r.Next(); err != nil {
					break
				}
			}
			r.Close()
		}
		round()
		if n := testing.AllocsPerRun(200, round); n >= 1 {
			t.Fatalf("%v allocations", n)
		}
	})
}

// FuzzDecompress feeds any bytes to every decoder: no panic, no more than the bound, and both ways agree.
func FuzzDecompress(f *testing.F) {
	c := New()
	for codec := Gzip; codec <= Zstd; codec++ {
		for _, src := range [][]byte{{}, text(50), text(2000), make([]byte, 5000)} {
			f.Add(byte(codec), mustAppend(f, c, codec, 0, src))
		}
	}
	f.Add(byte(Snappy), xerial(c, text(2000), 500))
	f.Fuzz(func(t *testing.T, n byte, src []byte) {
		const bound = 1 << 20
		codec := Codec(n % 5)
		whole, err := c.AppendDecompressed(nil, codec, src, bound)
		if len(whole) > bound {
			t.Fatalf("%d bytes passed the bound", len(whole))
		}
		r, rerr := c.NewReader(codec, src, bound)
		if rerr != nil {
			if err == nil {
				t.Fatalf("AppendDecompressed took what NewReader refuses: %v", rerr)
			}
			return
		}
		defer r.Close()
		streamed, rerr := io.ReadAll(r)
		if (err == nil) != (rerr == nil) || err == nil && !bytes.Equal(whole, streamed) {
			t.Fatalf("%d bytes, %v against %d bytes, %v", len(whole), err, len(streamed), rerr)
		}
	})
}

// FuzzRoundTrip compresses any bytes and takes them back.
func FuzzRoundTrip(f *testing.F) {
	c := New()
	f.Add(byte(1), []byte("some text, some text"))
	f.Fuzz(func(t *testing.T, n byte, src []byte) {
		codec := Codec(n % 5)
		out, err := c.AppendDecompressed(nil, codec, mustAppend(t, c, codec, 0, src), len(src))
		if err != nil || !bytes.Equal(out, src) {
			t.Fatalf("%s: %v", codec, err)
		}
	})
}

func BenchmarkCodecs(b *testing.B) {
	c, src := New(), text(16<<10)
	for codec := Gzip; codec <= Zstd; codec++ {
		packed := mustAppend(b, c, codec, 0, src)
		var out []byte
		b.Run("op=compress/codec="+codec.String(), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				out, _ = c.Append(out[:0], codec, 0, src)
			}
			b.ReportMetric(float64(len(src))/float64(len(out)), "ratio")
		})
		b.Run("op=decompress/codec="+codec.String(), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				out, _ = c.AppendDecompressed(out[:0], codec, packed, len(src))
			}
		})
	}
}
