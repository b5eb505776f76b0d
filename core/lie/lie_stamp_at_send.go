//go:build lie_stamp_at_send

package lie

// Told is the lie of this build.
const Told = StampAtSend
