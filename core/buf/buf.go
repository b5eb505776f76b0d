// Package buf hands out byte buffers that are counted by reference and come in size classes, so that frames and record
// batches pass from the socket to the log and back to sockets without a copy and without work for the garbage
// collector.
//
//	512 B  1 KiB  2 KiB ... 512 KiB  1 MiB  4 MiB  8 MiB  16 MiB | larger: plain allocations, never kept
//
// A Pool keeps released buffers in a sync.Pool for each class: a buffer that is used between two garbage collections
// stays, one that is not goes, so a steady state allocates nothing and an idle broker holds nothing. (Strong free lists
// would save the refill after a lull and hold their bound of memory for ever.)
//
// Rules: Get gives one reference. Whoever passes a Buf on and keeps using it calls Retain first. After the last Release
// the bytes belong to someone else. In builds with invariants released bytes are scribbled over, a write to them is
// found by the Get that hands them out again, and one Release too many is a bug. Pool and Buf may be used from any
// goroutine; the bytes themselves are the holders' to synchronise.
package buf
