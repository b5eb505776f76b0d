//go:build lie_clamp_60s

package lie

// Told is the lie of this build.
const Told = Clamp60s
