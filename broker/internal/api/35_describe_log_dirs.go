package api

import (
	"cmp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/logdir"
	"github.com/tidemark/tidemark/core/kafka"
)

// describeLogDirs serves API key 35, versions 1 to 5.
//
//   - 2 is flexible
//   - 3 adds an error for all
//   - 4 adds the file system's size and room
//   - 5 says whether a folder is cordoned, which none is here
//
// Without topics every log is told. A partition that was never used has no log yet: it is told as empty where only one folder
// can become its place.
func (h *Handlers) describeLogDirs(c *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.DescribeLogDirsRequest)
	// All logs are gone through, whatever is asked for.
	if cost := (&answerCost{c: c}); !cost.take(int64(h.Image().NumPartitions()) * describedLogBytes) {
		return nil
	}
	reply := c.Later()
	go func() { // it asks the file systems
		resp := kmsg.NewPtrDescribeLogDirsResponse()
		wanted := wantedLogs(r)
		folders := h.Replicas.Folders()
		if len(folders) == 1 && !folders[0].Offline {
			h.addUnused(&folders[0])
		}
		for _, f := range folders {
			resp.Dirs = append(resp.Dirs, describeFolder(&f, wanted))
		}
		reply(resp)
	}()
	return nil
}

// describedLogBytes is what a log takes in memory: in the folder's list and the tables that it is made with, in the answer, and in its
// encoding, which grows by being copied.
const describedLogBytes = 256

// addUnused adds the partitions without a log, and keeps the order.
func (h *Handlers) addUnused(f *logdir.Folder) {
	have := make(map[kafka.TopicPartition]bool, len(f.Logs))
	for _, l := range f.Logs {
		have[l.TopicPartition] = true
	}
	for t := range h.Image().Topics() {
		for n := range t.Partitions {
			tp := kafka.TopicPartition{Topic: t.Name, Partition: kafka.Partition(n)}
			if !have[tp] && slices.Contains(t.Partitions[n].Replicas, h.NodeID) {
				f.Logs = append(f.Logs, logdir.LogSize{TopicPartition: tp})
			}
		}
	}
	slices.SortFunc(f.Logs, func(a, b logdir.LogSize) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

// wantedLogs is what a request asks for; nil for everything.
func wantedLogs(r *kmsg.DescribeLogDirsRequest) map[kafka.TopicPartition]bool {
	if r.Topics == nil {
		return nil
	}
	wanted := map[kafka.TopicPartition]bool{}
	for i := range r.Topics {
		if len(r.Topics[i].Topic) > kafka.MaxTopicNameLength {
			continue // no log has such a name
		}
		for _, p := range r.Topics[i].Partitions {
			wanted[kafka.TopicPartition{Topic: r.Topics[i].Topic, Partition: kafka.Partition(p)}] = true
		}
	}
	return wanted
}

func describeFolder(f *logdir.Folder, wanted map[kafka.TopicPartition]bool) kmsg.DescribeLogDirsResponseDir {
	d := kmsg.NewDescribeLogDirsResponseDir()
	d.Dir, d.TotalBytes, d.UsableBytes = f.Path, f.Total, f.Usable
	d.Topics = []kmsg.DescribeLogDirsResponseDirTopic{}
	if f.Offline {
		d.ErrorCode = int16(kafka.KafkaStorageError)
		return d
	}
	for _, l := range f.Logs {
		if wanted != nil && !wanted[l.TopicPartition] {
			continue
		}
		if len(d.Topics) == 0 || d.Topics[len(d.Topics)-1].Topic != l.Topic {
			t := kmsg.NewDescribeLogDirsResponseDirTopic()
			t.Topic = l.Topic
			d.Topics = append(d.Topics, t)
		}
		t := &d.Topics[len(d.Topics)-1]
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size = int32(l.Partition), l.Bytes
		t.Partitions = append(t.Partitions, p)
	}
	return d
}
