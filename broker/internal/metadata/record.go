// Package metadata is the cluster as its committed metadata records describe it: topics, partitions, brokers, configs
// and features, as an immutable image that is swapped whole.
//
// It imports no other room of the broker, holds no lock and starts no goroutine. An Image may be read by any number of
// goroutines; Apply shares everything that did not change with the image before it.
package metadata

// Record is one committed change.
type Record interface{ record() }
