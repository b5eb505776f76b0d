//go:build lie_always_verified

package lie

// Told is the lie of this build.
const Told = AlwaysVerified
