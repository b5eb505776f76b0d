package driver

import (
	"context"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
)

// Access says how the connections to a cluster's brokers are made. The zero Access is plain TCP, with nobody's name.
type Access struct {
	// Dial opens a connection to a broker, with TLS where the cluster speaks TLS; nil dials plain TCP. What it returns
	// and is no *net.TCPConn may have a FullSocket of its own, or below (NetConn).
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// SASL says who the client is, on each connection after its versions are known; nil says nothing.
	SASL sasl.Mechanism
}

// FullSocket is what a wrapped connection implements so that waiting for the target can be told from other work.
type FullSocket interface {
	// FullFor is for how long, in all, writes have waited because the socket was full.
	FullFor() time.Duration
}

// Connect opens a connection to a broker, with Dial or as plain TCP.
func (a Access) Connect(ctx context.Context, addr string) (net.Conn, error) {
	if a.Dial != nil {
		return a.Dial(ctx, "tcp", addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}
