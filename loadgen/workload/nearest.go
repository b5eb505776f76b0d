package workload

import "fmt"

// Nearest is the name among known that is the fewest edits away from word, or "" where none is near enough to suggest.
func Nearest(word string, known []string) string {
	best, bestEdits := "", max(1, len(word)/2)+1
	for _, k := range known {
		if d := edits(word, k); d < bestEdits {
			best, bestEdits = k, d
		}
	}
	return best
}

func didYouMean(word string, known []string) string {
	if n := Nearest(word, known); n != "" {
		return fmt.Sprintf(" (did you mean %q?)", n)
	}
	return ""
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
