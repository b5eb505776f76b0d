package host

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The shape of a request's bare loop: what goes over the wire before and after the batch, roughly as in Produce.
const (
	frameHead    = 60
	answerBytes  = 60
	ceilingBytes = 1 << 30 // the file begins anew there: rounds of at most this stay below the background dirty limit
	touchPerSec  = 2 << 30 // what is touched before for each second; more than the loop writes
)

// RequestCeiling is what a bare loop reaches that only does what no broker can avoid for a request: receive a frame of
// frameBytes, CRC-32C over its batch, pwrite to a growing file, answer; window requests are in flight on one connection. It
// runs for d. Value is MB/s, PerCPU is MB for each CPU-second, and requests those for each CPU-second.
func RequestCeiling(dir string, targetCores, loadCores []int, frameBytes, window int, d time.Duration) (c Ceiling, requests float64) {
	m := &measurer{dir: dir, target: targetCores, load: loadCores, span: d}
	c = Ceiling{Name: "recv+crc32c+pwrite+answer", What: fmt.Sprintf("requests of %d bytes, %d in flight: receive, CRC-32C, pwrite, answer; CPU of that side", frameBytes, window)}
	answered, bytes, wall, cpu, err := m.requests(frameBytes, window)
	c = rate(c, bytes, wall, cpu, err)
	if c.Error == "" && cpu > 0 {
		requests = float64(answered) / cpu.Seconds()
	}
	return c, requests
}

// SendfileCeiling measures sendfile alone for d, as it is done beside reading cells.
func SendfileCeiling(dir string, targetCores, loadCores []int, d time.Duration) Ceiling {
	return (&measurer{dir: dir, target: targetCores, load: loadCores, span: d}).sendfile()
}

// requests runs the client and the bare server on a connection of their own.
func (m *measurer) requests(frameBytes, window int) (answered, bytes int64, wall, cpu time.Duration, err error) {
	if _, err := Touch(m.dir, min(ceilingBytes, int64(m.length().Seconds()*touchPerSec))); err != nil {
		return 0, 0, 0, 0, err
	}
	f, err := m.scratch()
	if err != nil {
		return 0, 0, 0, 0, err
	}
	defer f.Close()
	a, b, err := pair()
	if err != nil {
		return 0, 0, 0, 0, err
	}
	defer unix.Close(a)
	defer unix.Close(b)
	frame := make([]byte, 4+frameHead+frameBytes)
	fill(frame)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	start := time.Now()
	var clientErr, serverErr error
	var sides sync.WaitGroup
	sides.Go(func() {
		_, clientErr = onCores(m.load, func() error {
			defer func() { _ = unix.Shutdown(a, unix.SHUT_WR) }()
			return askUntil(a, frame, window, start.Add(m.length()))
		})
	})
	sides.Go(func() {
		cpu, serverErr = onCores(m.target, func() error {
			defer func() { _ = unix.Shutdown(b, unix.SHUT_RDWR) }()
			s := bareServer{fd: b, file: int(f.Fd()), buf: make([]byte, max(256<<10, len(frame))), frame: len(frame)}
			err := s.serve()
			answered, bytes = s.answered, s.written
			return err
		})
	})
	sides.Wait()
	wall = time.Since(start)
	if serverErr != nil {
		return answered, bytes, wall, cpu, serverErr
	}
	return answered, bytes, wall, cpu, clientErr
}

// askUntil keeps window frames in flight until the time is over, then takes the answers that are due.
func askUntil(fd int, frame []byte, window int, until time.Time) error {
	answers := make([]byte, window*answerBytes)
	due, part, asking := 0, 0, true
	for {
		for asking && due < window {
			if err := writeAll(fd, frame); err != nil {
				return err
			}
			due++
		}
		if due == 0 {
			return nil
		}
		n, err := unix.Read(fd, answers)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return fmt.Errorf("read an answer: %w", err)
		}
		part += n
		due -= part / answerBytes
		part %= answerBytes
		asking = time.Now().Before(until)
	}
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("write to socket: %w", err)
		}
		b = b[n:]
	}
	return nil
}

// bareServer answers frames of one size on one connection with blocking calls on one thread: no poller, no parsing.
type bareServer struct {
	fd, file          int
	buf               []byte
	frame             int
	answered, written int64
}

func (s *bareServer) serve() error {
	table := crc32.MakeTable(crc32.Castagnoli)
	answers := make([]byte, (len(s.buf)/s.frame+1)*answerBytes)
	whole := len(s.buf) / s.frame * s.frame // no more than ends with a frame: the rest would have to be moved
	have, at := 0, int64(0)
	for {
		n, err := unix.Read(s.fd, s.buf[have:whole])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("read from socket: %w", err)
		}
		if n == 0 {
			return nil
		}
		have += n
		used, due := 0, 0
		for ; have-used >= s.frame; used += s.frame {
			batch := s.buf[used+4+frameHead : used+s.frame]
			crc32.Checksum(batch, table)
			if at+int64(len(batch)) > ceilingBytes {
				at = 0
			}
			if _, err := unix.Pwrite(s.file, batch, at); err != nil {
				return fmt.Errorf("write to file: %w", err)
			}
			at += int64(len(batch))
			s.written += int64(len(batch))
			due++
		}
		have = copy(s.buf, s.buf[used:have])
		s.answered += int64(due)
		if due > 0 {
			if err := writeAll(s.fd, answers[:due*answerBytes]); err != nil {
				return err
			}
		}
	}
}
