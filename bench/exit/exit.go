// Package exit gives errors the exit code that a bench's command ends the process with: main asks an error for it by the
// method ExitCode, and knows no type. It has no state.
package exit

import "errors"

// Exit codes of the interface (DESIGN 1).
const (
	Regression   = 1
	Usage        = 2
	Inconclusive = 3
	Invalid      = 4
	Failure      = 5
)

// Error is an error with its exit code; an empty text prints nothing.
type Error struct {
	Code int
	Err  error
}

// Error is the text of what happened, without the code.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap is what happened.
func (e *Error) Unwrap() error { return e.Err }

// ExitCode is the code that main ends with.
func (e *Error) ExitCode() int { return e.Code }

// With gives err a code, unless it has one: who was nearer to what happened knows better. nil stays nil.
func With(code int, err error) error {
	var coded *Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return &Error{code, err}
}

// Of is the code of an error, and 0 for none; one that was given none is a failure.
func Of(err error) int {
	var coded *Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.Code
	}
	return Failure
}
