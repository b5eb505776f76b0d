package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// SealName is the file that lists the SHA-256 of every other file of a bench's folder, as `sha256sum -c` reads it.
const SealName = "hashes.txt"

// seal compares files with the hashes in each result.json and in hashes.txt.
func (o *Outcome) seal(b *bench) {
	for _, r := range append(append([]*run{}, b.runs...), b.profiled...) {
		if r.result == nil {
			continue
		}
		for _, f := range r.result.Files {
			if !filepath.IsLocal(filepath.FromSlash(f.Name)) {
				o.find(r.place, "result.json lists %q, which lies outside its folder", f.Name)
				continue
			}
			o.Files++
			sum, err := hashOf(filepath.Join(r.dir, filepath.FromSlash(f.Name)))
			if err != nil {
				o.find(r.place, "%v", err)
			} else if sum != f.SHA256 {
				o.find(r.place, "%s was changed since result.json was written (SHA-256 differs)", f.Name)
			}
		}
	}
	text, err := readFile(filepath.Join(b.dir, SealName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		o.skip("%s: it is not there; an earlier version wrote none, and tidemark bench report writes it", SealName)
		return
	case err != nil:
		o.find(SealName, "%v", err)
		return
	}
	listed := map[string]bool{}
	for _, l := range strings.Split(strings.TrimRight(string(text), "\n"), "\n") {
		sum, name, ok := strings.Cut(l, "  ")
		if !ok || len(sum) != 64 || !filepath.IsLocal(filepath.FromSlash(name)) {
			o.find(SealName, "a line that is none: %.80q", l)
			continue
		}
		o.Files++
		listed[name] = true
		switch got, err := hashOf(filepath.Join(b.dir, filepath.FromSlash(name))); {
		case err != nil:
			o.find(SealName, "%v", err)
		case got != sum:
			o.find(name, "was changed since it was sealed (SHA-256 differs)")
		}
	}
	for _, r := range append(append([]*run{}, b.runs...), b.profiled...) {
		for _, f := range []string{"run.json", "result.json"} {
			rel, err := filepath.Rel(b.dir, filepath.Join(r.dir, f))
			if _, there := os.Stat(filepath.Join(r.dir, f)); err == nil && there == nil && !listed[filepath.ToSlash(rel)] {
				o.find(r.place, "%s is not among the sealed files", f)
			}
		}
	}
}

func hashOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
