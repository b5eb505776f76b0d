//go:build lie_warm_up_counted

package lie

// Told is the lie of this build.
const Told = WarmUpCounted
