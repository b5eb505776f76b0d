package result

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// Errors of Read, told apart by errors.Is.
var (
	// ErrNewer: the file was written by a later program, with a schema that this one does not know.
	ErrNewer = errors.New("result of a newer schema")
	// ErrDamaged: the file is cut short, no JSON, no result, or not what it was when it was written.
	ErrDamaged = errors.New("damaged result")
)

// maxResultBytes bounds what Read takes into memory: a day of one-second intervals is some 60 MB.
const maxResultBytes = 256 << 20

// Write writes the result as dir/result.json, whole or not at all: into a temporary file that is synced and renamed. It
// sets Schema. A number that JSON cannot hold (NaN, infinity) is a bug of who computed it: the result is written with 0 in
// its place and marked invalid with the field's name, because a run's measurements are worth more than the bug.
func (r *Result) Write(dir string) error {
	r.Schema = Schema
	for _, name := range scrub(reflect.ValueOf(r).Elem(), "") {
		r.Add(Verdict{Kind: Invalid, Reason: "bug: " + name + " was not a number"})
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	return writeWhole(filepath.Join(dir, FileName), append(b, '\n'))
}

func writeWhole(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	if d, err := os.Open(filepath.Dir(path)); err == nil {
		_ = d.Sync() // the name's durability; some file systems refuse it
		_ = d.Close()
	}
	return nil
}

// Read reads dir/result.json, or path itself where it is a file. Errors name the file; ErrNewer and ErrDamaged are told
// apart from those of the file system.
func Read(path string) (*Result, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, FileName)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxResultBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read result %s: %w", path, err)
	}
	r, err := Decode(b)
	if err != nil {
		return nil, fmt.Errorf("read result %s: %w", path, err)
	}
	return r, nil
}

// Decode reads the text of a result.json.
func Decode(b []byte) (*Result, error) {
	if len(b) > maxResultBytes {
		return nil, fmt.Errorf("%w: larger than %d bytes", ErrDamaged, maxResultBytes)
	}
	var head struct {
		Schema *int `json:"schema"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrDamaged, at(b, err))
	}
	switch {
	case head.Schema == nil || *head.Schema < 1:
		return nil, fmt.Errorf("%w: no field \"schema\": is this a result of tidemark load?", ErrDamaged)
	case *head.Schema > Schema:
		return nil, fmt.Errorf("%w: schema %d, this program reads up to %d: use a newer tidemark", ErrNewer, *head.Schema, Schema)
	}
	r := &Result{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrDamaged, at(b, err))
	}
	if err := r.consistent(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return r, nil
}

// at adds the line to an error of encoding/json.
func at(b []byte, err error) string {
	offset := int64(-1)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	}
	if offset < 0 || offset > int64(len(b)) {
		return err.Error()
	}
	return fmt.Sprintf("line %d: %s", 1+strings.Count(string(b[:offset]), "\n"), err)
}

// consistent checks what a reader relies on without looking.
func (r *Result) consistent() error {
	if !r.Ends.Sums() {
		e := r.Ends
		return fmt.Errorf("the ends do not add up: intended %d is not acked %d + failed %d + unanswered %d + unsent %d",
			e.Intended, e.Acked+e.HandedToSocket, e.Failed, e.Unanswered, e.Unsent)
	}
	for _, f := range r.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) {
			return fmt.Errorf("file %q lies outside the result's folder", f.Name)
		}
	}
	return nil
}

// AddFile hashes dir/name and lists it, replacing an earlier entry of that name.
func (r *Result) AddFile(dir, name, kind string) error {
	sum, n, err := hashFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	entry := File{Name: name, Bytes: n, SHA256: sum, Kind: kind}
	for i := range r.Files {
		if r.Files[i].Name == name {
			r.Files[i] = entry
			return nil
		}
	}
	r.Files = append(r.Files, entry)
	return nil
}

// CheckFiles compares the listed files with what stands in dir and names each that is missing or changed.
func (r *Result) CheckFiles(dir string) error {
	var problems []error
	for _, f := range r.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) {
			problems = append(problems, fmt.Errorf("file %q lies outside the result's folder", f.Name))
			continue
		}
		sum, n, err := hashFile(filepath.Join(dir, filepath.FromSlash(f.Name)))
		switch {
		case err != nil:
			problems = append(problems, err)
		case n != f.Bytes:
			problems = append(problems, fmt.Errorf("%w: %s has %d bytes, was written with %d", ErrDamaged, f.Name, n, f.Bytes))
		case sum != f.SHA256:
			problems = append(problems, fmt.Errorf("%w: %s was changed (SHA-256 differs)", ErrDamaged, f.Name))
		}
	}
	return errors.Join(problems...)
}

func hashFile(path string) (sum string, n int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, fmt.Errorf("hash: %w", err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if n, err = io.Copy(h, f); err != nil {
		return "", 0, fmt.Errorf("hash %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), n, nil
}

// scrub sets floats that JSON cannot hold to 0 and returns their names.
func scrub(v reflect.Value, path string) []string {
	var found []string
	switch v.Kind() {
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			if v.CanSet() {
				v.SetFloat(0)
			}
			return []string{path}
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return scrub(v.Elem(), path)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			t := v.Type().Field(i)
			if name, _, _ := strings.Cut(t.Tag.Get("json"), ","); name != "" && t.IsExported() {
				found = append(found, scrub(v.Field(i), strings.TrimPrefix(path+"."+name, "."))...)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			found = append(found, scrub(v.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() { // elements of maps are not addressable: copy, scrub, put back
			c := reflect.New(v.Type().Elem()).Elem()
			c.Set(v.MapIndex(key))
			if names := scrub(c, path+"."+key.String()); len(names) > 0 {
				v.SetMapIndex(key, c)
				found = append(found, names...)
			}
		}
	}
	return found
}
