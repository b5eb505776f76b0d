package loadgen

import (
	"errors"

	"github.com/tidemark/tidemark/loadgen/workload"
)

// Exit codes of the command, as all of tidemark's commands use them.
const (
	exitUsage   = 2
	exitInvalid = 4
	exitFailure = 5
)

// exitError is an error that wants a particular exit code.
type exitError struct {
	code int
	err  error
}

// Error is the message for people.
func (e *exitError) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *exitError) Unwrap() error { return e.err }

// ExitCode is what the process ends with; main looks for this method.
func (e *exitError) ExitCode() int { return e.code }

func usage(err error) error   { return &exitError{exitUsage, err} }
func failure(err error) error { return &exitError{exitFailure, err} }

// ExitCode is the exit code that an error of this package asks for: 0 for nil, 2 for a usage error, 4 for an invalid
// run, 5 for everything else.
func ExitCode(err error) int {
	var e *exitError
	var p *workload.Problem
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.code
	case errors.As(err, &p):
		return exitUsage
	}
	return exitFailure
}
