package target_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark/tidemark/bench/suites"
	"github.com/tidemark/tidemark/bench/target"
)

// refusing is an address that nobody listens on, and nobody else gets while the test runs.
func refusing(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestCommandTargetIsStartedAndEndedWithItsChildren(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3 to play the target")
	}
	var tg *target.Target
	for try := 0; tg == nil; try++ {
		addr := freeAddress(t) // another process may take it before python does
		_, port, _ := net.SplitHostPort(addr)
		serve := "python3 -c 'import socket,sys,time\ns=socket.create_server((\"127.0.0.1\"," + port + "))\nwhile True: s.accept()' & wait"
		var log bytes.Buffer
		started, err := target.Start(context.Background(), target.Options{Target: suites.Target{Bootstrap: addr, Command: []string{"sh", "-c", serve}}, Log: &log})
		if err == nil {
			tg = started
		} else if try == 3 {
			t.Fatal(err, log.String())
		}
	}
	if len(tg.PIDs) != 2 || !tg.Alive() || tg.Mode() != "command" {
		t.Errorf("pids %v", tg.PIDs)
	}
	if err := tg.Stop(); err != nil {
		t.Error(err)
	}
	if tg.Alive() {
		t.Error("still alive after Stop")
	}
	deadline := time.After(time.Minute) // what has been killed may take its time to die
	for _, pid := range tg.PIDs {
		for state := ""; state != "Z" && syscall.Kill(pid, 0) == nil; state = processState(pid) {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-deadline:
				t.Fatalf("process %d still there, state %s", pid, state)
			}
		}
	}
}

func processState(pid int) string {
	out, err := exec.Command("ps", "-o", "stat=", "-p", itoa(pid)).Output()
	if err != nil {
		return "Z"
	}
	return strings.TrimSpace(string(out))[:1]
}

func itoa(n int) string {
	var b []byte
	for ; n > 0; n /= 10 {
		b = append([]byte{byte('0' + n%10)}, b...)
	}
	return string(b)
}

func TestCommandTargetThatEndsIsSaidSo(t *testing.T) {
	_, err := target.Start(context.Background(), target.Options{Target: suites.Target{Bootstrap: refusing(t), Command: []string{"false"}}})
	if err == nil || !strings.Contains(err.Error(), "ended before it listened") {
		t.Errorf("got %v", err)
	}
}

func TestTargetThatCannotBeReached(t *testing.T) {
	_, err := target.Start(context.Background(), target.Options{Target: suites.Target{Bootstrap: refusing(t)}})
	if err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("got %v", err)
	}
	_, err = target.Start(context.Background(), target.Options{Target: suites.Target{Command: []string{"true"}}})
	if err == nil || !strings.Contains(err.Error(), "say where it listens") {
		t.Errorf("got %v", err)
	}
}

// TestAClusterIsReachedByAnyOfItsServers: bootstrap servers are a list, of which the first may be down.
func TestAClusterIsReachedByAnyOfItsServers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	down, up := refusing(t), l.Addr().String()
	tg, err := target.Start(context.Background(), target.Options{Target: suites.Target{Bootstrap: down + ", " + up}})
	if err != nil {
		t.Fatal(err)
	}
	if want := down + "," + up; tg.Bootstrap != want {
		t.Errorf("the load process is given %q, want %q", tg.Bootstrap, want)
	}
	if _, err := target.Start(context.Background(), target.Options{Target: suites.Target{Bootstrap: down + "," + refusing(t)}}); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("nobody listens: %v", err)
	}
	_, err = target.Start(context.Background(), target.Options{Target: suites.Target{Bootstrap: down + "," + up, Command: []string{"true"}}})
	if err == nil || !strings.Contains(err.Error(), "something listens on "+up) {
		t.Errorf("a command where another serves already: %v", err)
	}
}
