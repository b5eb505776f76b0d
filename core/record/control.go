package record

import (
	"encoding/binary"
	"fmt"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
)

// ControlKind is what a control batch says.
type ControlKind int16

// Kinds of control records that partitions hold.
const (
	Abort  ControlKind = 0
	Commit ControlKind = 1
)

// Control is the marker that ends a transaction.
type Control struct {
	Kind             ControlKind
	CoordinatorEpoch int32
}

// Lengths of Kafka's EndTxnMarker, version 0: the key is version int16 and kind int16, the value version int16 and
// coordinator epoch int32.
const (
	controlKeyBytes   = 4
	controlValueBytes = 6
)

// AppendControl appends a control batch with one end-of-transaction marker to dst: transactional, without sequence,
// base offset 0 and leader epoch -1 for the log to patch.
func AppendControl(dst []byte, kind ControlKind, id kafka.ProducerID, epoch kafka.ProducerEpoch, coordinatorEpoch int32, timestampMS int64) []byte {
	var key [controlKeyBytes]byte
	binary.BigEndian.PutUint16(key[2:], uint16(kind))
	var value [controlValueBytes]byte
	binary.BigEndian.PutUint32(value[2:], uint32(coordinatorEpoch))
	start := len(dst)
	var header [HeaderBytes]byte
	dst = append(dst, header[:]...)
	dst = appendRecord(dst, 0, 0, key[:], value[:], nil)
	b := Batch(dst[start:])
	binary.BigEndian.PutUint64(b[posBaseTimestamp:], uint64(timestampMS))
	b.seal(TransactionalBit|ControlBit, 1, timestampMS, id, epoch, NoSequence)
	return dst
}

// ParseControl reads the marker of a control batch. ok is false for a kind or version that this program does not know,
// which readers skip. ErrCorrupt when b is no control batch or its record breaks the format.
func ParseControl(b Batch) (c Control, ok bool, err error) {
	if len(b) < HeaderBytes || !b.IsControl() || b.Codec() != compress.None || b.NumRecords() < 1 {
		return c, false, fmt.Errorf("%w: not a control batch", ErrCorrupt)
	}
	var rec Record
	if _, ok := rec.parse(b[HeaderBytes:], 0); !ok {
		return c, false, fmt.Errorf("%w: control record", ErrCorrupt)
	}
	if len(rec.Key) < controlKeyBytes {
		return c, false, fmt.Errorf("%w: control record with a key of %d bytes", ErrCorrupt, len(rec.Key))
	}
	if version := int16(binary.BigEndian.Uint16(rec.Key)); version < 0 {
		return c, false, fmt.Errorf("%w: control record of version %d", ErrCorrupt, version)
	}
	c.Kind = ControlKind(binary.BigEndian.Uint16(rec.Key[2:]))
	if c.Kind != Abort && c.Kind != Commit {
		return Control{}, false, nil
	}
	if len(rec.Value) < controlValueBytes || int16(binary.BigEndian.Uint16(rec.Value)) < 0 {
		return Control{}, false, fmt.Errorf("%w: end-of-transaction marker with a value of %d bytes", ErrCorrupt, len(rec.Value))
	}
	c.CoordinatorEpoch = int32(binary.BigEndian.Uint32(rec.Value[2:]))
	return c, true, nil
}
