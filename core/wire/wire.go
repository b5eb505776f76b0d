// Package wire frames Kafka requests and responses and holds the hand-written codecs of the two messages that carry
// record batches, Produce (3-13) and Fetch (4-18). All other messages are franz-go's kmsg; the tests hold these codecs to
// kmsg byte for byte.
//
//	frame     = size int32, then size bytes
//	request   = header, body        header v1: key int16, version int16, correlation id int32, client id nullable string
//	                                header v2: the same and tagged fields (flexible versions)
//	response  = header, body        header v0: correlation id int32; header v1: the same and tagged fields
//
// Decoders are views: names and record batches point into the input, slices of the destination are used again, and
// nothing is allocated once they have grown. Every count is bounded by the bytes that are there and by MaxEntries.
// Encoders append to what they are given. Nothing here has state; all of it may be used from any goroutine.
//
// The server's side is in reader.go, header.go, produce.go and fetch.go, a client's in client_*.go.
package wire

import "errors"

// MaxEntries bounds the topics, and the partitions, that one Produce or Fetch request may name.
const MaxEntries = 400_000

// MaxHeaderBytes is what the size and header of a response take at most: size, correlation id, no tagged fields.
const MaxHeaderBytes = 9

// ErrMalformed is any request that is shorter than its fields say, or holds what no client writes.
var ErrMalformed = errors.New("malformed request")
