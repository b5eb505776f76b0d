package host

import (
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/compress"
)

// Sizes and times of the ceilings: large enough for a steady figure, small enough to measure all in two seconds.
const (
	each      = 250 * time.Millisecond
	chunk     = 1 << 20
	fileBytes = 64 << 20 // wraps around: stays below the kernel's background dirty limit
)

// Ceilings measures what no broker on this host can beat, in dir, which it leaves as it was. targetCores stand for the
// broker's side, loadCores for the other; empty means not pinned. It takes about three seconds and stops early when
// ctx ends. A ceiling that could not be measured says why in Error.
func Ceilings(ctx context.Context, dir string, targetCores, loadCores []int) []Ceiling {
	m := &measurer{dir: dir, target: targetCores, load: loadCores}
	var out []Ceiling
	for _, one := range []func() Ceiling{
		m.loopback, m.sendfile, m.receive, m.write, m.fsync, m.timer,
		m.codec(compress.Lz4), m.codec(compress.Zstd), m.codec(compress.Snappy), m.codec(compress.Gzip), m.preemption,
	} {
		if ctx.Err() != nil {
			break
		}
		out = append(out, one())
	}
	return out
}

// ReceiveCeiling measures recv+crc32c+pwrite alone, as it is done beside capacity cells.
func ReceiveCeiling(dir string, targetCores, loadCores []int) Ceiling {
	return (&measurer{dir: dir, target: targetCores, load: loadCores}).receive()
}

type measurer struct {
	dir          string
	target, load []int
	span         time.Duration // of one measurement; 0 is each
}

func (m *measurer) length() time.Duration {
	if m.span > 0 {
		return m.span
	}
	return each
}

// onCores runs f on a thread of the given cores and returns the thread's CPU time and f's error. The thread gets its
// old cores back and lives on: one that ended would take with it the children that it once started (they die with the
// thread that forked them, not with the process).
func onCores(cores []int, f func() error) (cpu time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if len(cores) > 0 {
		var old, set unix.CPUSet
		if err := unix.SchedGetaffinity(0, &old); err != nil {
			return 0, err
		}
		for _, c := range cores {
			set.Set(c)
		}
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return 0, err
		}
		defer func() { _ = unix.SchedSetaffinity(0, &old) }()
	}
	before := threadCPU()
	err = f()
	return threadCPU() - before, err
}

func threadCPU() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// rate fills a ceiling in from bytes moved.
func rate(c Ceiling, bytes int64, wall, cpu time.Duration, err error) Ceiling {
	c.Unit, c.Seconds = "MB/s", wall.Seconds()
	switch {
	case err != nil:
		c.Error = err.Error()
	case bytes == 0 || wall <= 0:
		c.Error = "nothing was moved"
	default:
		c.Value = float64(bytes) / 1e6 / wall.Seconds()
		if cpu > 0 {
			c.PerCPU = float64(bytes) / 1e6 / cpu.Seconds()
		}
	}
	return c
}

// pair is a TCP connection over loopback as two blocking descriptors.
func pair() (a, b int, err error) {
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, err
	}
	defer unix.Close(listener)
	if err := unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return -1, -1, err
	}
	if err := unix.Listen(listener, 1); err != nil {
		return -1, -1, err
	}
	address, err := unix.Getsockname(listener)
	if err != nil {
		return -1, -1, err
	}
	if a, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, -1, err
	}
	if err = unix.Connect(a, address); err != nil {
		unix.Close(a)
		return -1, -1, err
	}
	if b, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC); err != nil {
		unix.Close(a)
		return -1, -1, err
	}
	return a, b, nil
}

