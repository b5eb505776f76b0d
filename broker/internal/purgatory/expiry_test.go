package purgatory

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

type waiting struct {
	Wait
	d     time.Duration
	fired *[]time.Duration
	began time.Time
}

func (w *waiting) Expired() { *w.fired = append(*w.fired, time.Since(w.began)) }

func TestWaitsExpireAtTheirTimesAndRemovedOnesNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New()
		r := rand.New(rand.NewPCG(1, 1))
		var fired, want []time.Duration
		var all []*waiting
		began := time.Now()
		for range 500 {
			w := &waiting{d: time.Duration(1+r.IntN(1000)) * time.Millisecond, fired: &fired, began: began}
			all = append(all, w)
			p.Add(&w.Wait, w.d, w)
		}
		for i, w := range all {
			if i%3 == 0 {
				if !p.Remove(&w.Wait) || p.Remove(&w.Wait) {
					t.Fatal("a wait that is in can be removed once")
				}
				continue
			}
			want = append(want, w.d)
		}
		<-time.After(2 * time.Second) // of the bubble's clock
		synctest.Wait()
		slices.Sort(want)
		if !slices.Equal(fired, want) || p.Len() != 0 {
			t.Fatalf("%d expired, %d wanted, %d left", len(fired), len(want), p.Len())
		}
		p.Close()
	})
}

func TestAnEarlierWaitMovesTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New()
		var fired []time.Duration
		began := time.Now()
		for _, ms := range []int{500, 20, 300} {
			w := &waiting{fired: &fired, began: began}
			p.Add(&w.Wait, time.Duration(ms)*time.Millisecond, w)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if !slices.Equal(fired, []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond}) {
			t.Fatal(fired)
		}
	})
}
