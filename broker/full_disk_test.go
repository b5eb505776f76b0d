package broker

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/core/vfs"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// said is a broker's log.
type said struct {
	sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.Lock()
	defer s.Unlock()
	return s.text.Write(b)
}

func (s *said) has(text string) bool {
	s.Lock()
	defer s.Unlock()
	return strings.Contains(s.text.String(), text)
}

// startOver starts a broker over a file system; its data lies in /data.
func startOver(t *testing.T, fs vfs.FS, overrides ...string) (*Broker, *said, error) {
	t.Helper()
	cfg, _, err := config.Load("", append([]string{"log.dirs=/data", "node.id=0", "listeners=PLAINTEXT://127.0.0.1:0"}, overrides...))
	if err != nil {
		t.Fatal(err)
	}
	log := &said{}
	b := New(Options{Config: cfg, FS: fs, Logger: slog.New(slog.NewTextHandler(log, nil))})
	return b, log, b.Start(t.Context())
}

func stop(t *testing.T, b *Broker) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return b.Shutdown(ctx)
}

func clientOf(t *testing.T, b *Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addr()), kgo.DefaultProduceTopic("t")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// produce writes a record without trying again.
func produce(t *testing.T, b *Broker) error {
	t.Helper()
	c := clientOf(t, b, kgo.RecordRetries(0), kgo.DisableIdempotentWrite(), kgo.RequestRetries(0))
	defer c.Close()
	return c.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr()
}

// readAll reads the records of topic t from its beginning to its end.
func readAll(t *testing.T, b *Broker) int {
	t.Helper()
	c := clientOf(t, b, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart()}}))
	defer c.Close()
	ends, err := kadm.NewClient(c).ListEndOffsets(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup("t", 0)
	if end.Err != nil {
		t.Fatal(end.Err)
	}
	n := 0
	for int64(n) < end.Offset {
		f := c.PollFetches(t.Context())
		if err := f.Err0(); err != nil {
			t.Fatal(err)
		}
		n += f.NumRecords()
	}
	return n
}

const fullDiskRecords = 20

// fullDisks are disks of a broker with data: after a clean stop, and after a kill.
func fullDisks(t *testing.T) (clean, killed *vfs.Mem, disk *vfstest.Disk) {
	t.Helper()
	mem := vfs.NewCrashable(nil)
	disk, err := vfstest.NewDisk(mem, 256<<20)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := startOver(t, disk)
	if err != nil {
		t.Fatal(err)
	}
	adm := kadm.NewClient(clientOf(t, b))
	for _, name := range []string{"t", "u"} {
		if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, name); err != nil {
			t.Fatal(err)
		}
	}
	for range fullDiskRecords {
		if err := produce(t, b); err != nil {
			t.Fatal(err)
		}
	}
	all := func() bool { return true }
	killed = mem.CrashClone(all)
	if err := stop(t, b); err != nil {
		t.Fatal(err)
	}
	return mem.CrashClone(all), killed, disk
}

// refusedForWantOfRoom checks what a person reads who starts a broker that cannot start.
func refusedForWantOfRoom(t *testing.T, err error) {
	t.Helper()
	for _, want := range []string{"/data", "no space left on device", "make room", "log.dirs"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the start is refused with %q, which does not say %q", err, want)
		}
	}
}

// A broker that is started on a disk with no room, or next to none, says what is wrong, where, and what to do, or it serves
// reads; with room again nothing is missing.
func TestABrokerOnAFullDiskServesReadsOrSaysWhy(t *testing.T) {
	clean, killed, disk := fullDisks(t)
	all := func() bool { return true }
	for _, names := range []bool{false, true} {
		for state, mem := range map[string]*vfs.Mem{"clean": clean, "killed": killed} {
			for _, room := range []int64{0, 1, 40, 100, 200, 400, 800, 1600, 5000, 50_000} {
				t.Run(fmt.Sprintf("%s/names=%v/room=%d", state, names, room), func(t *testing.T) {
					d := disk.Over(mem.CrashClone(all))
					d.Resize(d.Used() + room)
					d.NamesCost(names)
					b, log, err := startOver(t, d)
					if err != nil {
						refusedForWantOfRoom(t, err)
					} else {
						if n := readAll(t, b); n != fullDiskRecords {
							t.Errorf("%d records are served, want %d", n, fullDiskRecords)
						}
						if err := stop(t, b); err != nil {
							t.Logf("stop: %v", err)
						}
					}
					t.Logf("started: %v, said it is full: %v", err == nil, log.has("full"))
					d.Resize(256 << 20)
					b, _, err = startOver(t, d)
					if err != nil {
						t.Fatalf("with room again: %v", err)
					}
					if err := produce(t, b); err != nil {
						t.Errorf("with room again: %v", err)
					}
					if n := readAll(t, b); n != fullDiskRecords+1 {
						t.Errorf("with room again %d records are served, want %d", n, fullDiskRecords+1)
					}
					if err := stop(t, b); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// On a full disk with the room that was kept back a broker starts, whatever the last stop was; it takes no records, lets topics
// be deleted, and takes records again once there is room, without a restart.
func TestABrokerThatStartsOnAFullDiskGoesOnWithRoom(t *testing.T) {
	clean, killed, disk := fullDisks(t)
	for state, mem := range map[string]*vfs.Mem{"clean": clean, "killed": killed} {
		t.Run(state, func(t *testing.T) {
			d := disk.Over(mem)
			d.Resize(d.Used())
			b, log, err := startOver(t, d)
			if err != nil {
				t.Fatal(err)
			}
			adm := kadm.NewClient(clientOf(t, b))
			if _, err := adm.DeleteTopic(t.Context(), "u"); err != nil {
				t.Errorf("a topic is deleted on a full disk: %v", err)
			}
			d.Resize(d.Used()) // the room that was given up has been taken by others
			if err := produce(t, b); !isStorageError(err) {
				t.Errorf("a record on a full disk: %v", err)
			}
			if !log.has("log folder is full") {
				t.Error("the log does not say that the folder is full")
			}
			if n := readAll(t, b); n != fullDiskRecords {
				t.Errorf("%d records are served, want %d", n, fullDiskRecords)
			}
			d.Resize(1 << 30)
			for deadline := time.Now().Add(time.Minute); ; {
				if err := produce(t, b); err == nil {
					break
				} else if time.Now().After(deadline) {
					t.Fatalf("with room again: %v", err)
				}
			}
			if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "new"); err != nil {
				t.Errorf("a topic with room again: %v", err)
			}
			if err := stop(t, b); err != nil {
				t.Error(err)
			}
		})
	}
}

func isStorageError(err error) bool {
	return err != nil && strings.Contains(err.Error(), kerr.KafkaStorageError.Message)
}

// A new broker on a full disk says so.
func TestANewBrokerOnAFullDiskSaysSo(t *testing.T) {
	for _, names := range []bool{false, true} {
		d, err := vfstest.NewDisk(vfs.NewMem(nil), 0)
		if err != nil {
			t.Fatal(err)
		}
		d.NamesCost(names)
		_, _, err = startOver(t, d)
		if err == nil {
			t.Fatal("it starts")
		}
		refusedForWantOfRoom(t, err)
	}
}