// stream runs the broker's side against the load's side over a connection. Each side gets its descriptor and must
// return when a transfer fails or, for the sender, when `each` has passed; the sender's end is shut down then.
func (m *measurer) stream(send, receive func(fd int, until time.Time) (int64, error), brokerSends bool) (bytes int64, wall, cpu time.Duration, err error) {
	a, b, err := pair()
	if err != nil {
		return 0, 0, 0, err
	}
	defer unix.Close(a)
	defer unix.Close(b)
	senderCores, receiverCores := m.load, m.target
	if brokerSends {
		senderCores, receiverCores = m.target, m.load
	}
	var senderCPU, receiverCPU time.Duration
	var sendErr, receiveErr error
	start := time.Now()
	until := start.Add(m.length())
	var sides sync.WaitGroup
	sides.Go(func() {
		senderCPU, sendErr = onCores(senderCores, func() error {
			_, err := send(a, until)
			_ = unix.Shutdown(a, unix.SHUT_WR)
			return err
		})
	})
	sides.Go(func() {
		receiverCPU, receiveErr = onCores(receiverCores, func() error {
			var err error
			bytes, err = receive(b, until)
			_ = unix.Shutdown(b, unix.SHUT_RDWR) // a receiver that failed must not leave the sender blocked
			return err
		})
	})
	sides.Wait()
	wall, cpu = time.Since(start), receiverCPU
	if brokerSends {
		cpu = senderCPU
	}
	if receiveErr != nil {
		return bytes, wall, cpu, receiveErr
	}
	return bytes, wall, cpu, sendErr
}

func writeUntil(fd int, until time.Time) (int64, error) {
	buf := make([]byte, chunk)
	fill(buf)
	var sent int64
	for sent == 0 || time.Now().Before(until) { // on a busy host the time may be over before the thread runs
		n, err := unix.Write(fd, buf)
		if err != nil {
			return sent, fmt.Errorf("write to socket: %w", err)
		}
		sent += int64(n)
	}
	return sent, nil
}

func readAll(fd int, each func([]byte) error) (int64, error) {
	buf := make([]byte, chunk)
	var got int64
	for {
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return got, fmt.Errorf("read from socket: %w", err)
		}
		if n == 0 {
			return got, nil
		}
		got += int64(n)
		if each != nil {
			if err := each(buf[:n]); err != nil {
				return got, err
			}
		}
	}
}

// fill writes bytes of which a codec can save about half: runs of eight that are random or repeated in turn.
func fill(b []byte) {
	x := uint64(0x9e3779b97f4a7c15)
	for i := 0; i+16 <= len(b); i += 16 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		for k := range 8 {
			b[i+k] = byte(x >> (8 * k))
			b[i+8+k] = 'a'
		}
	}
}

func (m *measurer) loopback() Ceiling {
	bytes, wall, cpu, err := m.stream(writeUntil, func(fd int, _ time.Time) (int64, error) { return readAll(fd, nil) }, false)
	return rate(Ceiling{Name: "loopback", What: "TCP over loopback, write to read, 1 MiB at a time; CPU of the reader"}, bytes, wall, cpu, err)
}

// Touch uses n bytes of memory for page cache and gives them back: what is written in the next two seconds or so lands in
// pages that this host has. A hypervisor takes back pages that lie free for longer, and then each costs a fault that no
// broker caused: the receiving loop fell from 1,700 to 750 MB for each CPU-second, and came back with Touch before it.
// dir's file system holds a nameless file meanwhile.
func Touch(dir string, n int64) (touched int64, err error) {
	f, err := (&measurer{dir: dir}).scratch()
	if err != nil {
		return 0, fmt.Errorf("touch memory: %w", err)
	}
	defer f.Close()
	block := make([]byte, chunk)
	for touched < n {
		k, err := f.Write(block)
		touched += int64(k)
		if err != nil {
			return touched, fmt.Errorf("touch memory: %w", err)
		}
	}
	return touched, nil
}

// scratch makes a file in the data folder that has no name any more when it returns.
func (m *measurer) scratch() (*os.File, error) {
	f, err := os.CreateTemp(m.dir, "ceiling-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fmt.Errorf("remove %s: %w", filepath.Base(f.Name()), err)
	}
	return f, nil
}

