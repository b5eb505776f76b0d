//go:build lie_failed_dropped

package lie

// Told is the lie of this build.
const Told = FailedDropped
