package record

import (
	"errors"

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

// AppendControl appends a control batch with one end-of-transaction marker to dst.
func AppendControl(dst []byte, kind ControlKind, id kafka.ProducerID, epoch kafka.ProducerEpoch, coordinatorEpoch int32, timestampMS int64) []byte {
	return dst
}

// ParseControl reads the marker of a control batch. ok is false for a kind that this version does not know, which
// readers skip.
func ParseControl(b Batch) (c Control, ok bool, err error) { return c, false, errors.ErrUnsupported }
