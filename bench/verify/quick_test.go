package verify_test

import (
	"testing"

	"github.com/tidemark/tidemark/bench/verify"
)

func TestThePublishedRunHolds(t *testing.T) {
	o, err := verify.Dir("../../results/quick")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range o.Findings {
		t.Errorf("%s: %s", f.Place, f.Text)
	}
	t.Logf("%+v", *o)
}
