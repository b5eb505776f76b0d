//go:build invariants || race

package invariants

// Enabled says whether this build checks invariants: it has the tag `invariants` or the race detector.
const Enabled = true
