package commitlog

import (
	"slices"
	"strings"

	"github.com/tidemark/tidemark/core/kafka"
)

// finishSwaps brings a compaction that a crash has cut short to an end, forwards or backwards, by the names that are
// there (see replace). It may itself be cut short anywhere. It reports whether it changed anything.
func (l *Log) finishSwaps(names []string) (bool, error) {
	has := map[string]bool{}
	for _, n := range names {
		has[n] = true
	}
	var swaps, undo []string
	for _, n := range names {
		base, suffix, ok := parseOffsetName(n)
		switch {
		case !ok:
		case hasSuffix(suffix, suffixCleaned):
			undo = append(undo, n)
		case suffix == kindLog.suffix()+suffixSwap:
			swaps = append(swaps, n)
		case hasSuffix(suffix, suffixSwap) && !has[offsetName(base)+kindLog.suffix()+suffixSwap]:
			undo = append(undo, n)
		}
	}
	// A .log.cleaned tells that the .swap files of its indexes count for nothing, so it goes last.
	slices.SortFunc(undo, func(a, b string) int {
		isLog := func(n string) int { return strings.Count(n, kindLog.suffix()+suffixCleaned) }
		return isLog(a) - isLog(b)
	})
	for _, n := range undo {
		if err := l.removeName(n); err != nil {
			return true, err
		}
	}
	for _, n := range swaps {
		if err := l.finishSwap(n, has); err != nil {
			return true, err
		}
	}
	if len(swaps) > 0 {
		return true, l.env.FS.SyncDir(l.Dir())
	}
	return len(undo) > 0, nil
}

// finishSwap does steps 3 and 4 of replace.
func (l *Log) finishSwap(swap string, has map[string]bool) error {
	base, _, _ := parseOffsetName(swap)
	end, err := l.swapEnd(swap, base)
	if err != nil {
		return err
	}
	l.env.Logger.Info("compaction is brought to an end", "file", l.Dir()+"/"+swap, "end", end)
	for n := range has {
		if o, suffix, ok := parseOffsetName(n); ok && o > base && o < end && isSegmentSuffix(suffix) {
			if err := l.removeName(n); err != nil {
				return err
			}
		}
	}
	if name := offsetName(base); has[name+kindLog.suffix()] { // then its indexes are old ones
		for k := kinds - 1; k >= kindLog; k-- {
			if err := l.removeName(name + k.suffix()); err != nil {
				return err
			}
		}
	}
	for k := kinds - 1; k >= kindLog; k-- {
		to := l.fileName(base, k.suffix())
		if err := l.env.FS.Rename(to+suffixSwap, to); err != nil && !isNotExist(err) {
			return err
		}
	}
	return nil
}

// swapEnd reads where a new segment ends. It ends with the last batch of the group that it was made from, so old segments
// that begin below are the rest of that group.
func (l *Log) swapEnd(swap string, base kafka.Offset) (kafka.Offset, error) {
	f, err := l.env.FS.Open(l.Dir() + "/" + swap)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	sc := newScanner(f, size, l.env.Pool, lookupChunk)
	defer sc.close()
	end := base
	for pos := int64(0); ; {
		h, n, err := sc.header(pos)
		if err != nil {
			return end, nil // the end, or damage, which recovery tells of
		}
		end = h.LastOffset() + 1
		pos += n
	}
}

func isSegmentSuffix(suffix string) bool {
	for k := kindLog; k < kinds; k++ {
		if suffix == k.suffix() {
			return true
		}
	}
	return suffix == suffixSnapshot
}

func (l *Log) removeName(name string) error {
	if err := l.env.FS.Remove(l.Dir() + "/" + name); err != nil && !isNotExist(err) {
		return err
	}
	return nil
}
