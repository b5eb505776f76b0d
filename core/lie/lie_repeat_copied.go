//go:build lie_repeat_copied

package lie

// Told is the lie of this build.
const Told = RepeatCopied
