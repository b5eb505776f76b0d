//go:build !invariants && !race

package invariants

// Enabled says whether this build checks invariants: it has neither the tag `invariants` nor the race detector.
const Enabled = false
