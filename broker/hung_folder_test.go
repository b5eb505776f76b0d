package broker

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/core/vfs"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// While the disk of one log folder hangs, clients create, change and delete topics, those of that folder too, and use what lies
// in the other one. (kadm gives up on an answer that does not come, and so does the test.)
//
//tidy:long one story: hang, administer, let go
func TestAdministrationGoesOnWhileALogFolderHangs(t *testing.T) {
	var mu sync.Mutex
	var until chan struct{}
	mem := vfs.NewMem(nil)
	waits := make(chan struct{}, 1)
	fs := &vfstest.Faulty{FS: mem, Hook: func(op vfstest.Op) error {
		mu.Lock()
		hangs := until
		mu.Unlock()
		if hangs != nil && strings.HasPrefix(op.Name, "/b") {
			select {
			case waits <- struct{}{}:
			default:
			}
			<-hangs
		}
		return nil
	}}
	b, _, err := startOver(t, fs, "log.dirs=/a,/b")
	if err != nil {
		t.Fatal(err)
	}
	adm := kadm.NewClient(clientOf(t, b))
	create := func(name string) {
		t.Helper()
		if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, name); err != nil {
			t.Fatal(err)
		}
	}
	put := func(topic string) error {
		c := clientOf(t, b)
		defer c.Close()
		return c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr()
	}
	stuck, healthy := "", ""
	for i := 0; stuck == "" || healthy == ""; i++ {
		name := fmt.Sprint("t", i)
		create(name)
		if err := put(name); err != nil {
			t.Fatal(err)
		}
		if _, err := mem.Stat("/b/" + name + "-0"); err == nil {
			stuck = name
		} else {
			healthy = name
		}
	}

	mu.Lock()
	until = make(chan struct{})
	mu.Unlock()
	appended := make(chan error, 1)
	go func() { appended <- put(stuck) }()
	<-waits
	create("new")
	value := "100000"
	if r, err := adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}, stuck); err != nil || r[0].Err != nil {
		t.Errorf("a setting of a topic that hangs: %v %v", err, r)
	}
	if r, err := adm.CreatePartitions(t.Context(), 1, stuck); err != nil || r.Error() != nil {
		t.Errorf("more partitions for a topic that hangs: %v %v", err, r)
	}
	if r, err := adm.DeleteTopics(t.Context(), stuck); err != nil || r.Error() != nil {
		t.Errorf("the deletion of a topic that hangs: %v %v", err, r)
	}
	create(stuck)
	if err := put(healthy); err != nil {
		t.Errorf("the other folder: %v", err)
	}
	if r, err := adm.DeleteTopics(t.Context(), healthy); err != nil || r.Error() != nil {
		t.Errorf("the deletion of a topic of the other folder: %v %v", err, r)
	}
	if _, err := mem.Stat("/a/" + healthy + "-0"); err == nil {
		t.Error("the deletion of a topic of the other folder left its log in place")
	}

	mu.Lock()
	close(until)
	until = nil
	mu.Unlock()
	<-appended // whatever became of it: the topic was deleted and made again meanwhile
	if err := put(stuck); err != nil {
		t.Errorf("the topic made again, when the disk answers: %v", err)
	}
	if err := stop(t, b); err != nil {
		t.Error(err)
	}
}

// A metadata folder whose disk hangs holds up a stop for a bounded time, and the log folders are closed in order all the same.
func TestAStopWithAHungMetadataFolderClosesTheLogs(t *testing.T) {
	t.Parallel() // it waits for a stop's whole patience
	var hangs atomic.Bool
	until := make(chan struct{})
	defer close(until)
	mem := vfs.NewMem(nil)
	fs := &vfstest.Faulty{FS: mem, Hook: func(op vfstest.Op) error {
		if hangs.Load() && strings.HasPrefix(op.Name, "/meta") {
			<-until
		}
		return nil
	}}
	b, _, err := startOver(t, fs, "log.dirs=/logs", "metadata.log.dir=/meta")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kadm.NewClient(clientOf(t, b)).CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	hangs.Store(true)
	if err := b.Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), "metadata log") {
		t.Errorf("the stop says %v", err)
	}
	if _, err := mem.Stat("/logs/.kafka_cleanshutdown"); err != nil {
		t.Errorf("the logs are not closed: %v", err)
	}
}
