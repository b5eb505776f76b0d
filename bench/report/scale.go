package report

import "math"

// scale maps values to a picture's coordinates.
type scale struct {
	low, high float64 // of the values
	from, to  float64 // of the picture
	log       bool
}

// at is the coordinate of v, held inside the picture.
func (s scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		if v <= 0 {
			return s.from
		}
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	if high <= low || math.IsNaN(v) {
		return s.from
	}
	return s.from + (s.to-s.from)*min(1, max(0, (v-low)/(high-low)))
}

// span widens [low, high] to hold v.
type extent struct{ low, high float64 }

func newExtent() extent { return extent{math.Inf(1), math.Inf(-1)} }

func (e *extent) add(v float64) {
	if !math.IsNaN(v) && !math.IsInf(v, 0) {
		e.low, e.high = min(e.low, v), max(e.high, v)
	}
}

func (e *extent) positive(v float64) {
	if v > 0 {
		e.add(v)
	}
}

func (e extent) empty() bool { return e.low > e.high }

// logScale makes a log axis over the extent with room at both ends.
func logScale(e extent, from, to float64) scale {
	if e.empty() {
		e = extent{0.1, 10}
	}
	low, high := e.low/1.25, e.high*1.25
	if high/low < 4 {
		middle := math.Sqrt(low * high)
		low, high = middle/2, middle*2
	}
	return scale{low: low, high: high, from: from, to: to, log: true}
}

// ticks are the values that the axis names; at most about n of them.
func (s scale) ticks(n int) []float64 {
	var out []float64
	if s.log {
		for _, steps := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
			out = out[:0]
			for e := math.Floor(math.Log10(s.low)); e <= math.Ceil(math.Log10(s.high)); e++ {
				for _, m := range steps {
					if v := m * math.Pow(10, e); v >= s.low*0.999 && v <= s.high*1.001 {
						out = append(out, v)
					}
				}
			}
			if len(out) <= n {
				break
			}
		}
		return out
	}
	if s.high <= s.low || n < 1 {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10((s.high-s.low)/float64(n))))
	for _, m := range []float64{1, 2, 5, 10} {
		if (s.high-s.low)/(step*m) <= float64(n) {
			step *= m
			break
		}
	}
	for v := math.Ceil(s.low/step) * step; v <= s.high*1.0001; v += step {
		out = append(out, v)
	}
	return out
}

// ratioTicks are the values that an axis of ratios names.
func ratioTicks(s scale) []float64 {
	for _, set := range [][]float64{
		{0.8, 0.9, 1, 1.1, 1.25}, {0.5, 0.7, 1, 1.4, 2}, {0.25, 0.5, 1, 2, 4}, {0.1, 0.3, 1, 3, 10}, {0.01, 0.1, 1, 10, 100},
	} {
		if s.low >= set[0]/1.6 && s.high <= set[len(set)-1]*1.6 {
			return within(set, s)
		}
	}
	return s.ticks(7)
}

func within(values []float64, s scale) []float64 {
	var out []float64
	for _, v := range values {
		if v >= s.low && v <= s.high {
			out = append(out, v)
		}
	}
	return out
}
