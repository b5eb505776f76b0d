package report

import (
	"testing"

	"github.com/google/pprof/profile"
)

// TestCPUPartsGoByTheInnermostKnownFunction: the reading loop calls everything else, so what is nearest to the leaf decides.
func TestCPUPartsGoByTheInnermostKnownFunction(t *testing.T) {
	const read, module = "github.com/tidemark/tidemark/broker/internal/server.(*conn).readFrame", "github.com/tidemark/tidemark/"
	for _, c := range []struct {
		part   string
		frames []string // leaf first
	}{
		{"receive", []string{"syscall.RawSyscall6", "golang.org/x/sys/unix.Read", module + "broker/internal/server.readSocket"}},
		{"receive", []string{"runtime.memmove", read}},
		{"check", []string{"hash/crc32.update", module + "core/record.Validate", read}},
		{"write", []string{"golang.org/x/sys/unix.pwritev", module + "core/vfs.(*osFile).WriteVec", module + "core/commitlog.(*Log).Append", read}},
		{"send", []string{"golang.org/x/sys/unix.Writev", module + "broker/internal/server.(*sender).run", read}},
		{"send", []string{"golang.org/x/sys/unix.Sendfile", module + "core/commitlog.(*Lease).WithFd", read}},
		{"the rest", []string{"golang.org/x/sys/unix.Pread", module + "core/commitlog.(*Log).Read"}},
		{"the rest", []string{"runtime.scanobject", "runtime.gcBgMarkWorker"}},
	} {
		p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples"}, {Type: "cpu"}}}
		s := &profile.Sample{Value: []int64{1, 10}}
		for _, name := range c.frames {
			s.Location = append(s.Location, &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name}}}})
		}
		p.Sample = []*profile.Sample{s}
		x := &cpuProfile{}
		x.grow(p)
		for i, part := range parts {
			if (x.parts[i] == 10) != (part.name == c.part) {
				t.Errorf("%v: %d of %s, want all in %s", c.frames, x.parts[i], part.name, c.part)
			}
		}
	}
}
