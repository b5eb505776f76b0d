package partition

import (
	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
)

// SetReplicas says how many replicas the partition has.
func (p *Partition) SetReplicas(n int) { p.replicas.Store(int32(n)) }

// minInSync is how many replicas must be in sync for acks=all: min.insync.replicas, but never more than there are (KIP-966).
func (p *Partition) minInSync(cfg *Config) int {
	if n := int(p.replicas.Load()); n > 0 {
		return min(cfg.MinInsyncReplicas, n)
	}
	return cfg.MinInsyncReplicas
}

// DeleteRecords moves the log start up to an offset, at most the high watermark, which kafka.NoOffset stands for. It
// answers the log start, or why nothing was deleted. Segments below the start go when retention next looks.
func (p *Partition) DeleteRecords(before kafka.Offset) (kafka.Offset, kafka.ErrorCode) {
	cfg := p.cfg.Load()
	switch {
	case p.offline.Load():
		return kafka.NoOffset, kafka.KafkaStorageError
	case p.role.Load() == notLeader:
		return kafka.NoOffset, p.notLeading()
	case cfg.Compacted && !cfg.Log.DeleteOnRetention:
		return kafka.NoOffset, kafka.PolicyViolation
	}
	hw := p.HighWatermark()
	if before == kafka.NoOffset {
		before = hw
	}
	if before < 0 || before > hw {
		return kafka.NoOffset, kafka.OffsetOutOfRange
	}
	if err := p.o.Log.DeleteBefore(before); err != nil {
		return kafka.NoOffset, p.readError(err)
	}
	p.LogStartMoved()
	return p.LogStart(), kafka.None
}

// ActiveProducers lists the producers whose state is kept, by id. It waits for the append lock.
func (p *Partition) ActiveProducers() ([]commitlog.ProducerState, kafka.ErrorCode) {
	if code := p.CheckEpoch(kafka.NoLeaderEpoch); code != kafka.None {
		return nil, code
	}
	var list []commitlog.ProducerState
	p.Exclusive(func() { list = p.producers.Active() })
	return list, kafka.None
}
