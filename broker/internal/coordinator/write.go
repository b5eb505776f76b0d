package coordinator

import (
	"time"

	"github.com/tidemark/tidemark/broker/internal/group"
	"github.com/tidemark/tidemark/core/kafka"
)

const (
	// maxUnwritten is how many bytes of batches wait to be written before no more are made: the records of one request may be
	// much larger than what they are made from.
	maxUnwritten = 4 << 20
	// recordOverhead is the most that a record's lengths, deltas and attributes take.
	recordOverhead = 28
	// keptWrites is how long a list is kept for the next round.
	keptWrites = 1024
)

// write appends the records that wait, in as few batches as hold them, up to maxUnwritten. The others follow when something has been
// written.
func (s *shard) write(now group.Now) {
	if len(s.writes) == 0 || s.unwritten >= maxUnwritten {
		return
	}
	if s.log == nil {
		log, code := s.g.o.Open(s.p)
		if code != kafka.None {
			s.g.o.Logger.Error("group coordinator could not open its partition", "topic", kafka.OffsetsTopic, "partition", s.p, "error", code)
			failed := s.writes
			s.writes = nil
			for _, w := range failed {
				s.machine.Written(now, w.Ticket, kafka.KafkaStorageError)
			}
			s.carryOut(now)
			return
		}
		s.log = log
	}
	limit := s.log.MaxBatchBytes()
	unpacked := limit
	if s.g.o.Config.OffsetsTopicCompressionCodec != 0 {
		unpacked = loadDecompressedBytes // a load reads no more
	}
	all := s.writes
	for len(s.writes) > 0 && s.unwritten < maxUnwritten {
		if first := &s.writes[0]; first.Bytes > unpacked { // its records are never made
			s.outcome([]uint64{first.Ticket}, 0)(kafka.MessageTooLarge)
			s.writes = s.writes[1:]
			continue
		}
		tickets := s.fill(now, min(limit, unpacked))
		s.writes = s.writes[len(tickets):]
		s.append(tickets, limit)
	}
	if len(s.writes) == 0 {
		clear(all)
		if s.writes = all[:0]; cap(all) > keptWrites {
			s.writes = nil
		}
	}
}

// fill puts as many writes into the builder as fit limit bytes together, at least the first.
func (s *shard) fill(now group.Now, limit int) (tickets []uint64) {
	s.builder.Reset(now.WallMS, -1, -1, -1, 0)
	for _, w := range s.writes {
		if len(tickets) > 0 && s.builder.Bytes()+w.Bytes+w.Records.Count()*recordOverhead > limit {
			break
		}
		for i := range w.Records.Count() {
			r := w.Records.Record(i)
			s.builder.Append(now.WallMS, r.Key, r.Value)
		}
		tickets = append(tickets, w.Ticket)
	}
	return tickets
}

// append writes what the builder holds.
func (s *shard) append(tickets []uint64, limit int) {
	s.g.met.records.Add(float64(s.builder.Records()))
	batch, err := s.builder.Finish(nil)
	done := s.outcome(tickets, len(batch))
	switch {
	case err != nil:
		s.g.o.Logger.Error("group records could not be encoded", "partition", s.p, "error", err)
		done(kafka.UnknownServerError)
	case len(batch) > limit:
		done(kafka.MessageTooLarge)
	default:
		s.log.Append(batch, done)
	}
}

// outcome gives what to call with the outcome of writes, whose batch has so many bytes: the machine is told by a message.
func (s *shard) outcome(tickets []uint64, bytes int) func(kafka.ErrorCode) {
	machine, began := s.machine, time.Now()
	s.unwritten += bytes
	return func(code kafka.ErrorCode) {
		if s.g.met.appendSeconds.Observe(time.Since(began).Seconds()); code != kafka.None {
			s.g.met.failures.Inc()
		}
		s.postInternal(func(s *shard, now group.Now) {
			if s.machine != machine {
				return // resigned since: the machine's callers have been answered
			}
			s.unwritten -= bytes
			for _, t := range tickets {
				machine.Written(now, t, code)
			}
		})
	}
}
