package loadgen

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
	"github.com/tidemark/tidemark/profiles"
)

// output is the result's folder: made and tried before the run, so that hours of measuring cannot end at a folder that
// takes no files, and removed again where the run refuses and the folder was new.
type output struct {
	dir     string
	made    bool
	written bool
}

func openOut(dir string) (*output, error) {
	o := &output{dir: dir}
	if dir == "" {
		return o, nil
	}
	if _, err := os.Stat(filepath.Join(dir, result.FileName)); err == nil {
		return nil, usage(fmt.Errorf("out: %s holds a result already; name another folder", dir))
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		o.made = true
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, failure(fmt.Errorf("out: %w", err))
	}
	f, err := os.CreateTemp(dir, ".try-*")
	if err != nil {
		o.abandon()
		return nil, failure(fmt.Errorf("out: the folder takes no files: %w", err))
	}
	_ = f.Close()
	_ = os.Remove(f.Name())
	return o, nil
}

// abandon removes the folder if this run made it and wrote nothing.
func (o *output) abandon() {
	if o.made && !o.written {
		_ = os.Remove(o.dir) // only ever an empty folder
	}
}

// write writes the .hlog files and profiles, and the result last.
func (o *output) write(r *run) error {
	o.written = o.dir != ""
	if r.profiler != nil {
		if r.endedBy == "signal" && !profiles.Light(r.profiler.o.Kinds) { // what was to be sampled over the rest of the window is not waited for
			r.profiler.cancel()
		}
		if err := r.profiler.finish(r.res, o.dir); err != nil {
			return err
		}
	}
	if o.dir == "" {
		return nil
	}
	if r.spec.Question == workload.Latency {
		for i, name := range [...]string{"ack.hlog", "delivery.hlog"} {
			if r.collector.total[i] == nil {
				continue
			}
			if err := r.writeLog(filepath.Join(o.dir, name), i); err != nil {
				return err
			}
			if err := r.res.AddFile(o.dir, name, "hlog"); err != nil {
				return err
			}
		}
	}
	return r.res.Write(o.dir)
}

// rewrite writes the result again, with what came to be known after write.
func (o *output) rewrite(res *result.Result) error {
	if o.dir == "" {
		return nil
	}
	return res.Write(o.dir)
}

// writeLog writes an HdrHistogram log 1.3, in nanoseconds. HdrHistogram's own processor reads untagged lines by default and
// crashes where there are none, so each file's own clock is untagged; in ack.hlog the others follow it, tagged with
// their names.
func (r *run) writeLog(path string, own int) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the histograms: %w", err)
	}
	w := bufio.NewWriter(f)
	started := time.Now().Add(time.Duration(r.window.start-nanosNow()) * time.Nanosecond)
	_, _ = fmt.Fprintf(w, "#[Histogram log format version 1.3]\n#[StartTime: %.3f (seconds since epoch), %s]\n#[BaseTime: 0.0 (seconds since epoch)]\n",
		float64(started.UnixNano())/1e9, started.UTC().Format(time.RFC3339))
	_, _ = fmt.Fprintf(w, "#[tidemark: run %016x, clock %s, values in nanoseconds, times in seconds since the epoch, maxima in ms]\n", r.id, clockNames[own])
	_, _ = fmt.Fprintln(w, `"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"`)
	for i := range r.collector.seconds {
		c := &r.collector.seconds[i]
		at := float64(started.UnixNano()+c.start-r.window.start) / 1e9
		for j := range c.clocks {
			if c.clocks[j].total == 0 || j != own && own != clockAck {
				continue
			}
			tag := ""
			if j != own {
				tag = "Tag=" + clockNames[j] + ","
			}
			h := c.clocks[j].spread()
			b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
			if err != nil {
				return errors.Join(fmt.Errorf("encode a histogram of %s: %w", clockNames[j], err), f.Close())
			}
			_, _ = fmt.Fprintf(w, "%s%.3f,%.3f,%.3f,%s\n", tag, at, float64(c.end-c.start)/1e9, float64(h.Max())/1e6, b)
		}
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
