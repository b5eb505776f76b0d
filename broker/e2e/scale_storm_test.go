package e2e

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/proc"
)

// TestScaleMetadataStorm restarts a broker with many partitions and has clients ask it for all of them at once, as they do
// when they lose their connections together. All get the same whole answer, the broker's memory stays bounded (an answer for
// each client would be a thousand times some hundred kilobytes), and others are served meanwhile.
func TestScaleMetadataStorm(t *testing.T) {
	clients, s := scaled(1000, 200), shape{scaled(100, 20), scaled(100, 250)}
	f := newFigures(t, fmt.Sprintf("%d clients ask for all of %s", clients, s))
	o := proc.Options{Data: t.TempDir()}
	b := scaleStart(t, f, "", o)
	s.create(s.patient(dial(t, b.Addr)))
	b = s.restart(t, f, b, o, "")
	before := residentKiB(t, b.PID, "VmRSS")

	r := kmsg.NewPtrMetadataRequest()
	r.Version = 12
	request := frame(r, 1)
	conns := make([]net.Conn, clients)
	for i := range conns {
		nc, err := net.Dial("tcp", b.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = nc.Close() }()
		_ = nc.SetDeadline(time.Now().Add(10 * time.Minute))
		conns[i] = nc
	}
	began := time.Now()
	for _, nc := range conns {
		if _, err := nc.Write(request); err != nil {
			t.Fatal(err)
		}
	}
	// Nobody has read anything yet: what the sockets do not take is the broker's to hold.
	f.add("an answer to ApiVersions in between", "%v", answers(t, b.Addr))
	f.process("all asked, nobody reads", b.PID)
	sizes, errs := make([]int, clients), make([]error, clients)
	var all sync.WaitGroup
	for i, nc := range conns {
		all.Go(func() {
			var head [4]byte
			if _, errs[i] = io.ReadFull(nc, head[:]); errs[i] != nil {
				return
			}
			sizes[i] = int(binary.BigEndian.Uint32(head[:]))
			_, errs[i] = io.CopyN(io.Discard, nc, int64(sizes[i]))
		})
	}
	all.Wait()
	f.took("all have the answer", began)
	for i, err := range errs {
		if err != nil || sizes[i] != sizes[0] {
			t.Fatalf("client %d: %d bytes, %v; the first one got %d", i, sizes[i], err, sizes[0])
		}
	}
	f.add("an answer", "%d bytes, %d times", sizes[0], clients)
	f.process("afterwards", b.PID)
	// Beside the answer itself: what a connection takes, twice for the garbage, and the collector's headroom.
	peak := (residentKiB(t, b.PID, "VmHWM") - before) << 10
	if limit := 64<<20 + clients*64<<10 + 16*sizes[0]; peak > limit {
		t.Errorf("the storm took %d bytes of memory, more than %d", peak, limit)
	}
	if topics, partitions := s.allMetadata(s.patient(dial(t, b.Addr))); topics != s.topics || partitions != s.all() {
		t.Errorf("Metadata lists %d topics, %d partitions", topics, partitions)
	}
}

// TestScaleKillDuringCreation kills the broker while topics are made as fast as several clients can. After each start every
// topic that was answered is there whole, a topic whose answer was lost is there whole or not at all, and all that are there
// can be produced to.
func TestScaleKillDuringCreation(t *testing.T) {
	rounds, each := scaled(10, 3), scaled(400, 40)
	f := newFigures(t, "kill -9 while topics are made")
	o := proc.Options{Data: t.TempDir()}
	made := map[string]bool{} // answered
	asked := map[string]bool{}
	for round := range rounds {
		b := scaleStart(t, f, fmt.Sprintf("start of round %d", round), o)
		checkMade(t, b, made, asked)
		var mu sync.Mutex
		var creators sync.WaitGroup
		enough := make(chan struct{})
		var once sync.Once
		for c := range 4 {
			nc, err := net.Dial("tcp", b.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = nc.Close() }()
			creators.Go(func() {
				for n := 0; ; n++ {
					names := make([]string, 25)
					mu.Lock()
					for i := range names {
						names[i] = fmt.Sprintf("k-%d-%d-%d-%d", round, c, n, i)
						asked[names[i]] = true
					}
					mu.Unlock()
					ok := createRaw(nc, names)
					mu.Lock()
					for _, name := range names {
						made[name] = made[name] || ok
					}
					have := 25 * n
					mu.Unlock()
					if have > each {
						once.Do(func() { close(enough) })
					}
					if !ok {
						return
					}
				}
			})
		}
		<-enough
		b.Kill()
		creators.Wait()
	}
	b := scaleStart(t, f, "last start", o)
	checkMade(t, b, made, asked)
	n := 0
	for _, ok := range made {
		if ok {
			n++
		}
	}
	f.add("topics of 7 partitions answered, asked for", "%d, %d", n, len(asked))
}

// createRaw makes topics of 7 partitions, and says whether the answer came.
func createRaw(nc net.Conn, names []string) bool {
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.TimeoutMillis = 7, 60_000
	for _, name := range names {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, 7, 1
		r.Topics = append(r.Topics, t)
	}
	if _, err := nc.Write(frame(r, 1)); err != nil {
		return false
	}
	var head [4]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		return false
	}
	_, err := io.CopyN(io.Discard, nc, int64(binary.BigEndian.Uint32(head[:])))
	return err == nil
}

// checkMade looks whether what was answered is there whole and nothing is there that nobody asked for, and produces to some.
func checkMade(t *testing.T, b *proc.Broker, made, asked map[string]bool) {
	t.Helper()
	w := dial(t, b.Addr)
	r := kmsg.NewPtrMetadataRequest()
	r.Version = 12
	there := map[string]bool{}
	for _, topic := range ask[*kmsg.MetadataResponse](w, r).Topics {
		there[*topic.Topic] = true
		if !asked[*topic.Topic] || len(topic.Partitions) != 7 {
			t.Errorf("%s is there with %d partitions; asked for: %v", *topic.Topic, len(topic.Partitions), asked[*topic.Topic])
		}
	}
	for name, ok := range made {
		if ok && !there[name] {
			t.Errorf("%s was made and is gone", name)
		}
	}
	names := make([]string, 0, len(there))
	for name := range there {
		names = append(names, name)
	}
	slices.Sort(names)
	for i := 0; i < len(names); i += max(1, len(names)/20) {
		if p := w.produce(names[i], int32(i%7), batch(nobody(), []byte("v"), time.Now().UnixMilli())); p.ErrorCode != 0 {
			t.Errorf("produce to %s-%d: %d", names[i], i%7, p.ErrorCode)
		}
	}
}
