package record_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/core/record"
)

// TestRdkafkaBatches: the files testdata/rdkafka-*.batch were sent by librdkafka 2.0.2, a thousand lines in one batch
// or several; a file holds the last of them, so the records count up to the thousandth.
func TestRdkafkaBatches(t *testing.T) {
	for _, codec := range []string{"gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("testdata", "rdkafka-"+codec+".batch"))
			if err != nil {
				t.Fatal(err)
			}
			p := policy()
			p.AfterMaxMS = math.MaxInt64
			v, err := record.Validate(b, p)
			if err != nil || v.Codec.String() != codec {
				t.Fatalf("%+v, %v", v, err)
			}
			it, err := record.Batch(b).Records(nil, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			for i := 1000 - v.Records; it.Next(); i++ {
				key, value := fmt.Appendf(nil, "key-%d", i), fmt.Sprintf("value %d of a thousand, said the producer; ", i)
				if r := it.Record(); !bytes.Equal(r.Key, key) || !strings.HasPrefix(string(r.Value), value) {
					t.Fatalf("record %d: %q %q", i, r.Key, r.Value)
				}
			}
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
		})
	}
}
