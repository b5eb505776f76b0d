// Package group decides what consumer groups do.
package group
