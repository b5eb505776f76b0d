package vfs

import (
	"errors"
	"fmt"
	"io"
	"path"
)

// ReadFile reads a whole file of at most maxBytes; a larger one is ErrTooLarge.
func ReadFile(fs FS, name string, maxBytes int64) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		return nil, err
	}
	if n > maxBytes {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are expected: %w", name, n, maxBytes, ErrTooLarge)
	}
	b := make([]byte, n)
	got, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:got], nil
}

// ReplaceFile puts data under a name in one step: it writes name.tmp and renames it, so that a reader finds the old
// content or the new one, whole. With durable it syncs the file before the rename and the folder after it.
func ReplaceFile(fs FS, name string, data []byte, durable bool) error {
	tmp := name + ".tmp"
	f, err := fs.Create(tmp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, fs.Remove(tmp))
	}
	if err := fs.Rename(tmp, name); err != nil {
		return err
	}
	if durable {
		return fs.SyncDir(path.Dir(name))
	}
	return nil
}
