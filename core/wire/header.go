package wire

import "encoding/binary"

// RequestHeader is the header of a request as a view.
type RequestHeader struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      []byte // nil is null
}

// ParseHeader takes a request's header off a frame (without its size) and gives the body. flexible says for a key and
// version whether tagged fields end the header (v2).
func ParseHeader(frame []byte, flexible func(key, version int16) bool) (h RequestHeader, body []byte, err error) {
	r := reader{b: frame}
	h.Key, h.Version, h.CorrelationID = r.int16(), r.int16(), r.int32()
	h.ClientID = r.nullableString(false)
	if r.bad {
		return h, nil, ErrMalformed
	}
	r.skipTags(flexible(h.Key, h.Version))
	if r.bad {
		return h, nil, ErrMalformed
	}
	return h, r.b, nil
}

// AppendResponseHeader appends room for the frame's size, and the response's header; tags says whether it ends with
// (no) tagged fields. FinishFrame fills in the size.
func AppendResponseHeader(dst []byte, correlationID int32, tags bool) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = appendInt32(dst, correlationID)
	return appendNoTags(dst, tags)
}

// FinishFrame writes the size of a frame that begins with room for it and has more bytes to follow elsewhere.
func FinishFrame(frame []byte, more int) {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4+more))
}
