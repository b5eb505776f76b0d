package bench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// checkBuilds refuses binaries that cannot be run, or that nobody would start.
func (r *runner) checkBuilds() error {
	builds := r.options.builds
	if len(builds) == 0 {
		return nil
	}
	if !r.suite.Target.Embedded() {
		return errors.New("--build names binaries of the embedded broker, and this target is none")
	}
	for i, file := range builds {
		info, err := os.Stat(file)
		switch {
		case err != nil:
			return fmt.Errorf("--build: %w", err)
		case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
			return fmt.Errorf("--build %s is no program", file)
		case slices.Contains(builds[:i], file):
			return fmt.Errorf("--build %s is given twice", file)
		}
	}
	return nil
}

// buildsOf are the binaries that a plan's command names.
func buildsOf(command []string) (builds []string) {
	for i, a := range command {
		if a == "--build" && i+1 < len(command) {
			builds = append(builds, command[i+1])
		}
	}
	return builds
}

// use has a repeat run by the build whose turn it is: the repeats of every cell go through all of them, so that no cell is
// another layout's.
func (r *runner) use(ctx context.Context, repeat int) error {
	if n := len(r.options.builds); n > 0 {
		return r.target.Use(ctx, r.options.builds[(repeat-1)%n])
	}
	return nil
}

// buildOf is a short hash of the binary that a repeat runs; "" where it cannot be read, or is not this bench's to choose.
func (r *runner) buildOf(repeat int) string {
	if !r.suite.Target.Embedded() {
		return ""
	}
	file := r.options.bin
	if n := len(r.options.builds); n > 0 {
		file = r.options.builds[(repeat-1)%n]
	}
	if file == "" {
		file = "/proc/self/exe"
	}
	if known, ok := r.hashes[file]; ok {
		return known
	}
	if r.hashes == nil {
		r.hashes = map[string]string{}
	}
	r.hashes[file] = hashOf(file)
	return r.hashes[file]
}

func hashOf(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}
