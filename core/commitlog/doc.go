// Package commitlog keeps one partition's folder in Apache Kafka's on-disk format: append, read, truncate, recover,
// and drop what retention allows. Offsets, leader epochs and validation are decided above it, in package partition.
//
// # Files
//
// A folder topic-partition holds segments, each named for its base offset in 20 digits. All integers are big-endian.
//
//	00000000000000000000.log        record batches v2, one behind the other (package record draws them); while a busy segment is
//	                                appended to, up to Env.Room zeros behind the last (room.go)
//	00000000000000000000.index      8 bytes an entry: | offset - base int32 | position in .log int32 |
//	00000000000000000000.timeindex  12 bytes an entry: | timestamp int64 | offset - base int32 |
//	00000000000000000000.txnindex   34 bytes an aborted transaction, only where there is one:
//	                                | version int16 = 0 | producer id int64 | first offset int64 | last offset int64 |
//	                                | last stable offset int64 |
//	00000000000000000000.snapshot   the producers as of that offset:
//	                                | version int16 = 1 | CRC-32C of what follows uint32 | count int32 | entries |
//	                                46 bytes an entry: | producer id int64 | epoch int16 | last sequence int32 |
//	                                | last offset int64 | offset delta int32 | timestamp int64 |
//	                                | coordinator epoch int32 | first offset of the open transaction int64, or -1 |
//	leader-epoch-checkpoint         text: "0", the count, then a line "epoch start-offset" for each
//	partition.metadata              text: "version: 0", "topic_id: ..."
//
// An .index entry names a batch by its last offset and the position where it begins; a .timeindex entry says that the
// highest timestamp so far belongs to the batch with that last offset. Both have an entry every index.interval.bytes
// at most, and only real ones: the files are not padded. Files end in .deleted while file.delete.delay.ms runs.
//
// # What is written when
//
// Append writes the batches, by one pwritev, and nothing else. Index entries, aborted transactions and new leader
// epochs stay in memory and are written when 4 KiB of them have gathered, at a roll, by Checkpoint, Rest and Close:
// a pwrite of 256 bytes costs 4 µs, as much as that of a batch. After a crash they are made again from the batches
// behind the recovery point. Of the offset index only the newest entries are held in memory, older ones are read
// from the file: at full length it is 2 MiB for each partition.
//
// # Concurrency
//
// The methods marked "append lock" are called by whoever holds the partition's append lock; they may do I/O. All
// others are safe from any goroutine at any time. Log.work serialises what maintains files (flush, retention,
// truncation, close) and is held across fsync; Append and Read never take it. Log.mu guards the list of segments and
// what is known about them; it is never held across a system call. Order: append lock, work, mu, then the locks of
// TailBudget, FileCache and Producers, which are leaves. The package has no goroutine and no timer: work that must
// not run on the append path goes to Env.Later. Log.writing is held for the length of an Append or Roll, within the append
// lock; Rest, which has none, tries it inside work.
//
// A reader sees an offset once Publish has stored the new end; before that its batch may lie in file, index and ring
// already, and Append may yet take it back.
package commitlog
