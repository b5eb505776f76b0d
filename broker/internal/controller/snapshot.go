package controller

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
)

// A snapshot is the image at one entry of the log, in a file named for it, END-TERM.checkpoint, END being the offset
// behind the entry, as Kafka names its own. The bytes:
//
//	magic    8 bytes "tidemeta"
//	version  uvarint, 0
//	index    uvarint, of the last entry that the image holds
//	term     uvarint, of that entry
//	records  uvarint, how many follow: { length uvarint, metadata record }
//	crc      4 bytes big endian, CRC-32C of all before it
//
// It is written under another name, synced and renamed, so a file of that name is whole unless the disk has damaged it.
type snapshot struct {
	index, term uint64
	image       *metadata.Image
	load        *metadata.Load // that has made the image, when it was read
	bytes       int            // of its file, once it was read or written
}

const (
	snapshotMagic   = "tidemeta"
	snapshotVersion = 0
	snapshotSuffix  = ".checkpoint"
	// maxSnapshotBytes bounds what is read at start: a million partitions take a tenth of it.
	maxSnapshotBytes = 1 << 30
	// kafkaMagicAt is where Kafka's own snapshots, which are record batches, have their magic.
	kafkaMagicAt = 16
)

var errSnapshot = errors.New("the snapshot is damaged")

func (s snapshot) encode() []byte {
	var records, one []byte
	n := uint64(0)
	for r := range s.image.Records {
		one = metadata.AppendRecord(one[:0], r)
		records = append(binary.AppendUvarint(records, uint64(len(one))), one...)
		n++
	}
	out := append(make([]byte, 0, len(records)+64), snapshotMagic...)
	for _, v := range []uint64{snapshotVersion, s.index, s.term, n} {
		out = binary.AppendUvarint(out, v)
	}
	out = append(out, records...)
	return binary.BigEndian.AppendUint32(out, castagnoli(out))
}

func decodeSnapshot(b []byte) (s snapshot, err error) {
	if len(b) < len(snapshotMagic)+4 || string(b[:len(snapshotMagic)]) != snapshotMagic {
		return s, fmt.Errorf("%w: it does not begin as one", errSnapshot)
	}
	body, sum := b[:len(b)-4], b[len(b)-4:]
	if castagnoli(body) != binary.BigEndian.Uint32(sum) {
		return s, fmt.Errorf("%w: the checksum is wrong", errSnapshot)
	}
	var head [4]uint64
	body = body[len(snapshotMagic):]
	for i := range head {
		v, n := binary.Uvarint(body)
		if n <= 0 {
			return s, fmt.Errorf("%w: it ends within its head", errSnapshot)
		}
		head[i], body = v, body[n:]
	}
	if head[0] != snapshotVersion {
		return s, fmt.Errorf("%w: version %d, this program knows %d", errSnapshot, head[0], snapshotVersion)
	}
	s.index, s.term = head[1], head[2]
	s.load = metadata.NewLoad()
	at, records := int64(offsetOf(s.index)), uint64(0)
	for ; len(body) > 0; records++ {
		n, k := binary.Uvarint(body)
		if k <= 0 || n > uint64(len(body)-k) {
			return s, fmt.Errorf("%w: it ends within a record", errSnapshot)
		}
		if err := s.load.Decode(body[k:k+int(n)], at); err != nil {
			return s, fmt.Errorf("%w: %w", errSnapshot, err)
		}
		body = body[k+int(n):]
	}
	if records != head[3] {
		return s, fmt.Errorf("%w: %d records, its head says %d", errSnapshot, records, head[3])
	}
	if s.image, err = s.load.Image(at); err != nil {
		return s, fmt.Errorf("%w: %w", errSnapshot, err)
	}
	return s, nil
}

func (s snapshot) name() string {
	return fmt.Sprintf("%020d-%010d%s", s.index, s.term, snapshotSuffix)
}

// write puts the snapshot into a folder, durably. One that has more than mostBytes is not written: without it the next start takes what
// it would have said from the log, and with it there would be none.
func (s *snapshot) write(fsys vfs.FS, dir string, mostBytes int64) error {
	b := s.encode()
	s.bytes = len(b)
	if int64(len(b)) > mostBytes {
		return fmt.Errorf("%s/%s would have %d bytes, and a start reads no more than %d: delete topics or settings", dir, s.name(), len(b), mostBytes)
	}
	return vfs.ReplaceFile(fsys, dir+"/"+s.name(), b, true)
}

// parseSnapshotName gives the index and the term of a snapshot's file.
func parseSnapshotName(name string) (index uint64, ok bool) {
	rest, ok := strings.CutSuffix(name, snapshotSuffix)
	if !ok || len(rest) != 31 || rest[20] != '-' {
		return 0, false
	}
	index, err := strconv.ParseUint(rest[:20], 10, 64)
	_, err2 := strconv.ParseUint(rest[21:], 10, 64)
	return index, err == nil && err2 == nil
}

// listSnapshots names the snapshots of a folder, the newest first.
func listSnapshots(fsys vfs.FS, dir string) ([]string, error) {
	infos, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, i := range infos {
		if _, ok := parseSnapshotName(i.Name); ok {
			names = append(names, i.Name)
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	return names, err
}

// loadSnapshot reads the newest snapshot of a folder; without one it is the empty image. A damaged one is an error: the
// log does not reach back behind it.
func loadSnapshot(fsys vfs.FS, dir string) (snapshot, error) {
	names, err := listSnapshots(fsys, dir)
	if err != nil || len(names) == 0 {
		return snapshot{image: metadata.Empty(), load: metadata.NewLoad()}, err
	}
	name := dir + "/" + names[0]
	b, err := vfs.ReadFile(fsys, name, maxSnapshotBytes)
	if err != nil {
		return snapshot{}, err
	}
	s, err := decodeSnapshot(b)
	if err != nil && len(b) > kafkaMagicAt && !strings.HasPrefix(string(b), snapshotMagic) && b[kafkaMagicAt] == record.Magic {
		err = errKafkas
	}
	if err != nil {
		return s, fmt.Errorf("read %s: %w", name, err)
	}
	s.bytes = len(b)
	return s, nil
}

// removeOldSnapshots removes all snapshots but the newest.
func removeOldSnapshots(fsys vfs.FS, dir string) error {
	names, err := listSnapshots(fsys, dir)
	for i, name := range names {
		if i > 0 {
			err = errors.Join(err, fsys.Remove(dir+"/"+name))
		}
	}
	return err
}
