// Package proc starts a broker as a child process, waits until it is ready, and stops or kills it.
//
//	Start --> stdout "ready HOST:PORT node=ID cluster=ID" --> *Broker --> Stop (SIGTERM, drained) or Kill (SIGKILL)
//
// The child is in a process group of its own, so that Ctrl-C at a terminal reaches only the parent, and dies with the
// parent whatever ends that (PR_SET_PDEATHSIG): a kill -9 of a bench or a test leaves no broker behind. Two goroutines
// belong to each Broker, one for each of the child's output streams; they end when the child does. All methods may be
// called from any goroutine. Linux only.
package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Defaults of Options.
const (
	DefaultReadyTimeout = time.Minute
	DefaultStopTimeout  = time.Minute
	tailLines           = 20 // of stderr, kept for error messages
)

// Options says what to start.
type Options struct {
	Bin          string        // the tidemark binary; "" is this program itself
	Data         string        // data folder; "" lets the broker take a temporary one
	Listen       string        // "" is 127.0.0.1:0
	NoAdmin      bool          // leave out --admin 127.0.0.1:0
	Config       string        // server.properties
	Properties   []string      // name=value, each passed by -o
	Args         []string      // further arguments of `tidemark broker`
	Env          []string      // added to the parent's
	Cores        []int         // cores that the child may run on; empty leaves them as they are
	Stderr       io.Writer     // gets the child's log; may be nil
	ReadyTimeout time.Duration // 0 is DefaultReadyTimeout
}

// Broker is a running child.
type Broker struct {
	Addr      string // HOST:PORT of the Kafka listener
	Admin     string // HOST:PORT of the HTTP side; "" with NoAdmin
	PID       int
	NodeID    int32
	ClusterID string
	Data      string
	Args      []string // argv

	cmd   *exec.Cmd
	done  chan struct{} // closed when the child has ended and its output is read
	ready chan struct{} // closed at the ready line
	admin chan struct{} // closed at the admin line
	mu    sync.Mutex    // guards tail and err, and writes to Options.Stderr
	tail  []string
	err   error
}

// errNotReady says that the child ended before its ready line.
var errNotReady = errors.New("it ended before it was ready")

// Start starts a broker and returns when it accepts connections. When ctx ends first, or the child does, or the time
// is over, the child is gone and the error holds its last words.
func Start(ctx context.Context, o Options) (*Broker, error) {
	cmd, err := command(o)
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := Pinned(o.Cores, cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	b := &Broker{
		PID: cmd.Process.Pid, Data: o.Data, Args: cmd.Args, cmd: cmd,
		done: make(chan struct{}), ready: make(chan struct{}), admin: make(chan struct{}),
	}
	if o.NoAdmin {
		close(b.admin)
	}
	var streams sync.WaitGroup
	streams.Go(func() { b.readStdout(stdout, o.Stderr) })
	streams.Go(func() { b.readStderr(stderr, o.Stderr, !o.NoAdmin) })
	go func() {
		streams.Wait()
		err := cmd.Wait()
		b.mu.Lock()
		b.err = err
		b.mu.Unlock()
		close(b.done)
	}()
	if err := b.waitReady(ctx, o); err != nil {
		b.Kill()
		return nil, fmt.Errorf("broker %s: %w%s", strings.Join(cmd.Args, " "), err, b.lastWords())
	}
	return b, nil
}

func command(o Options) (*exec.Cmd, error) {
	bin := o.Bin
	if bin == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		bin = self
	}
	listen := o.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	args := []string{"broker", "--listen", listen}
	if o.Data != "" {
		args = append(args, "--data", o.Data)
	}
	if !o.NoAdmin {
		args = append(args, "--admin", "127.0.0.1:0")
	}
	if o.Config != "" {
		args = append(args, "--config", o.Config)
	}
	for _, p := range o.Properties {
		args = append(args, "-o", p)
	}
	cmd := exec.Command(bin, append(args, o.Args...)...)
	cmd.Env = append(os.Environ(), o.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd, nil
}

// waitReady waits for the ready line and, where there is an HTTP side, for its address.
func (b *Broker) waitReady(ctx context.Context, o Options) error {
	limit := o.ReadyTimeout
	if limit == 0 {
		limit = DefaultReadyTimeout
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for _, line := range []chan struct{}{b.ready, b.admin} {
		select {
		case <-line:
		case <-b.done:
			select {
			case <-line: // both happened; the line counts
			default:
				return errNotReady
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return fmt.Errorf("not ready after %v", limit)
		}
	}
	return nil
}

// ParseReady reads the line that a broker prints when it accepts connections.
func ParseReady(line string) (addr string, node int32, cluster string, ok bool) {
	f := strings.Fields(line)
	if len(f) != 4 || f[0] != "ready" {
		return "", 0, "", false
	}
	if _, _, err := net.SplitHostPort(f[1]); err != nil {
		return "", 0, "", false
	}
	id, isNode := strings.CutPrefix(f[2], "node=")
	n, err := strconv.ParseInt(id, 10, 32)
	cluster, isCluster := strings.CutPrefix(f[3], "cluster=")
	if !isNode || !isCluster || err != nil {
		return "", 0, "", false
	}
	return f[1], int32(n), cluster, true
}

func (b *Broker) readStdout(r io.Reader, copyTo io.Writer) {
	lines := bufio.NewScanner(r)
	found := false
	for lines.Scan() {
		addr, node, cluster, ok := ParseReady(lines.Text())
		if ok && !found {
			found = true
			b.Addr, b.NodeID, b.ClusterID = addr, node, cluster
			close(b.ready)
		} else if copyTo != nil {
			b.mu.Lock()
			fmt.Fprintln(copyTo, lines.Text())
			b.mu.Unlock()
		}
	}
	_, _ = io.Copy(io.Discard, r) // a line too long for the scanner must not block the child
}

// adminLine finds the HTTP side's address in a log line.
var adminLine = regexp.MustCompile(`admin http://([^\s"]+:\d+)`)

func (b *Broker) readStderr(r io.Reader, copyTo io.Writer, wantAdmin bool) {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			b.mu.Lock()
			if copyTo != nil {
				_, _ = io.WriteString(copyTo, line)
			}
			b.tail = append(b.tail, strings.TrimRight(line, "\n"))
			b.tail = b.tail[max(0, len(b.tail)-tailLines):]
			b.mu.Unlock()
			if m := adminLine.FindStringSubmatch(line); m != nil && wantAdmin {
				wantAdmin = false
				b.Admin = m[1]
				close(b.admin)
			}
		}
		if err != nil {
			return
		}
	}
}

func (b *Broker) lastWords() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.tail) == 0 {
		return ""
	}
	return "\n  " + strings.Join(b.tail, "\n  ")
}

