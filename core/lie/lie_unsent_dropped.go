//go:build lie_unsent_dropped

package lie

// Told is the lie of this build.
const Told = UnsentDropped
