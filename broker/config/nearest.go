package config

// Nearest is the known name that somebody who wrote name may have meant, or "".
func Nearest(name string, known []string) string { return nearest(name, known) }

// nearest is the known name that takes the fewest insertions, deletions, replacements and swaps of neighbours to reach
// from name, or "" when none is close enough to be a slip of the keyboard.
// Only names of a likely length are looked at: the work grows with the length, and clients send names.
func nearest(name string, known []string) string {
	if len(name) > 128 {
		return ""
	}
	best, bound := "", max(2, len(name)/4)+1
	for _, k := range known {
		if d := editDistance(name, k); d < bound {
			best, bound = k, d
		}
	}
	return best
}

func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
