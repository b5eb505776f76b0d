package host

import (
	"time"

	"github.com/tidemark/tidemark/core/compress"
)

// codec measures one codec on batches of 16 KiB of which it can save about half.
func (m *measurer) codec(which compress.Codec) func() Ceiling {
	return func() Ceiling {
		c := Ceiling{Name: "compress " + which.String(), What: "batches of 16 KiB that compress about 2 to 1, one core"}
		src := make([]byte, 16<<10)
		fill(src)
		codecs := compress.New()
		var bytes int64
		var wall time.Duration
		cpu, err := onCores(m.target, func() error {
			var dst []byte
			var err error
			start := time.Now()
			for wall = 0; wall < each/2; wall = time.Since(start) {
				if dst, err = codecs.Append(dst[:0], which, 0, src); err != nil {
					return err
				}
				bytes += int64(len(src))
			}
			return nil
		})
		return rate(c, bytes, wall, cpu, err)
	}
}
