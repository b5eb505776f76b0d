//go:build lie_direction_flipped

package lie

// Told is the lie of this build.
const Told = DirectionFlipped
