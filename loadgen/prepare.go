package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/driver/kgo"
	"github.com/tidemark/tidemark/loadgen/driver/null"
	"github.com/tidemark/tidemark/loadgen/driver/raw"
	"github.com/tidemark/tidemark/loadgen/verify"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// contactTimeout is how long the first contact with the cluster, and each of its administrative requests, may take.
const contactTimeout = 10 * time.Second

// settleTimeout is how long new topics may take to have leaders and all their replicas in sync.
const settleTimeout = 2 * time.Second

// prepare reaches the target, sees to the topics and makes the clients.
func (r *run) prepare(ctx context.Context) error {
	if err := r.checkAddresses(ctx); err != nil {
		return err
	}
	file, err := r.payloadFile()
	if err != nil {
		return err
	}
	r.prefix = r.spec.Prefix
	if r.prefix == "" {
		r.prefix = fmt.Sprintf("tidemark-%s-%04x", r.started.UTC().Format("20060102-150405"), r.id&0xffff)
	}
	r.topics = topicsOf(r.spec, r.prefix)
	if r.spec.Driver != workload.DriverNull {
		if r.o.Security != nil {
			r.access = r.o.Security.Access()
		}
		r.cluster = raw.NewCluster(r.o.Bootstrap, clientID, r.access)
		if err := r.prepareTopics(ctx); err != nil {
			return err
		}
		if r.metrics != nil {
			if err := r.metrics.check(ctx); err != nil {
				return err
			}
		}
	}
	r.keys = workload.NewKeySpace(r.spec.Keys)
	r.payload = workload.NewPayload(r.spec, file)
	r.makeBooks()
	d, err := r.makeDriver(ctx)
	if err != nil {
		return failure(err)
	}
	r.driver = d
	if err := r.makeProducers(ctx); err != nil {
		return failure(err)
	}
	return r.makeConsumers(ctx)
}

func (r *run) payloadFile() ([]byte, error) {
	if r.spec.PayloadFile == "" {
		return nil, nil
	}
	b, err := os.ReadFile(r.spec.PayloadFile)
	if err != nil {
		return nil, usage(fmt.Errorf("payload-file: %w", err))
	}
	if len(b) == 0 {
		return nil, usage(fmt.Errorf("payload-file: %s is empty", r.spec.PayloadFile))
	}
	return b, nil
}

func topicsOf(s *workload.Spec, prefix string) (topics []driver.Topic) {
	for i := range s.Topics {
		name := prefix + "-" + strconv.Itoa(i)
		if s.Topic != "" {
			name = s.Topic
		}
		topics = append(topics, driver.Topic{Name: name, Partitions: int32(s.Partitions)})
	}
	return topics
}

// checkAddresses refuses addresses that are none, and hosts that are not this one unless the user said yes.
func (r *run) checkAddresses(ctx context.Context) error {
	if r.spec.Driver == workload.DriverNull {
		return nil
	}
	if len(r.o.Bootstrap) == 0 {
		return usage(errors.New("which cluster? give --bootstrap HOST:PORT (tidemark broker prints its own)"))
	}
	for _, addr := range r.o.Bootstrap {
		host, port, err := net.SplitHostPort(addr)
		if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || host == "" {
			return usage(fmt.Errorf("bootstrap: %q is not HOST:PORT", addr))
		}
		if r.o.Yes {
			continue
		}
		ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
		if err != nil {
			return failure(fmt.Errorf("bootstrap: %w", err))
		}
		for _, ip := range ips {
			if !ip.IP.IsLoopback() {
				return usage(fmt.Errorf("%s is another host: this run would put load on it; say --yes to mean it", addr))
			}
		}
	}
	return nil
}

// prepareTopics makes the topics or checks those that are there, by --create.
func (r *run) prepareTopics(ctx context.Context) error {
	names := make([]string, len(r.topics))
	for i, t := range r.topics {
		names[i] = t.Name
	}
	view, err := r.look(ctx, names)
	if err != nil {
		hint := ""
		if r.o.Security == nil && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, context.DeadlineExceeded) {
			hint = " (does the listener want TLS or SASL? then say --command-config client.properties)"
		}
		return failure(fmt.Errorf("reach the cluster: %w%s", err, hint))
	}
	if !r.o.Yes {
		for id, addr := range view.Brokers {
			if host, _, _ := net.SplitHostPort(addr); host != "localhost" && !net.ParseIP(host).IsLoopback() {
				return usage(fmt.Errorf("broker %d of this cluster is at %s, another host: this run would put load on it; say --yes to mean it", id, addr))
			}
		}
	}
	var missing []string
	for _, t := range r.topics {
		tv := view.Topics[t.Name]
		switch {
		case tv == nil || tv.Err == kafka.UnknownTopicOrPartition:
			missing = append(missing, t.Name)
		case tv.Err != kafka.None && !tv.Err.Retriable():
			return failure(fmt.Errorf("topic %s: %w", t.Name, tv.Err))
		case r.spec.Create == workload.CreateFresh:
			return usage(fmt.Errorf("topic %s exists: with --create=fresh a run makes its own (another --prefix, or --create=auto to use it)", t.Name))
		case len(tv.Partitions) < r.spec.Partitions:
			return usage(fmt.Errorf("topic %s has %d partitions, fewer than the %d asked for (--partitions)", t.Name, len(tv.Partitions), r.spec.Partitions))
		}
	}
	if len(missing) > 0 && r.spec.Create == workload.CreateNever {
		return usage(fmt.Errorf("topic %s does not exist, and --create=never makes none", missing[0]))
	}
	if err := r.createTopics(ctx, missing); err != nil {
		return err
	}
	r.view = view
	if !r.o.CheckOnly { // which only asked whether the missing ones could be made
		missing = nil
		if r.view, err = r.lookSettled(ctx, names); err != nil {
			return failure(fmt.Errorf("read the topics back: %w", err))
		}
	}
	r.readTopicSettings(ctx)
	if err := r.contact(ctx, missing); err != nil {
		return err
	}
	if r.o.CheckOnly {
		return errChecked
	}
	return nil
}

