package record_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/record"
)

// The files testdata/java-*.batch were written by MemoryRecords of kafka-clients 4.4.0, each with the thousand records
// that javaRecords makes again, under producer 42, epoch 3, base sequence 1000: with the default levels of Kafka's
// codecs, and with level 22 of zstd (a window of 128 MiB) and 17 of lz4.

func javaRecords() []sample {
	out := make([]sample, 1000)
	for i := range out {
		s := sample{ts: now + int64(i*37%1000)}
		if i%7 != 0 {
			s.key = fmt.Appendf(nil, "key-%d", i)
		}
		if i%11 != 0 {
			s.value = bytes.Repeat(fmt.Appendf(nil, "value %d of a thousand, said the producer; ", i), 1+i%5)
		}
		if i%13 == 0 {
			s.headers = []record.Header{{Key: "trace", Value: fmt.Appendf(nil, "id-%d", i)}, {Key: "none"}}
		}
		out[i] = s
	}
	return out
}

func TestJavaBatches(t *testing.T) {
	want := javaRecords()
	for _, name := range []string{"gzip", "snappy", "lz4", "lz4-17", "zstd", "zstd-22"} {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("testdata", "java-"+name+".batch"))
			if err != nil {
				t.Fatal(err)
			}
			sent := bytes.Clone(b)
			v, err := record.Validate(b, policy())
			if err != nil || v.Records != 1000 || v.ProducerID != 42 || v.ProducerEpoch != 3 || v.BaseSequence != 1000 ||
				v.LastSequence != 1999 || v.MaxTimestamp != now+999 || v.MaxTimestampAt != 27 || !bytes.Equal(b, sent) {
				t.Fatalf("%+v, %v, changed %v", v, err, !bytes.Equal(b, sent))
			}
			batch := record.Batch(b)
			if codec, _, _ := strings.Cut(name, "-"); batch.Codec().String() != codec {
				t.Fatalf("codec %s", batch.Codec())
			}
			it, err := batch.Records(nil, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range want {
				if !it.Next() {
					t.Fatalf("ended at record %d: %v", i, it.Err())
				}
				r := it.Record()
				if batch.BaseTimestamp()+r.TimestampDelta != s.ts || !reflect.DeepEqual(r.Key, s.key) ||
					!reflect.DeepEqual(r.Value, s.value) || len(r.Headers) != len(s.headers) {
					t.Fatalf("record %d is %+v, want %+v", i, r, s)
				}
				if len(s.headers) > 0 && !reflect.DeepEqual(r.Headers, s.headers) {
					t.Fatalf("record %d has headers %+v", i, r.Headers)
				}
			}
			if it.Next() || it.Err() != nil {
				t.Fatalf("a record too many, or %v", it.Err())
			}
		})
	}
}

// TestJavaMarker: the marker of Kafka 4 and ours are the same bytes.
func TestJavaMarker(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "java-commit.batch"))
	if err != nil {
		t.Fatal(err)
	}
	c, ok, err := record.ParseControl(b)
	if err != nil || !ok || c != (record.Control{Kind: record.Commit, CoordinatorEpoch: 11}) {
		t.Fatalf("%+v %v %v", c, ok, err)
	}
	if ours := record.AppendControl(nil, record.Commit, 7, 2, 11, now); !bytes.Equal(ours, b) {
		t.Fatalf("ours   %x\nKafka's %x", ours, b)
	}
}

// TestWriteForJava writes what the builder makes of the same records to the folder BATCH_OUT, for Java to read.
func TestWriteForJava(t *testing.T) {
	dir := os.Getenv("BATCH_OUT")
	if dir == "" {
		t.Skip("BATCH_OUT names no folder")
	}
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		b := record.NewBuilder(nil, codec, 0)
		b.Reset(now, 42, 3, 1000, 0)
		for _, s := range javaRecords() {
			b.Append(s.ts, s.key, s.value, s.headers...)
		}
		out, err := b.Finish(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "ours-"+codec.String()+".batch"), out, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
