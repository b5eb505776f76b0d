package e2e

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/proc"
)

// TestAdvertisedVersions: the ranges of Kafka 4.4, key by key, and no API whose handler is not there.
func TestAdvertisedVersions(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	want := map[int16][2]int16{0: {0, 13}, 1: {4, 18}, 2: {1, 11}, 3: {0, 13}, 8: {2, 10}, 9: {1, 10}, 10: {0, 6}, 11: {0, 9}, 12: {0, 4},
		13: {0, 5}, 14: {0, 5}, 15: {0, 6}, 16: {0, 5}, 18: {0, 5}, 19: {2, 7}, 20: {1, 6}, 21: {0, 2}, 22: {0, 5}, 23: {2, 4}, 32: {1, 4}, 33: {0, 2},
		35: {1, 5}, 37: {0, 3}, 42: {0, 3}, 44: {0, 1}, 47: {0, 0}, 55: {0, 2}, 57: {0, 2}, 60: {0, 2}, 61: {0, 0}, 74: {0, 1}, 75: {0, 0}}
	for version := range int16(6) {
		r := kmsg.NewPtrApiVersionsRequest()
		r.Version, r.ClientSoftwareName, r.ClientSoftwareVersion = version, "e2e", "1.0"
		resp := ask[*kmsg.ApiVersionsResponse](dial(t, b.Addr), r)
		if resp.ErrorCode != 0 {
			t.Errorf("version %d: error %d", version, resp.ErrorCode)
		}
		got := map[int16]bool{}
		for _, k := range resp.ApiKeys {
			got[k.ApiKey] = true
			if w, ok := want[k.ApiKey]; ok && w != [2]int16{k.MinVersion, k.MaxVersion} {
				t.Errorf("version %d: %s is served from %d to %d, want %v", version, kmsg.NameForKey(k.ApiKey), k.MinVersion, k.MaxVersion, w)
			}
		}
		for key := range want {
			if !got[key] {
				t.Errorf("version %d: %s is not there", version, kmsg.NameForKey(key))
			}
		}
	}
}

// TestUnknownVersions: ApiVersions of the future gets error 35 in version 0 with its own key, and its connection lives on;
// any other unsupported version or key closes the connection, and no other one.
func TestUnknownVersions(t *testing.T) {
	log := &logText{}
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir(), Stderr: log})
	bystander := dial(t, b.Addr)
	bystander.alive()

	w := dial(t, b.Addr)
	future := raw(18, 77, "\x00\x03e2e\x00whatever version 77 may hold")
	if _, err := w.Write(future); err != nil {
		t.Fatal(err)
	}
	asked := kmsg.NewPtrApiVersionsRequest() // version 0
	w.read = 6                               // raw's correlation id is 7
	resp := answer[*kmsg.ApiVersionsResponse](w, asked)
	if resp.ErrorCode != 35 || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 || resp.ApiKeys[0].MaxVersion != 5 {
		t.Errorf("the answer to a future version is %+v", resp)
	}
	w.sent = 7
	w.alive()

	for _, c := range []struct {
		name         string
		key, version int16
	}{
		{"Produce 2", 0, 2}, {"Produce 14", 0, 14}, {"Fetch 3", 1, 3}, {"Fetch 19", 1, 19}, {"Metadata 14", 3, 14}, {"Metadata -1", 3, -1},
		{"LeaderAndIsr 0", 4, 0}, {"SaslHandshake 1", 17, 1}, {"key 999", 999, 0}, {"key -1", -1, 0}, {"key 32767", 32767, 32767},
	} {
		w := dial(t, b.Addr)
		if _, err := w.Write(raw(c.key, c.version, "\x00\x03e2e\x00\x00\x00\x00")); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		w.closes()
		if t.Failed() {
			t.Fatalf("%s", c.name)
		}
	}
	bystander.alive()
	if text := log.String(); !containsAll(text, "Produce version 2 is not supported (3 to 13 are)") {
		t.Errorf("the log does not say why connections were closed:\n%s", text)
	}
}

// raw is a frame with any key and version, correlation id 7.
func raw(key, version int16, rest string) []byte {
	f := []byte{0, 0, 0, byte(8 + len(rest)), byte(uint16(key) >> 8), byte(key), byte(uint16(version) >> 8), byte(version), 0, 0, 0, 7}
	return append(f, rest...)
}

// TestEveryVersionOfBareRequests sends each API in each version with nothing in it: every one is answered in a form that its
// version has.
func TestEveryVersionOfBareRequests(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	all := ask[*kmsg.ApiVersionsResponse](dial(t, b.Addr), kmsg.NewPtrApiVersionsRequest())
	for _, k := range all.ApiKeys {
		low := k.MinVersion
		if k.ApiKey == 0 {
			low = 3
		}
		for version := low; version <= k.MaxVersion; version++ {
			r := kmsg.RequestForKey(k.ApiKey)
			r.SetVersion(version)
			switch r := r.(type) {
			case *kmsg.ProduceRequest:
				r.Acks = -1
			case *kmsg.ApiVersionsRequest:
				r.ClientSoftwareName, r.ClientSoftwareVersion = "e2e", "1"
			case *kmsg.FetchRequest:
				r.SessionEpoch = -1
			}
			w := dial(t, b.Addr)
			ask[kmsg.Response](w, r)
			w.alive()
			_ = w.Close()
		}
	}
}
