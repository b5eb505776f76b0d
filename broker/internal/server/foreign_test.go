package server

import (
	"encoding/binary"
	"strings"
	"testing"
)

func TestOtherProtocolsAreNamed(t *testing.T) {
	for first, want := range map[string]string{"GET /": "HTTP,", "POST ": "HTTP,", "DELETE": "HTTP,", "PRI * HTTP/2.0": "HTTP/2,",
		"SSH-2.0": "SSH,", "\x16\x03\x01\x02\x00": "TLS,", "\xff\xff\xff\xff": "", "ETPO": "", "zzzz": ""} {
		got := foreign(int(int32(binary.BigEndian.Uint32([]byte(first)))))
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q is taken for %q, want %q", first, got, want)
		}
	}
}
