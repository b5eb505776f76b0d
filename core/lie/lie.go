// Package lie breaks the measuring on purpose, so that tests can be seen to catch it (METHOD 9). Each lie is a build tag,
// lie_NAME; where the measuring would have to lie it asks
//
//	if lie.Told == lie.Clamp60s {
//
// and since both sides are constants a build without such a tag holds none of it. `make lies` builds each and shows the
// test that fails.
package lie

// Lie is the name of a way to be wrong, its build tag without "lie_".
type Lie string

// None is what every build tells but those of `make lies`.
const None Lie = ""

// The lies. Two tags at once do not compile.
const (
	StampAtSend        Lie = "stamp_at_send"        // a record is stamped when it is sent, not when it was intended: queueing before the send is hidden
	FailedDropped      Lie = "failed_dropped"       // failed records leave the percentiles
	UnsentDropped      Lie = "unsent_dropped"       // records that the driver never took were not intended
	Clamp60s           Lie = "clamp_60s"            // a latency above 60 s is counted as 60 s
	WarmUpCounted      Lie = "warm_up_counted"      // the window begins with the warm-up
	WindowByCompletion Lie = "window_by_completion" // a record belongs to the window by its ack: those under way at its end are gone
	PartsAveraged      Lie = "parts_averaged"       // a percentile is the mean of the seconds' percentiles
	AlwaysVerified     Lie = "always_verified"      // whatever was found, nothing was lost, repeated, swapped or damaged
	DirectionFlipped   Lie = "direction_flipped"    // lower is better for everything that is better when it is higher, and the other way round
	MainThreadCPU      Lie = "main_thread_cpu"      // the CPU of a process is that of its first thread
	CeilingCached      Lie = "ceiling_cached"       // the ceiling after a run is the one measured before it
	RepeatCopied       Lie = "repeat_copied"        // a repeat is the one before it once more
)
