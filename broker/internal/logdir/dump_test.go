package logdir

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/vfs"
)

func TestAFolderIsDumped(t *testing.T) {
	fs := vfs.NewMem(nil)
	if err := fs.MkdirAll("d/t-0"); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := vfs.ReplaceFile(fs, "d/"+name, []byte(text), false); err != nil {
			t.Fatal(err)
		}
	}
	write(metaFile, "version=1\ncluster.id=c\n")
	write(recoveryFile, "0\n2\nt 0 7\nt 1 9\n")
	write(cleanerFile, "0\n3\nt 0 7\n")
	write(pointsFile, "boot-1\nt 0 12 AAAAAAAAAAAAAAAAAAAAAQ\n")
	var out strings.Builder
	known, err := Dump(&out, fs, "d")
	if !known || !errors.Is(err, commitlog.ErrDamaged) {
		t.Errorf("known %v, %v; the cleaner's checkpoint names three entries and has one", known, err)
	}
	want := `d/meta.properties
  version=1
  cluster.id=c
d/recovery-point-offset-checkpoint
  t-0 offset 7
  t-1 offset 9
d/cleaner-offset-checkpoint
  DAMAGED line 2: "3" entries, 1 lines follow
d/tidemark-written-points
  boot boot-1
  t-0 offset 12 topic AAAAAAAAAAAAAAAAAAAAAQ
`
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
	out.Reset()
	if known, err := Dump(&out, fs, "d/"+recoveryFile); !known || err != nil {
		t.Errorf("one file: known %v, %v", known, err)
	}
	for _, name := range []string{"d/t-0", "d/nothing", "d/t-0/leader-epoch-checkpoint"} {
		if known, err := Dump(&out, fs, name); known || err != nil {
			t.Errorf("%s: known %v, %v", name, known, err)
		}
	}
}
