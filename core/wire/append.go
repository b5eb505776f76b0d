package wire

import (
	"encoding/binary"

	"github.com/tidemark/tidemark/core/kafka"
)

func appendInt16(dst []byte, v int16) []byte { return binary.BigEndian.AppendUint16(dst, uint16(v)) }
func appendInt32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }
func appendInt64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

func appendCount(dst []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(dst, uint64(n+1))
	}
	return appendInt32(dst, int32(n))
}

func appendString(dst, s []byte, flexible bool) []byte {
	if flexible {
		dst = binary.AppendUvarint(dst, uint64(len(s)+1))
	} else {
		dst = appendInt16(dst, int16(len(s)))
	}
	return append(dst, s...)
}

// appendText appends a nullable string; "" is null.
func appendText(dst []byte, s string, flexible bool) []byte {
	if s == "" {
		if flexible {
			return append(dst, 0)
		}
		return append(dst, 0xff, 0xff)
	}
	if flexible {
		dst = binary.AppendUvarint(dst, uint64(len(s)+1))
	} else {
		dst = appendInt16(dst, int16(len(s)))
	}
	return append(dst, s...)
}

func appendNoTags(dst []byte, flexible bool) []byte {
	if flexible {
		return append(dst, 0)
	}
	return dst
}

// appendLeaderTag appends the tagged field CurrentLeader, which Produce and Fetch share but for its number.
func appendLeaderTag(dst []byte, tag byte, id kafka.BrokerID, epoch kafka.LeaderEpoch) []byte {
	dst = append(dst, tag, 9)
	dst = appendInt32(dst, int32(id))
	dst = appendInt32(dst, int32(epoch))
	return append(dst, 0)
}
