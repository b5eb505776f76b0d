package commitlog

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/tidemark/tidemark/core/kafka"
)

// EpochStart says at which offset a leader epoch began.
type EpochStart struct {
	Epoch kafka.LeaderEpoch
	Start kafka.Offset
}

// epochCache is the list of leader epochs of a log, ascending in both fields; Log.mu guards it.
type epochCache struct {
	list  []EpochStart
	dirty bool // differs from the checkpoint file
}

func (c *epochCache) latest() kafka.LeaderEpoch {
	if n := len(c.list); n > 0 {
		return c.list[n-1].Epoch
	}
	return kafka.NoLeaderEpoch
}

// assign notes that an epoch begins at start. Older epochs that begin there or later held no records and go.
func (c *epochCache) assign(e kafka.LeaderEpoch, start kafka.Offset) {
	if e < 0 || e <= c.latest() {
		return
	}
	n := len(c.list)
	for n > 0 && c.list[n-1].Start >= start {
		n--
	}
	c.list = append(c.list[:n], EpochStart{e, start})
	c.dirty = true
}

// cutEnd forgets epochs that begin at end or later.
func (c *epochCache) cutEnd(end kafka.Offset) {
	n := len(c.list)
	for n > 0 && c.list[n-1].Start >= end {
		n--
	}
	if n < len(c.list) {
		c.list, c.dirty = c.list[:n], true
	}
}

// cutStart forgets epochs that end at start or before; the one that holds start begins there.
func (c *epochCache) cutStart(start kafka.Offset) {
	n := 0
	for n+1 < len(c.list) && c.list[n+1].Start <= start {
		n++
	}
	if len(c.list) == 0 || c.list[n].Start >= start {
		return
	}
	c.list = slices.Delete(c.list, 0, n)
	c.list[0].Start, c.dirty = start, true
}

// endOf answers OffsetForLeaderEpoch as Kafka's LeaderEpochFileCache does.
func (c *epochCache) endOf(e kafka.LeaderEpoch, logEnd kafka.Offset) (kafka.LeaderEpoch, kafka.Offset) {
	if e < 0 || e > c.latest() {
		return kafka.NoLeaderEpoch, kafka.NoOffset
	}
	if e == c.latest() {
		return e, logEnd
	}
	i := 0 // the first epoch after e
	for c.list[i].Epoch <= e {
		i++
	}
	if i == 0 {
		return e, c.list[0].Start
	}
	return c.list[i-1].Epoch, c.list[i].Start
}

// epochAt is the epoch under which an offset was written.
func (c *epochCache) epochAt(off kafka.Offset) kafka.LeaderEpoch {
	for i := len(c.list) - 1; i >= 0; i-- {
		if c.list[i].Start <= off {
			return c.list[i].Epoch
		}
	}
	return kafka.NoLeaderEpoch
}

// appendEpochs encodes a leader-epoch-checkpoint.
func appendEpochs(dst []byte, list []EpochStart) []byte {
	dst = append(dst, "0\n"...)
	dst = strconv.AppendInt(dst, int64(len(list)), 10)
	dst = append(dst, '\n')
	for _, e := range list {
		dst = strconv.AppendInt(dst, int64(e.Epoch), 10)
		dst = append(dst, ' ')
		dst = strconv.AppendInt(dst, int64(e.Start), 10)
		dst = append(dst, '\n')
	}
	return dst
}

// parseEpochs reads a leader-epoch-checkpoint. Errors name the line.
func parseEpochs(b []byte) ([]EpochStart, error) {
	lines := bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
	if len(lines) < 2 || string(lines[0]) != "0" {
		return nil, fmt.Errorf("line 1: want version 0 and a count: %w", ErrCorrupt)
	}
	n, err := strconv.Atoi(string(lines[1]))
	if err != nil || n != len(lines)-2 {
		return nil, fmt.Errorf("line 2: count is %q, there are %d entries: %w", lines[1], len(lines)-2, ErrCorrupt)
	}
	list := make([]EpochStart, 0, n)
	for i, line := range lines[2:] {
		epoch, start, ok := bytes.Cut(line, []byte(" "))
		e, err1 := strconv.ParseInt(string(epoch), 10, 32)
		o, err2 := strconv.ParseInt(string(start), 10, 64)
		if !ok || err1 != nil || err2 != nil || e < 0 || o < 0 {
			return nil, fmt.Errorf("line %d: %q is not an epoch and an offset: %w", i+3, line, ErrCorrupt)
		}
		if k := len(list); k > 0 && (int64(list[k-1].Epoch) >= e || int64(list[k-1].Start) > o) {
			return nil, fmt.Errorf("line %d: epoch %d at %d does not follow epoch %d at %d: %w", i+3, e, o, list[k-1].Epoch, list[k-1].Start, ErrCorrupt)
		}
		list = append(list, EpochStart{kafka.LeaderEpoch(e), kafka.Offset(o)})
	}
	return list, nil
}
