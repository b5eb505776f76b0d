// Package buf hands out byte buffers that are counted by reference and come in size classes, so that frames and record
// batches pass from the socket to the log and back to sockets without a copy and without work for the garbage
// collector.
//
//	512 B  1 KiB  2 KiB ... 512 KiB  1 MiB  4 MiB  8 MiB  16 MiB | larger: plain allocations, never kept
//
// A Pool keeps released buffers per class. It holds each one strongly in a free list of a bounded number of bytes, so
// that a steady state allocates nothing at all even across garbage collections, and lets the rest overflow into a
// sync.Pool, which the collector empties when traffic falls.
//
// Rules: Get gives one reference. Whoever passes a Buf on and keeps using it calls Retain first. After the last Release
// the bytes belong to someone else; in builds with invariants they are scribbled over, and one Release too many is a
// bug. Pool and Buf may be used from any goroutine; the bytes themselves are the holders' to synchronise.
package buf
