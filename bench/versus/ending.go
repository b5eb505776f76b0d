package versus

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
)

// errInvalid says that data was lost, damaged, or repeated or reordered against its promise.
var errInvalid = errors.New("acknowledged records were lost or damaged, or repeated or reordered where idempotence forbids it; see the report")

// finish prints the table and writes the report. Its error is for what the data say, of a document of any state.
func finish(w io.Writer, d *Document, dir string) error {
	Print(w, d, dir)
	if err := WriteReport(d, dir); err != nil {
		return err
	}
	fmt.Fprintf(w, "report    %s\n", filepath.Join(dir, "report.html"))
	if d.damaged() {
		return failWith(exitInvalid, errInvalid)
	}
	return nil
}

// ending prints what a session measured and returns what its process ends with: broken data go before all else, then what
// ended the session, then a table in which nothing can be read. A budget that was spent between rows is an end like any other.
func ending(w io.Writer, d *Document, dir string, err error) error {
	data := finish(w, d, dir)
	switch {
	case err != nil:
	case d.State != "finished":
		err = fmt.Errorf("%s: what was measured is in %s; go on with: tidemark bench versus --resume --out %s, and the same --profile and --rows", d.State, dir, dir)
	default:
		err = d.empty()
	}
	if data == nil {
		return failWith(exitFailure, err)
	}
	if err == nil {
		return failWith(exitFailure, data)
	}
	return failWith(exitFailure, errors.Join(data, err)) // the first one's code
}

// damaged reports whether data were broken in any window, in no row too.
func (d *Document) damaged() bool {
	broken := func(w *Window) bool { return w.damaged() }
	return slices.ContainsFunc(d.Damaged, broken) || slices.ContainsFunc(d.Blocks, func(b *Block) bool { return slices.ContainsFunc(b.all(), broken) })
}

// empty says why a finished session shows nothing: every row failed, or none settled.
func (d *Document) empty() error {
	why := errors.New("nothing was measured; see the notes")
	measured := false
	for _, b := range d.Blocks {
		if d.shows(b) {
			return nil
		}
		if measured = measured || b.Error == ""; b.Error != "" {
			why = fmt.Errorf("every row failed, the last one by: %s", b.Error)
		}
	}
	if measured {
		return failWith(exitInconclusive, errors.New("no block of the session settled: there is no ratio; more --budget gives each row more windows"))
	}
	return failWith(exitFailure, why)
}

// shows reports whether a block counts for ours beside one of Kafka's settings, or was measured alone.
func (d *Document) shows(b *Block) bool {
	if len(b.Arms) == 0 {
		return b.Error == ""
	}
	return slices.ContainsFunc(b.Arms, func(arm string) bool { return arm != d.ours() && b.Counts(d.ours(), arm) })
}
