package server

import (
	"log/slog"
	"sync"
	"time"
)

// complainer logs what bad clients do, at most complaintsPerSecond lines a second: a client in a loop must not fill the
// operator's disk.
type complainer struct {
	logger *slog.Logger
	mu     struct {
		sync.Mutex
		second     int64
		lines      int
		suppressed int
	}
}

const complaintsPerSecond = 5

func newComplainer(l *slog.Logger) *complainer { return &complainer{logger: l} }

func (c *complainer) log(msg string, args ...any) {
	now := time.Now().Unix()
	c.mu.Lock()
	if now != c.mu.second {
		c.mu.second, c.mu.lines = now, 0
	}
	c.mu.lines++
	if c.mu.lines > complaintsPerSecond {
		c.mu.suppressed++
		c.mu.Unlock()
		return
	}
	n := c.mu.suppressed
	c.mu.suppressed = 0
	c.mu.Unlock()
	if n > 0 {
		args = append(args, "suppressed", n)
	}
	c.logger.Warn(msg, args...)
}
