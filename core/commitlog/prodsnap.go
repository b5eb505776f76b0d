package commitlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/tidemark/tidemark/core/kafka"
)

// Layout of a producer snapshot.
const (
	snapshotVersion    = 1
	snapshotHeader     = 10 // version, CRC, count
	snapshotCRCStart   = 6
	snapshotEntryBytes = 46
)

// snapshot encodes the producers as they were before anything was staged: a roll happens inside the Append whose
// batches are staged already and belong behind it. A nil Producers has no entries.
func (p *Producers) snapshot() []byte {
	var list []ProducerState
	if p != nil {
		before := map[kafka.ProducerID]*undoStage{}
		for i := len(p.undo) - 1; i >= 0; i-- {
			before[p.undo[i].was.id] = &p.undo[i]
		}
		list = p.Active()
		kept := list[:0]
		for _, s := range list {
			if u := before[s.ID]; u != nil {
				if u.fresh {
					continue
				}
				s = u.was.describe()
			}
			kept = append(kept, s)
		}
		list = kept
	}
	return appendSnapshot(nil, list)
}

// appendSnapshot encodes a .snapshot file.
func appendSnapshot(dst []byte, list []ProducerState) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, snapshotVersion)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(list)))
	for _, s := range list {
		dst = binary.BigEndian.AppendUint64(dst, uint64(s.ID))
		dst = binary.BigEndian.AppendUint16(dst, uint16(s.Epoch))
		dst = binary.BigEndian.AppendUint32(dst, uint32(s.LastSequence))
		dst = binary.BigEndian.AppendUint64(dst, uint64(s.LastOffset))
		dst = binary.BigEndian.AppendUint32(dst, uint32(s.OffsetDelta))
		dst = binary.BigEndian.AppendUint64(dst, uint64(s.Timestamp))
		dst = binary.BigEndian.AppendUint32(dst, uint32(s.CoordinatorEpoch))
		dst = binary.BigEndian.AppendUint64(dst, uint64(s.TxnFirstOffset))
	}
	crc := crc32.Checksum(dst[start+snapshotCRCStart:], crc32.MakeTable(crc32.Castagnoli))
	binary.BigEndian.PutUint32(dst[start+2:], crc)
	return dst
}

// parseSnapshot reads a .snapshot file. Errors name the position.
func parseSnapshot(b []byte) ([]ProducerState, error) {
	if len(b) < snapshotHeader {
		return nil, fmt.Errorf("at %d: the header is cut short: %w", len(b), ErrCorrupt)
	}
	if v := binary.BigEndian.Uint16(b); v != snapshotVersion {
		return nil, fmt.Errorf("at 0: version is %d, only %d is known: %w", v, snapshotVersion, ErrCorrupt)
	}
	want := binary.BigEndian.Uint32(b[2:])
	if got := crc32.Checksum(b[snapshotCRCStart:], crc32.MakeTable(crc32.Castagnoli)); got != want {
		return nil, fmt.Errorf("at 2: CRC is %08x, the content has %08x: %w", want, got, ErrCorrupt)
	}
	n := int64(int32(binary.BigEndian.Uint32(b[6:])))
	if n < 0 || n*snapshotEntryBytes != int64(len(b)-snapshotHeader) {
		return nil, fmt.Errorf("at 6: count is %d, there are %d bytes of entries: %w", n, len(b)-snapshotHeader, ErrCorrupt)
	}
	list := make([]ProducerState, n)
	for i := range list {
		e := b[snapshotHeader+i*snapshotEntryBytes:]
		list[i] = ProducerState{
			ID:               kafka.ProducerID(binary.BigEndian.Uint64(e)),
			Epoch:            kafka.ProducerEpoch(binary.BigEndian.Uint16(e[8:])),
			LastSequence:     int32(binary.BigEndian.Uint32(e[10:])),
			LastOffset:       kafka.Offset(binary.BigEndian.Uint64(e[14:])),
			OffsetDelta:      int32(binary.BigEndian.Uint32(e[22:])),
			Timestamp:        int64(binary.BigEndian.Uint64(e[26:])),
			CoordinatorEpoch: int32(binary.BigEndian.Uint32(e[34:])),
			TxnFirstOffset:   kafka.Offset(binary.BigEndian.Uint64(e[38:])),
		}
	}
	return list, nil
}
