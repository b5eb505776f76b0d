package commitlog

import (
	"encoding/binary"
	"fmt"

	"github.com/tidemark/tidemark/core/kafka"
)

// txnEntryBytes is the size of a .txnindex entry.
const txnEntryBytes = 34

// AbortedTxn is one entry of a .txnindex file: a transaction whose records, from First to the marker at Last, readers
// of committed data must skip.
type AbortedTxn struct {
	ProducerID       kafka.ProducerID
	First, Last      kafka.Offset
	LastStableOffset kafka.Offset // when the marker was written
}

func (a AbortedTxn) appendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.ProducerID))
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.First))
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.Last))
	return binary.BigEndian.AppendUint64(dst, uint64(a.LastStableOffset))
}

// parseAbortedTxn reads one entry; b has txnEntryBytes.
func parseAbortedTxn(b []byte) (AbortedTxn, error) {
	if v := binary.BigEndian.Uint16(b); v != 0 {
		return AbortedTxn{}, fmt.Errorf("aborted transaction of version %d, only 0 is known: %w", v, ErrCorrupt)
	}
	return AbortedTxn{
		ProducerID:       kafka.ProducerID(binary.BigEndian.Uint64(b[2:])),
		First:            kafka.Offset(binary.BigEndian.Uint64(b[10:])),
		Last:             kafka.Offset(binary.BigEndian.Uint64(b[18:])),
		LastStableOffset: kafka.Offset(binary.BigEndian.Uint64(b[26:])),
	}, nil
}
