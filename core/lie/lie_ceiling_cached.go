//go:build lie_ceiling_cached

package lie

// Told is the lie of this build.
const Told = CeilingCached
