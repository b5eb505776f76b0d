package commitlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strings"

	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
)

// DumpOptions says how much Dump prints.
type DumpOptions struct {
	Deep bool // of a .log: the records, not the batches alone
	Data bool // with Deep: keys and values
}

// Dump prints a file of a partition's folder, or every file of a folder in order: .log, .index, .timeindex, .txnindex,
// .snapshot, leader-epoch-checkpoint and partition.metadata. Where a file is damaged a line names the position and
// the reason, the next file goes on, and the error wraps ErrDamaged.
func Dump(w io.Writer, fsys vfs.FS, name string, o DumpOptions) error {
	st, err := fsys.Stat(name)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	d := dumper{w: out, fs: fsys, o: o}
	if !st.IsDir {
		err = d.file(name)
	} else {
		var infos []vfs.Info
		if infos, err = fsys.ReadDir(name); err == nil {
			err = d.folder(name, infos)
		}
	}
	return errors.Join(err, out.Flush())
}

type dumper struct {
	w  *bufio.Writer
	fs vfs.FS
	o  DumpOptions
}

func (d *dumper) folder(name string, infos []vfs.Info) error {
	var failed error
	found := false
	for _, st := range infos {
		if d.printer(st.Name) == nil {
			continue
		}
		found = true
		err := d.file(path.Join(name, st.Name))
		if err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
		failed = errors.Join(failed, err)
	}
	if !found {
		return fmt.Errorf("%s: no file of a partition in this folder; give a partition's own folder, TOPIC-NUMBER, or a file of it", name)
	}
	return failed
}

// printer picks how a file is printed by its name, nil for one that Dump does not know.
func (d *dumper) printer(name string) func(name string) error {
	name = strings.TrimSuffix(path.Base(name), suffixDeleted)
	switch {
	case strings.HasSuffix(name, kindLog.suffix()):
		return d.log
	case strings.HasSuffix(name, kindIndex.suffix()):
		return func(n string) error { return d.entries(n, offsetEntryBytes, d.offsetEntry) }
	case strings.HasSuffix(name, kindTime.suffix()):
		return func(n string) error { return d.entries(n, timeEntryBytes, d.timeEntry) }
	case strings.HasSuffix(name, kindTxn.suffix()):
		return func(n string) error { return d.entries(n, txnEntryBytes, d.txnEntry) }
	case strings.HasSuffix(name, suffixSnapshot):
		return d.snapshot
	case name == epochsFile:
		return d.epochs
	case name == metadataFile:
		return d.metadata
	}
	return nil
}

// file prints one file under its name.
func (d *dumper) file(name string) error {
	print := d.printer(name)
	if print == nil {
		return fmt.Errorf("%s: not a file of a partition's folder; give a .log, .index, .timeindex, .txnindex, .snapshot, %s or %s", name, epochsFile, metadataFile)
	}
	fmt.Fprintln(d.w, name)
	err := print(name)
	if err != nil && isDamage(err) {
		fmt.Fprintf(d.w, "  DAMAGED %v\n", err)
		err = fmt.Errorf("%s: %w: %w", name, ErrDamaged, err)
	}
	return err
}

func isDamage(err error) bool {
	return errors.Is(err, ErrCorrupt) || errors.Is(err, errTorn) || errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrShort) ||
		errors.Is(err, vfs.ErrTooLarge)
}