// lookSettled looks until topics that were just made are known and have their replicas, for a while: brokers learn of
// them one after another. Whoever needs leaders waits for them by himself.
func (r *run) lookSettled(ctx context.Context, names []string) (*raw.View, error) {
	until := time.Now().Add(settleTimeout)
	for {
		v, err := r.look(ctx, names)
		if err != nil || len(r.made) == 0 || time.Now().After(until) || settled(v, names) {
			return v, err
		}
		t := time.NewTimer(10 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return v, nil
		}
	}
}

func settled(v *raw.View, names []string) bool {
	for _, name := range names {
		t := v.Topics[name]
		if t == nil || t.Err != kafka.None || len(t.Partitions) == 0 {
			return false
		}
		for _, p := range t.Partitions {
			if p.Leader < 0 || p.ISR < p.Replicas {
				return false
			}
		}
	}
	return true
}

func (r *run) look(ctx context.Context, names []string) (*raw.View, error) {
	one, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	return r.cluster.View(one, names...)
}

// readTopicSettings reads back what each topic's settings are in effect; a target that does not tell is no error.
func (r *run) readTopicSettings(ctx context.Context) {
	one, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, t := range r.topics {
		res := kmsg.NewDescribeConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, t.Name
		req.Resources = append(req.Resources, res)
	}
	kresp, err := r.cluster.Ask(one, req)
	if err != nil {
		return
	}
	r.before = map[string]map[string]string{}
	for _, res := range kresp.(*kmsg.DescribeConfigsResponse).Resources {
		m := map[string]string{}
		for _, c := range res.Configs {
			if c.Value != nil {
				m[c.Name] = *c.Value
			}
		}
		r.before[res.ResourceName] = m
	}
}

// config is the driver's configuration, every setting given.
func (r *run) config() (driver.Config, error) {
	s := r.spec
	codec, err := compress.ParseCodec(s.Compression)
	if err != nil {
		return driver.Config{}, err
	}
	records := s.BufferRecords
	if s.Outstanding > 0 && (records == 0 || s.Outstanding < records) {
		records = s.Outstanding
	}
	acks := map[string]int16{workload.AcksNone: 0, workload.AcksLeader: 1, workload.AcksAll: -1}[s.Acks]
	return driver.Config{
		Access: r.access, Bootstrap: r.o.Bootstrap, ClientID: clientID, Topics: r.topics, Logger: r.o.Logger,
		Acks: acks, Idempotence: s.Idempotence, InFlight: s.InFlight, Linger: s.Linger.D(), BatchBytes: int(s.BatchSize),
		MaxRequestBytes: int(s.RequestMax), Codec: codec, CodecLevel: s.CompressionLevel, PayloadPool: s.PayloadPool, BufferBytes: int64(s.Buffer), BufferRecords: records,
		DeliveryTimeout: s.DeliveryTimeout.D(), RequestTimeout: s.RequestTimeout.D(), RetryBackoff: s.RetryBackoff.D(), Retries: s.Retries,
		FetchMinBytes: int32(s.FetchMin), FetchMaxBytes: int32(s.FetchMax), FetchMaxPartitionBytes: int32(s.FetchPartitionMax),
		FetchMaxWait: s.FetchMaxWait.D(), ReadCommitted: s.Isolation == workload.IsolationCommitted, MaxPollRecords: s.MaxPollRecords,
	}, nil
}

func (r *run) makeDriver(ctx context.Context) (driver.Driver, error) {
	cfg, err := r.config()
	if err != nil {
		return nil, err
	}
	one, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	switch r.spec.Driver {
	case workload.DriverNull:
		return null.New(cfg), nil
	case workload.DriverKgo:
		return kgo.New(cfg)
	}
	return raw.New(one, cfg)
}

func (r *run) makeProducers(ctx context.Context) error {
	names := make([]string, len(r.topics))
	for i, t := range r.topics {
		names[i] = t.Name
	}
	if r.spec.Verifying() {
		r.ledger = verify.NewLedger(r.id, names)
	}
	one, cancel := context.WithTimeout(ctx, contactTimeout+time.Duration(r.spec.Producers)*100*time.Millisecond)
	defer cancel()
	for i := range r.spec.Producers {
		b := r.bookFor(i)
		p := &pacer{r: r, book: b, source: newSource(r.spec, r.id, int32(i), r.keys, r.payload)}
		var err error
		p.producer, err = r.driver.NewProducer(one, int32(i), func(a *driver.Ack) {
			if r.ledger != nil && a.Err == nil && r.spec.Acks != workload.AcksNone {
				r.ledger.Acked(a.Producer, a.Topic, a.Partition, a.BaseOffset, a.Seqs)
			}
			b.acked(a)
		})
		if err != nil {
			return fmt.Errorf("connect producer %d: %w", i, err)
		}
		r.pacers = append(r.pacers, p)
		r.recalls = append(r.recalls, newRecall(r.spec, int32(i)))
	}
	return nil
}

// refusesAll dials every address and reports whether each refuses the connection.
func refusesAll(ctx context.Context, addrs []string) (why string, refused bool) {
	d := net.Dialer{Timeout: time.Second}
	var texts []string
	for _, a := range addrs {
		c, err := d.DialContext(ctx, "tcp", a)
		if err == nil {
			_ = c.Close()
			return "", false
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return "", false
		}
		texts = append(texts, a)
	}
	return "nobody listens any more on " + strings.Join(texts, ", "), len(addrs) > 0
}
