//go:build lie_window_by_completion

package lie

// Told is the lie of this build.
const Told = WindowByCompletion
