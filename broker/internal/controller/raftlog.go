package controller

import (
	"fmt"
	"io"
	"log"
	"log/slog"

	"go.etcd.io/raft/v3"
)

// raftLogger hands Raft's own lines to the broker's log, most of them where only who debugs Raft looks. Raft counts on
// Panic not returning: its own logger does that part.
type raftLogger struct {
	to    *slog.Logger
	panic raft.DefaultLogger
}

var _ raft.Logger = (*raftLogger)(nil)

func newRaftLogger(to *slog.Logger) *raftLogger {
	return &raftLogger{to: to, panic: raft.DefaultLogger{Logger: log.New(io.Discard, "", 0)}}
}

func (l *raftLogger) Debug(v ...any)              { l.to.Debug("raft: " + fmt.Sprint(v...)) }
func (l *raftLogger) Debugf(f string, v ...any)   { l.to.Debug("raft: " + fmt.Sprintf(f, v...)) }
func (l *raftLogger) Info(v ...any)               { l.Debug(v...) }
func (l *raftLogger) Infof(f string, v ...any)    { l.Debugf(f, v...) }
func (l *raftLogger) Warning(v ...any)            { l.to.Warn("raft: " + fmt.Sprint(v...)) }
func (l *raftLogger) Warningf(f string, v ...any) { l.to.Warn("raft: " + fmt.Sprintf(f, v...)) }
func (l *raftLogger) Error(v ...any)              { l.to.Error("raft: " + fmt.Sprint(v...)) }
func (l *raftLogger) Errorf(f string, v ...any)   { l.to.Error("raft: " + fmt.Sprintf(f, v...)) }
func (l *raftLogger) Fatal(v ...any)              { l.Panic(v...) }
func (l *raftLogger) Fatalf(f string, v ...any)   { l.Panicf(f, v...) }

func (l *raftLogger) Panic(v ...any) {
	l.to.Error("raft: " + fmt.Sprint(v...))
	l.panic.Panic(v...)
}

func (l *raftLogger) Panicf(f string, v ...any) { l.Panic(fmt.Sprintf(f, v...)) }
