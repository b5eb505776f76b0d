package report_test

import "testing"

func TestLook(t *testing.T) {
	page, md := newBench(t, "quick").realistic().write()
	t.Logf("%d bytes of HTML, %d of Markdown", len(page), len(md))
}
