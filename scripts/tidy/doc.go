// Package tidy judges the house rules: what may import what, which names, sizes and comments the tree's Go files have,
// and that the repo's DESIGN.md lists each package. It is a test and nothing else; `go test ./scripts/tidy` runs it.
// Each message gives file and line and says what to do instead.
package tidy