// Done is closed when the process has ended.
func (b *Broker) Done() <-chan struct{} { return b.done }

// Err says how the process ended: nil for exit 0. Only after Done; before, it is nil too.
func (b *Broker) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil && len(b.tail) > 0 {
		return fmt.Errorf("%w; last line: %s", b.err, b.tail[len(b.tail)-1])
	}
	return b.err
}

// Stop asks the process to end cleanly and waits for it; one that takes longer than DefaultStopTimeout is killed and
// an error. A process that has ended already is judged by how it did.
func (b *Broker) Stop() error {
	_ = b.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(DefaultStopTimeout)
	defer timer.Stop()
	select {
	case <-b.done:
		return b.Err()
	case <-timer.C:
		b.Kill()
		return fmt.Errorf("broker %d did not stop within %v of SIGTERM and was killed", b.PID, DefaultStopTimeout)
	}
}

// Kill ends the process by SIGKILL, as a crash would, and waits until it is gone.
func (b *Broker) Kill() {
	_ = b.cmd.Process.Kill()
	<-b.done
}

// Signal sends a signal to the process.
func (b *Broker) Signal(s os.Signal) error { return b.cmd.Process.Signal(s) }

// Pinned calls start, which starts a process, so that the process may run on the given cores alone; with none it only
// calls. The calling thread's own cores are restored.
func Pinned(cores []int, start func() error) error {
	if len(cores) == 0 {
		return start()
	}
	// A child inherits the cores of the thread that forks it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, wanted unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("read the cores of this thread: %w", err)
	}
	for _, c := range cores {
		wanted.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &wanted); err != nil {
		return fmt.Errorf("pin to cores %v: %w", cores, err)
	}
	defer func() { _ = unix.SchedSetaffinity(0, &before) }()
	return start()
}

// Cores lists the cores that this process may use.
func Cores() []int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &set); err != nil {
		return nil
	}
	var cores []int
	for c := range len(set) * 64 {
		if set.IsSet(c) {
			cores = append(cores, c)
		}
	}
	return cores
}

// moduleRoot is the folder of go.mod at or above the working folder.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod at or above the working folder: set TIDEMARK_BIN")
		}
		dir = parent
	}
}
