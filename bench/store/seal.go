package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// SealName is the file that lists the SHA-256 of every other file of a folder, as `sha256sum -c` reads it. It shows
// accidents, not forgery: who changes a file can write it anew.
const SealName = "hashes.txt"

// Seal writes SealName over what the folder holds now. The broker's data, half-filled repeats, locks and temporary files
// are left out.
func Seal(dir string) error {
	var names []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch {
		case e.IsDir() && (name == "broker-data" || strings.HasSuffix(name, ".partial")):
			return fs.SkipDir
		case !e.Type().IsRegular(), name == SealName, strings.HasPrefix(e.Name(), "."), strings.HasSuffix(name, ".tmp"), strings.ContainsAny(name, "\n\\"):
			return nil
		}
		names = append(names, filepath.ToSlash(name))
		return nil
	})
	if err != nil {
		return fmt.Errorf("seal %s: %w", dir, err)
	}
	slices.Sort(names)
	var list bytes.Buffer
	for _, name := range names {
		sum, err := hashFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return fmt.Errorf("seal %s: %w", dir, err)
		}
		fmt.Fprintf(&list, "%s  %s\n", sum, name)
	}
	return writeWhole(filepath.Join(dir, SealName), list.Bytes())
}

// unseal takes the list away: a folder that is being filled is not sealed.
func (f *Folder) unseal() error {
	if err := os.Remove(f.Path(SealName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
