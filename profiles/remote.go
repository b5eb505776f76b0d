package profiles

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RemoteCPU is a CPU profile that another process takes of itself, from StartCPU until End.
type RemoteCPU struct {
	conn *net.TCPConn
	url  string
	stop func() bool
}

// dialTimeout bounds how long a process may take to accept the request.
const dialTimeout = 10 * time.Second

// StartCPU asks the process at HOST:PORT to profile its CPU until End, and for atMost at the longest. When ctx ends first
// the profile is lost.
//
// /debug/pprof/profile knows whole seconds only, and a window has none. But net/http ends a request's context when its
// client closes the sending half of the connection, the handler then stops profiling, and the other half still carries
// the profile back. So the request asks for longer than is needed and End closes one half. Cancelling the request
// instead would lose the profile.
func StartCPU(ctx context.Context, admin string, atMost time.Duration) (*RemoteCPU, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", admin)
	if err != nil {
		return nil, fmt.Errorf("fetch cpu profile: %w", err)
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("fetch cpu profile from %s: not TCP", admin), conn.Close())
	}
	seconds := int(atMost/time.Second) + 1
	path := "/debug/pprof/profile?seconds=" + strconv.Itoa(seconds)
	c := &RemoteCPU{conn: tcp, url: "http://" + admin + path, stop: context.AfterFunc(ctx, func() { _ = tcp.Close() })}
	_ = tcp.SetDeadline(time.Now().Add(atMost + 30*time.Second))
	if _, err := fmt.Fprintf(tcp, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, strings.NewReplacer("\r", "", "\n", "").Replace(admin)); err != nil {
		c.stop()
		return nil, errors.Join(fmt.Errorf("fetch cpu profile from %s: %w", c.url, err), tcp.Close())
	}
	return c, nil
}

// End stops the profile and returns it, pprof as the process wrote it. Call it exactly once.
func (c *RemoteCPU) End() ([]byte, error) {
	defer c.conn.Close()
	defer c.stop()
	if err := c.conn.CloseWrite(); err != nil {
		return nil, fmt.Errorf("fetch cpu profile from %s: %w", c.url, err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c.conn), nil)
	if err != nil {
		return nil, fmt.Errorf("fetch cpu profile from %s: %w", c.url, err)
	}
	defer resp.Body.Close()
	return readProfile(resp, CPU, c.url)
}

// readProfile reads an answer's profile within bounds.
func readProfile(resp *http.Response, k Kind, from string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxProfileBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("fetch %s profile from %s: %w", k, from, err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("fetch %s profile from %s: %s: %.200s", k, from, resp.Status, strings.TrimSpace(string(b)))
	case len(b) > maxProfileBytes:
		return nil, fmt.Errorf("fetch %s profile from %s: more than %d bytes", k, from, maxProfileBytes)
	case len(b) == 0:
		return nil, fmt.Errorf("fetch %s profile from %s: the answer is empty", k, from)
	}
	return b, nil
}
