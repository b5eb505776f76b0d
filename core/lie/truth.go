//go:build !lie_stamp_at_send && !lie_failed_dropped && !lie_unsent_dropped && !lie_clamp_60s && !lie_warm_up_counted && !lie_window_by_completion && !lie_parts_averaged && !lie_always_verified && !lie_direction_flipped && !lie_main_thread_cpu && !lie_ceiling_cached && !lie_repeat_copied

package lie

// Told is None: this build tells the truth.
const Told = None
