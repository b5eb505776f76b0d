package logdir

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// dumpedFiles are the files of a log folder that Dump prints, in its order.
var dumpedFiles = []string{metaFile, recoveryFile, startFile, hwFile, cleanerFile, pointsFile}

// Dump prints a file of a log folder, or all of a log folder, for people. known is false, and nothing is printed, for
// anything else. An error that is commitlog.ErrDamaged says that a file is not whole.
func Dump(w io.Writer, fsys vfs.FS, name string) (known bool, err error) {
	st, err := fsys.Stat(name)
	if err != nil {
		return false, nil
	}
	var files []string
	for _, f := range dumpedFiles {
		if !st.IsDir && path.Base(name) == f {
			files = append(files, name)
		}
		if st.IsDir {
			if _, err := fsys.Stat(path.Join(name, f)); err == nil {
				files = append(files, path.Join(name, f))
			}
		}
	}
	if len(files) == 0 {
		return false, nil
	}
	out := bufio.NewWriter(w)
	for _, f := range files {
		err = errors.Join(err, dumpFile(out, fsys, f))
	}
	return true, errors.Join(err, out.Flush())
}

// maxDumpBytes is far more than the checkpoint of 100,000 partitions with the longest names.
const maxDumpBytes = 64 << 20

func dumpFile(w io.Writer, fsys vfs.FS, name string) error {
	b, err := vfs.ReadFile(fsys, name, maxDumpBytes)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, name)
	switch path.Base(name) {
	case metaFile:
		for line := range strings.Lines(string(b)) {
			fmt.Fprintf(w, "  %s\n", strings.TrimSuffix(line, "\n"))
		}
	case pointsFile:
		err = dumpPoints(w, b)
	default:
		if _, err = parseCheckpoint(b); err == nil {
			for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n")[2:] {
				f := strings.Fields(line)
				fmt.Fprintf(w, "  %s-%s offset %s\n", f[0], f[1], f[2])
			}
		}
	}
	if err != nil {
		fmt.Fprintf(w, "  DAMAGED %v\n", err)
		err = fmt.Errorf("%s: %w: %w", name, commitlog.ErrDamaged, err)
	}
	return err
}

func dumpPoints(w io.Writer, b []byte) error {
	boot, rest, _ := bytes.Cut(b, []byte("\n"))
	fmt.Fprintf(w, "  boot %s\n", boot)
	n := 1
	for line := range strings.Lines(string(rest)) {
		n++
		f := strings.Fields(line)
		if len(f) != 4 {
			return fmt.Errorf("line %d: %q is not topic, partition, offset, topic id", n, line)
		}
		p, err := strconv.ParseInt(f[1], 10, 32)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		fmt.Fprintf(w, "  %s offset %s topic %s\n", kafka.TopicPartition{Topic: f[0], Partition: kafka.Partition(p)}, f[2], f[3])
	}
	return nil
}
