package logdir

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
)

func tp(name string, n int) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: name, Partition: kafka.Partition(n)}
}

func TestCheckpointsAreKafkasText(t *testing.T) {
	m := map[kafka.TopicPartition]kafka.Offset{tp("a", 0): 5, tp("b-c", 12): 1 << 40}
	var text checkpointText
	text.add(tp("a", 0), 5)
	text.add(tp("b-c", 12), 1<<40)
	b := text.file("name").data
	if string(b) != "0\n2\na 0 5\nb-c 12 1099511627776\n" {
		t.Fatalf("%q", b)
	}
	got, err := parseCheckpoint(b)
	if err != nil || !maps.Equal(got, m) {
		t.Fatal(got, err)
	}
	for _, bad := range []string{"", "1\n0\n", "0\n", "0\n2\na 0 5\n", "0\n1\na 0\n", "0\n1\na -1 5\n", "0\n1\na 0 x\n"} {
		if _, err := parseCheckpoint([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestFolderNames(t *testing.T) {
	for name, want := range map[string]kafka.TopicPartition{"a-0": tp("a", 0), "a-b-17": tp("a-b", 17), "__consumer_offsets-49": tp("__consumer_offsets", 49)} {
		if got, ok := parseFolder(name); !ok || got != want {
			t.Errorf("%s: %v %v", name, got, ok)
		}
	}
	for _, name := range []string{"a", "-1", "a-", "a-x", "a-01", "a-0.abc-delete", "a-0-stray", "__cluster_metadata-0", "a-99999999999"} {
		if got, ok := parseFolder(name); ok {
			t.Errorf("%s is taken for %v", name, got)
		}
	}
}

func sample() []manifestEntry {
	return []manifestEntry{
		{tp("a", 0), &commitlog.Summary{TopicID: kafka.TopicID{1, 2}, Start: 3, End: 99, SnapshotOffset: -1,
			Segments: []commitlog.Segment{{Base: 3, Size: 1000, MaxTimestamp: 1e12, MaxTimestampAt: 50, LastWriteMS: 1e12 + 1}, {Base: 60, Size: 10, MaxTimestamp: -1, MaxTimestampAt: -1}},
			Epochs:   []commitlog.EpochStart{{Epoch: 1, Start: 3}, {Epoch: 4, Start: 60}}, Recovery: 60, Written: 80, Flushed: 70, Left: []byte("left")}},
		{tp("empty", 7), &commitlog.Summary{SnapshotOffset: 12, Producers: true}},
	}
}

func TestManifestsComeBackOrAreRefused(t *testing.T) {
	b := appendManifest(nil, "a boot", sample())
	boot, list, err := parseManifest(b)
	if err != nil || boot != "a boot" || !bytes.Equal(appendManifest(nil, boot, list), b) {
		t.Fatal(list, err)
	}
	for i := range b {
		if _, _, err := parseManifest(b[:i]); err == nil {
			t.Fatalf("cut to %d bytes it is accepted", i)
		}
		bad := bytes.Clone(b)
		bad[i] ^= 4
		if _, _, err := parseManifest(bad); err == nil {
			t.Fatalf("with byte %d wrong it is accepted", i)
		}
	}
}

// FuzzManifest gives any bytes a right checksum, or none but the old would ever get in.
func FuzzManifest(f *testing.F) {
	f.Add(appendManifest(nil, "", sample()))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n := len(b) - 4; n >= 0 {
			b = binary.BigEndian.AppendUint32(bytes.Clone(b[:n]), crc32.Checksum(b[:n], record32C))
		}
		if boot, list, err := parseManifest(b); err == nil {
			if _, again, err := parseManifest(appendManifest(nil, boot, list)); err != nil || len(again) != len(list) {
				t.Fatal("what was read cannot be written", err)
			}
		}
	})
}

// FuzzCheckpoint reads any bytes as each of the folder's files of a few lines.
func FuzzCheckpoint(f *testing.F) {
	f.Add([]byte("0\n1\na 0 5\n"))
	f.Add([]byte("boot\na 0 5 AAAAAAAAAAAAAAAAAAAAAQ\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if list, err := parseCheckpoint(b); err == nil {
			var text checkpointText
			for tp, offset := range list {
				text.add(tp, offset)
			}
			again, err := parseCheckpoint(text.file("").data)
			if err != nil || !maps.Equal(again, list) {
				t.Fatalf("%v came back as %v, %v", list, again, err)
			}
		}
		for tp, p := range parsePoints(b, "boot") {
			if tp.Partition < 0 || p.offset < 0 {
				t.Fatal(tp, p)
			}
		}
		_, _ = parseFolder(string(b))
	})
}
