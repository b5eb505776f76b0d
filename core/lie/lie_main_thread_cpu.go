//go:build lie_main_thread_cpu

package lie

// Told is the lie of this build.
const Told = MainThreadCPU
