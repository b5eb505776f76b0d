package loadgen

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/driver/raw"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// TestEachTopicTellsItsOwnSettings: a record may be in any of a run's topics, so each of them is asked.
func TestEachTopicTellsItsOwnSettings(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(1, "p-0", "p-1"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	set := func(topic, minISR string) {
		t.Helper()
		cluster := raw.NewCluster(c.ListenAddrs(), "test", driver.Access{})
		defer cluster.Close()
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		res := kmsg.NewIncrementalAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, topic
		for name, value := range map[string]string{"min.insync.replicas": minISR, "flush.messages": "1"} {
			one := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			one.Name, one.Value = name, &value
			res.Configs = append(res.Configs, one)
		}
		req.Resources = append(req.Resources, res)
		resp, err := cluster.Ask(t.Context(), req)
		if err != nil || resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode != 0 {
			t.Fatalf("%v %+v", err, resp)
		}
	}
	set("p-0", "3")
	set("p-1", "2")
	s := latency(200)
	s.Prefix, s.Topics, s.Partitions, s.Create = "p", 2, 1, workload.CreateNever
	s.WarmUp, s.Window = 0, workload.Duration(100*time.Millisecond)
	o := Options{Spec: s, Bootstrap: c.ListenAddrs()}
	res, err := Run(t.Context(), o)
	if res == nil {
		t.Fatal(err)
	}
	if m := res.AckMeant; m.MinISR != 2 || m.Replicas != 3 || m.FsyncMode != "batch" {
		t.Errorf("%+v", m)
	}
	var notes bytes.Buffer
	set("p-1", "4") // more than there are
	o.CheckOnly, o.Notes = true, &notes
	_, err = Run(t.Context(), o)
	if ExitCode(err) != exitFailure || !strings.Contains(err.Error(), "topic p-1: a partition has 3 replicas in sync, fewer than its min.insync.replicas 4") {
		t.Errorf("%v", err)
	}
	if strings.Contains(notes.String(), "produce v0 to v0") { // an ApiVersions that names no client is refused
		t.Errorf("the versions of Produce were not read:\n%s", notes.String())
	}
	for _, want := range []string{"p-0   1 partition, at least 3 of 3 replicas in sync, min.insync.replicas 3", "p-1   1 partition, at least 3 of 3 replicas in sync, min.insync.replicas 4"} {
		if !strings.Contains(notes.String(), want) {
			t.Errorf("no %q in\n%s", want, notes.String())
		}
	}
}
