package controller

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/core/vfs"
)

// quorumState is what a voter must never forget: who it is, and whom it voted for in which term. It is kept in the file
// quorum-state of the metadata log's folder as lines "name value" that end with a checksum of those before.
type quorumState struct {
	RaftID uint64 // drawn when the folder is made
	Term   uint64
	Vote   uint64
}

const (
	quorumStateFile  = "quorum-state"
	quorumStateBytes = 4096
)

var (
	errQuorumState = errors.New("the file is damaged")
	errKafkas      = errors.New("it was written by Apache Kafka, whose metadata cannot be read here: name other folders (log.dirs, metadata.log.dir)")
)

func castagnoli(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func (q quorumState) encode() []byte {
	text := fmt.Sprintf("version 0\nraft.id %d\nterm %d\nvote %d\n", q.RaftID, q.Term, q.Vote)
	return fmt.Appendf(nil, "%scrc32c %08x\n", text, castagnoli([]byte(text)))
}

func decodeQuorumState(b []byte) (q quorumState, err error) {
	text, sum, ok := strings.Cut(string(b), "crc32c ")
	if !ok || sum != fmt.Sprintf("%08x\n", castagnoli([]byte(text))) {
		return q, errQuorumState
	}
	fields := []struct {
		name string
		to   *uint64
	}{{"version", new(uint64)}, {"raft.id", &q.RaftID}, {"term", &q.Term}, {"vote", &q.Vote}}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != len(fields) {
		return q, errQuorumState
	}
	for i, f := range fields {
		value, ok := strings.CutPrefix(lines[i], f.name+" ")
		if *f.to, err = strconv.ParseUint(value, 10, 64); !ok || err != nil {
			return q, errQuorumState
		}
	}
	if *fields[0].to != 0 || q.RaftID == 0 {
		return q, errQuorumState
	}
	return q, nil
}

// loadQuorumState reads the file; found is false when there is none.
func loadQuorumState(fsys vfs.FS, dir string) (q quorumState, found bool, err error) {
	name := dir + "/" + quorumStateFile
	b, err := vfs.ReadFile(fsys, name, quorumStateBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return q, false, nil
	}
	if err != nil {
		return q, false, err
	}
	if bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) {
		return q, false, fmt.Errorf("read %s: %w", name, errKafkas)
	}
	if q, err = decodeQuorumState(b); err != nil {
		return q, false, fmt.Errorf("read %s: %w: restore the folder from a copy; without this file it is not known for "+
			"whom this node has voted", name, err)
	}
	return q, true, nil
}

func saveQuorumState(fsys vfs.FS, dir string, q quorumState) error {
	return vfs.ReplaceFile(fsys, dir+"/"+quorumStateFile, q.encode(), true)
}
