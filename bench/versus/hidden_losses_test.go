package versus

import (
	"strings"
	"testing"
)

// TestRecordsWithoutAnAckMayHideLosses: a log of as many records as were acknowledged holds all of them only where no other
// record can be there.
func TestRecordsWithoutAnAckMayHideLosses(t *testing.T) {
	for _, c := range []struct {
		name                      string
		acked, distinct, notAcked int64
		lost, hidden              int64
		unverified                string
	}{
		{"all there", 100, 100, 0, 0, 0, ""},
		{"three lost", 100, 97, 0, 3, 0, ""},
		{"five had no ack", 100, 100, 5, 0, 5, ""},
		{"five had no ack, two of them landed or more", 100, 102, 5, 0, 3, ""},
		{"five had no ack, and three are lost at least", 100, 97, 5, 3, 5, ""},
		{"more had no ack than are there", 100, 3, 500, 97, 3, ""},
		{"more there than were sent", 100, 107, 5, 0, 0, "107 records are there and 105 were sent"},
	} {
		w := &Window{Arm: "kafka", Status: "ok", Acked: c.acked}
		w.found(&readBack{read: c.distinct, distinct: c.distinct}, c.notAcked, true)
		if w.Lost != c.lost || w.Hidden != c.hidden || !strings.Contains(w.Unverified, c.unverified) || (w.Unverified == "") != (c.unverified == "") {
			t.Errorf("%s: lost %d, hidden %d, %q; want %d, %d, %q", c.name, w.Lost, w.Hidden, w.Unverified, c.lost, c.hidden, c.unverified)
		}
	}
}

func TestWhatMayBeHiddenIsSaid(t *testing.T) {
	p := repeat([2]float64{250, 100}, 2)
	d := document(Goal{Measure: "MB per CPU-s", Ratio: 2}, [][][2]float64{p, p, p})
	text := func() string {
		r := Analyse(d)
		return strings.Join(answer(d, r), "\n") + "\n" + strings.Join(footers(d, r, ""), "\n")
	}
	if strings.Contains(text(), "would not show") {
		t.Error(text())
	}
	w := d.Blocks[1].windowsOf("kafka")[0]
	w.Hidden, w.Folder = 12, "runs/033"
	d.Damaged = append(d.Damaged, &Window{Arm: "tidemark", Lost: 1, Hidden: 3})
	for _, want := range []string{"lost 1, duplicated 0, out of order 0, corrupt 0", "a loss of up to 15 more would not show",
		"row in process 2: kafka left", "a loss of up to 12 would not show", "runs/033"} {
		if !strings.Contains(text(), want) {
			t.Errorf("no %q in\n%s", want, text())
		}
	}
}
