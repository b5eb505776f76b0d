package loadgen

import (
	"errors"

	"github.com/tidemark/tidemark/loadgen/workload"
)

// Exit codes of the command, as all of tidemark's commands use them.
const (
	exitFailed  = 1 // a condition of --fail-if holds
	exitUsage   = 2
	exitOpen    = 3 // no condition holds, and the run cannot tell that none would
	exitInvalid = 4
	exitFailure = 5
)

// exitError is an error that wants a particular exit code.
type exitError struct {
	code int
	err  error
}

// Error is the message for people.
//
// What others named in it cannot move the terminal's cursor.
func (e *exitError) Error() string { return visible(e.err.Error()) }

// Unwrap gives the cause.
func (e *exitError) Unwrap() error { return e.err }

// ExitCode is what the process ends with; main looks for this method.
func (e *exitError) ExitCode() int { return e.code }

func usage(err error) error   { return &exitError{exitUsage, err} }
func failure(err error) error { return &exitError{exitFailure, err} }

// ExitCode is the exit code that an error of this package asks for: 0 for nil, 1 for a condition of --fail-if that holds, 2
// for a usage error, 3 where --fail-if cannot tell, 4 for an invalid run, 5 for everything else.
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