// filled is a scratch file of fileBytes in the page cache.
func (m *measurer) filled() (*os.File, error) {
	f, err := m.scratch()
	if err != nil {
		return nil, err
	}
	buf := make([]byte, chunk)
	fill(buf)
	for at := int64(0); at < fileBytes; at += chunk {
		if _, err := f.WriteAt(buf, at); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

func (m *measurer) sendfile() Ceiling {
	c := Ceiling{Name: "sendfile", What: "sendfile from the page cache to a loopback socket that is read to its end; CPU of the sender"}
	f, err := m.filled()
	if err != nil {
		return rate(c, 0, 0, 0, err)
	}
	defer f.Close()
	send := func(fd int, until time.Time) (int64, error) {
		var sent int64
		for sent == 0 || time.Now().Before(until) {
			at := sent % fileBytes
			n, err := unix.Sendfile(fd, int(f.Fd()), &at, int(min(chunk, fileBytes-at)))
			if err != nil {
				return sent, fmt.Errorf("sendfile: %w", err)
			}
			sent += int64(n)
		}
		return sent, nil
	}
	bytes, wall, cpu, err := m.stream(send, func(fd int, _ time.Time) (int64, error) { return readAll(fd, nil) }, true)
	return rate(c, bytes, wall, cpu, err)
}

// receive does only what a broker cannot avoid: read a batch from the socket, check it, write it to the page cache.
func (m *measurer) receive() Ceiling {
	c := Ceiling{Name: "recv+crc32c+pwrite", What: "read from a loopback socket, CRC-32C, pwrite to the page cache, up to 1 MiB at a time; CPU of that side"}
	f, err := m.filled()
	if err != nil {
		return rate(c, 0, 0, 0, err)
	}
	defer f.Close()
	table := crc32.MakeTable(crc32.Castagnoli)
	var sum uint32
	bytes, wall, cpu, err := m.stream(writeUntil, func(fd int, _ time.Time) (int64, error) {
		var at int64
		return readAll(fd, func(b []byte) error {
			sum = crc32.Update(sum, table, b)
			if at+int64(len(b)) > fileBytes {
				at = 0
			}
			_, err := unix.Pwrite(int(f.Fd()), b, at)
			at += int64(len(b))
			return err
		})
	}, false)
	return rate(c, bytes, wall, cpu, err)
}

func (m *measurer) write() Ceiling {
	c := Ceiling{Name: "sequential write", What: "64 MiB written to a new file of the data folder and brought to the disk"}
	start := time.Now()
	f, err := m.filled()
	if err != nil {
		return rate(c, 0, 0, 0, err)
	}
	defer f.Close()
	err = unix.Fdatasync(int(f.Fd()))
	return rate(c, fileBytes, time.Since(start), 0, err)
}

func (m *measurer) fsync() Ceiling {
	c := Ceiling{Name: "fsync", What: "median time of a 4 KiB append and fdatasync in the data folder", Unit: "us"}
	f, err := m.scratch()
	if err != nil {
		c.Error = err.Error()
		return c
	}
	defer f.Close()
	block := make([]byte, 4096)
	var took []float64
	start := time.Now()
	for at := int64(0); len(took) < 3 || time.Since(start) < each; at += int64(len(block)) {
		one := time.Now()
		_, err := f.WriteAt(block, at)
		if err == nil {
			err = unix.Fdatasync(int(f.Fd()))
		}
		if err != nil {
			c.Error = err.Error()
			return c
		}
		took = append(took, float64(time.Since(one).Nanoseconds())/1e3)
	}
	c.Value, c.Seconds = quantile(took, 0.5), time.Since(start).Seconds()
	return c
}

// timer measures what the generator's pacer rests on.
func (m *measurer) timer() Ceiling {
	c := Ceiling{Name: "timer", What: "99th percentile of how late a sleep of 200 us ends", Unit: "us", Seconds: each.Seconds()}
	var late []float64
	_, err := onCores(m.load, func() error {
		s := clock.NewSleeper()
		defer s.Close()
		end := clock.Nanos() + each.Nanoseconds()
		for next := clock.Nanos() + 200_000; len(late) == 0 || next < end; next = clock.Nanos() + 200_000 {
			s.Until(next)
			late = append(late, float64(clock.Nanos()-next)/1e3)
		}
		return nil
	})
	if err != nil {
		c.Error = err.Error()
		return c
	}
	c.Value = quantile(late, 0.99)
	return c
}

// preemption spins on the broker's core and counts how much of the time somebody else had it.
func (m *measurer) preemption() Ceiling {
	c := Ceiling{Name: "core taken away", What: "share of a spinning thread's time in gaps over 10 us, in parts of a million", Unit: "ppm", Seconds: each.Seconds()}
	var gaps, start, now int64
	_, err := onCores(m.target, func() error {
		start = clock.Nanos()
		for now = start; now < start+each.Nanoseconds(); {
			t := clock.Nanos()
			if t-now > 10_000 {
				gaps += t - now
			}
			now = t
		}
		return nil
	})
	if err != nil {
		c.Error = err.Error()
		return c
	}
	c.Value = 1e6 * float64(gaps) / float64(now-start)
	return c
}

func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[min(len(v)-1, int(q*float64(len(v))))]
}
