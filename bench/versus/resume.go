package versus

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/bench/host"
)

// What a block of a document says that was written before builds were kept.
const unknownBuild = "a build that was not kept"

// buildDigits is how much of a binary's SHA-256 names it: a version stays while its code changes.
const buildDigits = 12

// buildOf names the program at bin ("" is this one) by its version and what it consists of.
func buildOf(bin, version string) (string, error) {
	if bin == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		bin = self
	}
	f, err := os.Open(bin)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", bin, err)
	}
	return strings.TrimSpace(version + " " + hex.EncodeToString(h.Sum(nil))[:buildDigits]), nil
}

// goesOn says why a session may not go on with a document: pairs of another suite, profile or host are no repeats of its own.
func goesOn(old *Document, suiteHash, profile string, now host.Fingerprint) error {
	if old.SuiteHash != suiteHash {
		return fmt.Errorf("%s is of another suite (%.12s, this build has %.12s): give another --out, or go on with the build that began it (%s)",
			FileName, old.SuiteHash, suiteHash, old.Version)
	}
	if old.Profile != profile {
		return fmt.Errorf("%s is of profile %s, not %s: say --profile %s, or give another --out", FileName, old.Profile, profile, old.Profile)
	}
	before, here := hostWords(old.Host), hostWords(now)
	for i := range before {
		if before[i] != here[i] {
			return fmt.Errorf("%s is of another host (%s, this one has %s): give another --out, or go on where it began", FileName, before[i], here[i])
		}
	}
	return nil
}

// hostWords are what makes a host another one.
func hostWords(f host.Fingerprint) []string {
	return []string{
		"name " + f.Hostname, "processor " + f.CPUModel, fmt.Sprintf("%d cores", f.Cores), "kernel " + f.Kernel,
		fmt.Sprintf("limit of %g cores", f.CPULimitCores), "file system " + f.FileSystem,
	}
}

// sameKafka says why the sides of a document are not those of this session: theirs is another version.
func sameKafka(before []ArmInfo, arms []*arm) error {
	for _, old := range before {
		for _, a := range arms {
			if a.info.Name == old.Name && !old.Ours && a.info.Version != old.Version {
				return fmt.Errorf("%s was measured with %s as %s, here is %s: give another --out, or go on with that version", FileName, old.Version, old.Name, a.info.Version)
			}
		}
	}
	return nil
}

// builds are those that blocks come from, in the order in which they were measured.
func builds(blocks []*Block) []string {
	var out []string
	for _, b := range blocks {
		name := b.Build
		if name == "" {
			name = unknownBuild
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// buildDoubts say that a figure of ours is of several builds, and so of none.
func buildDoubts(blocks []*Block, ours string) []string {
	if n := len(builds(counting(blocks, ours))); n > 1 {
		return []string{fmt.Sprintf("blocks of %d builds", n)}
	}
	return nil
}

// buildsText says which processes of a row are of which build; "" where all are of one.
func buildsText(r RowInfo, blocks []*Block) string {
	names := builds(blocks)
	if len(names) < 2 {
		return ""
	}
	var parts []string
	for _, name := range names {
		var processes []string
		for _, b := range blocks {
			if p := fmt.Sprint(b.Process); builds([]*Block{b})[0] == name && !slices.Contains(processes, p) {
				processes = append(processes, p)
			}
		}
		parts = append(parts, "process "+strings.Join(processes, ", ")+" of "+name)
	}
	return "builds    " + r.Title + ": " + strings.Join(parts, "; ")
}
