// Package invariants holds the assertions that the rest of the module makes about itself. They cost nothing unless the
// program is built with the tag `invariants` or with the race detector: Enabled is a constant, and every function
// here is small enough to be inlined and then to vanish.
//
// A broken invariant is a bug of ours and stops the process: this is the only package that panics. What a client or a
// disk may cause is an error, never an assertion. All functions may be called from any goroutine.
package invariants

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
)

// ErrBug marks the errors that Bug makes: a state that this program must never reach.
var ErrBug = errors.New("bug")

// scribbleByte is what released memory is filled with: as a length or an offset it is huge and negative.
const scribbleByte = 0xdb

// Check panics with "bug: " and the formatted text when ok is false, in builds with Enabled only. In a loop that runs
// for each record, stand it behind `if invariants.Enabled`, so that its arguments are not even built.
func Check(ok bool, format string, a ...any) {
	if Enabled && !ok {
		panic("bug: " + fmt.Sprintf(format, a...))
	}
}

// Bug makes an error whose text begins "bug: " and which is ErrBug for errors.Is, in every build: for broken
// invariants that are found on a way that can still report them. %w in format is honoured.
func Bug(format string, a ...any) error {
	return fmt.Errorf("%w: %w", ErrBug, fmt.Errorf(format, a...))
}

// Sometimes reports true in about percent of 100 calls when Enabled, and never otherwise. Tests use it to take rare
// ways (a short read, an early eviction) often.
func Sometimes(percent int) bool {
	return Enabled && rand.IntN(100) < percent
}

// Scribble fills b with a value that no one can mistake for data, when Enabled. The owner calls it as it lets b go.
func Scribble(b []byte) {
	if !Enabled {
		return
	}
	for i := range b {
		b[i] = scribbleByte
	}
}

// Scribbled reports whether b still holds what Scribble wrote, that is, whether no one wrote to it since it was let go.
func Scribbled(b []byte) bool {
	for _, c := range b {
		if c != scribbleByte {
			return false
		}
	}
	return true
}

// CloseOnce asserts that a thing is closed exactly once and not used afterwards. The zero value is open. It is a few
// bytes in every build, and checks only when Enabled.
type CloseOnce struct {
	closed atomic.Bool
}

// Close marks the thing closed; the second call is a bug.
func (c *CloseOnce) Close() {
	if Enabled && c.closed.Swap(true) {
		panic("bug: closed twice")
	}
}

// AssertOpen is a bug after Close.
func (c *CloseOnce) AssertOpen() {
	if Enabled && c.closed.Load() {
		panic("bug: used after it was closed")
	}
}
