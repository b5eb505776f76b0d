package target_test

import (
	"bytes"
	"context"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark/tidemark/bench/suites"
	"github.com/tidemark/tidemark/bench/target"
)

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
	addr := freeAddress(t)
	_, port, _ := net.SplitHostPort(addr)
	serve := "python3 -c 'import socket,sys,time\ns=socket.create_server((\"127.0.0.1\"," + port + "))\nwhile True: s.accept()' & wait"
	var log bytes.Buffer
	tg, err := target.Start(context.Background(), target.Options{Target: suites.Target{Bootstrap: addr, Command: []string{"sh", "-c", serve}}, Log: &log})
	if err != nil {
		t.Fatal(err, log.String())
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
	for _, pid := range tg.PIDs {
		if err := syscall.Kill(pid, 0); err == nil {
			if state := processState(pid); state != "Z" {
				t.Errorf("process %d still there, state %s", pid, state)
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
	_, err := target.Start(context.Background(), target.Options{Target: suites.Target{Bootstrap: freeAddress(t), Command: []string{"false"}}})
	if err == nil || !strings.Contains(err.Error(), "ended before it listened") {
		t.Errorf("got %v", err)
	}
}

func TestTargetThatCannotBeReached(t *testing.T) {
	_, err := target.Start(context.Background(), target.Options{Target: suites.Target{Bootstrap: freeAddress(t)}})
	if err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("got %v", err)
	}
	_, err = target.Start(context.Background(), target.Options{Target: suites.Target{Command: []string{"true"}}})
	if err == nil || !strings.Contains(err.Error(), "say where it listens") {
		t.Errorf("got %v", err)
	}
}
