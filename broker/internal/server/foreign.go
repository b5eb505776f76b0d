package server

import (
	"encoding/binary"
	"slices"
	"strings"
)

// foreign guesses which other protocol a client speaks whose first four bytes make an impossible size.
func foreign(size int) string {
	first := string(binary.BigEndian.AppendUint32(nil, uint32(size)))
	name := ""
	switch {
	case strings.HasPrefix(first, "\x16\x03"):
		name = "TLS"
	case first == "SSH-":
		name = "SSH"
	case first == "PRI ":
		name = "HTTP/2"
	case slices.Contains([]string{"GET ", "POST", "PUT ", "HEAD", "OPTI", "DELE", "PATC", "CONN", "TRAC"}, first):
		name = "HTTP"
	default:
		return ""
	}
	return ": it looks like " + name + ", which is not spoken on this port"
}