// log prints the batches of a segment.
func (d *dumper) log(name string) error {
	f, err := d.fs.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	pool := buf.NewPool()
	sc := newScanner(f, size, pool, scanChunk)
	defer sc.close()
	next := kafka.Offset(0)
	if base, _, ok := parseOffsetName(path.Base(name)); ok {
		next = base
	}
	for pos := int64(0); ; {
		b, err := sc.batch(pos)
		if err == io.EOF {
			return nil
		}
		if isDamage(err) && size-pos <= MaxRoom {
			if room, zerr := onlyZeros(f, pool, pos, size); zerr == nil && room {
				fmt.Fprintf(d.w, "  position %d: %d bytes of zeros, room that a running or killed broker keeps ahead of its appends\n", pos, size-pos)
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("at %d of %d: %w", pos, size, err)
		}
		crc := b.ComputeCRC()
		fmt.Fprintf(d.w, "  position %d size %d offsets %d..%d records %d leader epoch %d codec %s time %s %d..%d producer %d epoch %d sequence %d..%d%s crc %08x\n",
			pos, len(b), b.BaseOffset(), b.LastOffset(), b.NumRecords(), b.PartitionLeaderEpoch(), b.Codec(), timeName(b), b.BaseTimestamp(), b.MaxTimestamp(),
			b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.LastSequence(), flagNames(b), b.CRC())
		if crc != b.CRC() {
			return fmt.Errorf("at %d: CRC is %08x, the content has %08x: %w", pos, b.CRC(), crc, ErrCorrupt)
		}
		if b.BaseOffset() < next {
			return fmt.Errorf("at %d: offset %d comes after offset %d: %w", pos, b.BaseOffset(), next-1, ErrCorrupt)
		}
		next = b.LastOffset() + 1
		if d.o.Deep {
			if err := d.records(b); err != nil {
				return fmt.Errorf("at %d: %w: %w", pos, err, ErrCorrupt)
			}
		}
		pos += int64(len(b))
	}
}

func timeName(b record.Batch) string {
	if b.TimestampType() == record.LogAppendTime {
		return "append"
	}
	return "create"
}

func flagNames(b record.Batch) string {
	s := ""
	if b.IsTransactional() {
		s += " transactional"
	}
	if b.IsControl() {
		s += " control"
	}
	return s
}

// records prints the records of a batch.
func (d *dumper) records(b record.Batch) error {
	if b.IsControl() {
		c, ok, err := record.ParseControl(b)
		if err != nil {
			return err
		}
		kind := map[record.ControlKind]string{record.Abort: "abort", record.Commit: "commit"}[c.Kind]
		if !ok {
			kind = "of an unknown kind"
		}
		fmt.Fprintf(d.w, "    offset %d marker %s coordinator epoch %d\n", b.BaseOffset(), kind, c.CoordinatorEpoch)
		return nil
	}
	it, err := b.Records(nil, math.MaxInt32)
	if err != nil {
		return err
	}
	for it.Next() {
		r := it.Record()
		fmt.Fprintf(d.w, "    offset %d time %d key %s value %s headers %d", b.BaseOffset()+kafka.Offset(r.OffsetDelta), b.BaseTimestamp()+r.TimestampDelta, sizeOf(r.Key), sizeOf(r.Value), len(r.Headers))
		if d.o.Data {
			fmt.Fprintf(d.w, " %q %q", r.Key, r.Value)
			for _, h := range r.Headers {
				fmt.Fprintf(d.w, " %s=%q", h.Key, h.Value)
			}
		}
		fmt.Fprintln(d.w)
	}
	return it.Err()
}

func sizeOf(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%d bytes", len(b))
}

// entries prints an index of fixed-size entries.
func (d *dumper) entries(name string, size int, show func(base kafka.Offset, b []byte) error) error {
	b, err := vfs.ReadFile(d.fs, name, 1<<30)
	if err != nil {
		return err
	}
	base, _, _ := parseOffsetName(path.Base(name))
	for pos := 0; pos < len(b); pos += size {
		if len(b)-pos < size {
			return fmt.Errorf("at %d: %d bytes are left, an entry has %d: %w", pos, len(b)-pos, size, errTorn)
		}
		if err := show(base, b[pos:pos+size]); err != nil {
			return fmt.Errorf("at %d: %w", pos, err)
		}
	}
	return nil
}

func (d *dumper) offsetEntry(base kafka.Offset, b []byte) error {
	e := parseOffsetEntry(b)
	if e.pos <= 0 || e.rel < 0 {
		return fmt.Errorf("entry is offset %d position %d: %w", int64(base)+int64(e.rel), e.pos, ErrCorrupt)
	}
	fmt.Fprintf(d.w, "  offset %d position %d\n", int64(base)+int64(e.rel), e.pos)
	return nil
}

func (d *dumper) timeEntry(base kafka.Offset, b []byte) error {
	e := parseTimeEntry(b)
	if e.ts < 0 || e.rel < 0 || e.ts == 0 && e.rel == 0 {
		return fmt.Errorf("entry is timestamp %d offset %d: %w", e.ts, int64(base)+int64(e.rel), ErrCorrupt)
	}
	fmt.Fprintf(d.w, "  timestamp %d offset %d\n", e.ts, int64(base)+int64(e.rel))
	return nil
}

func (d *dumper) txnEntry(_ kafka.Offset, b []byte) error {
	a, err := parseAbortedTxn(b)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.w, "  producer %d offsets %d..%d last stable offset %d\n", a.ProducerID, a.First, a.Last, a.LastStableOffset)
	return nil
}

func (d *dumper) snapshot(name string) error {
	b, err := vfs.ReadFile(d.fs, name, 1<<30)
	if err != nil {
		return err
	}
	list, err := parseSnapshot(b)
	for _, s := range list {
		fmt.Fprintf(d.w, "  producer %d epoch %d last sequence %d last offset %d offset delta %d timestamp %d coordinator epoch %d transaction from %d\n",
			s.ID, s.Epoch, s.LastSequence, s.LastOffset, s.OffsetDelta, s.Timestamp, s.CoordinatorEpoch, s.TxnFirstOffset)
	}
	return err
}

func (d *dumper) epochs(name string) error {
	b, err := vfs.ReadFile(d.fs, name, maxMetaBytes)
	if err != nil {
		return err
	}
	list, err := parseEpochs(b)
	for _, e := range list {
		fmt.Fprintf(d.w, "  leader epoch %d from offset %d\n", e.Epoch, e.Start)
	}
	return err
}

func (d *dumper) metadata(name string) error {
	b, err := vfs.ReadFile(d.fs, name, 4096)
	if err != nil {
		return err
	}
	id, err := parseTopicID(b)
	if err == nil {
		fmt.Fprintf(d.w, "  topic id %s\n", id)
	}
	return err
}
