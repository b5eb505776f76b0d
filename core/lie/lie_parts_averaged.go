//go:build lie_parts_averaged

package lie

// Told is the lie of this build.
const Told = PartsAveraged
