// Package broker is the broker's front door: New takes its settings, Start brings its rooms up in order, Shutdown takes
// them down again, and Commands are what the program offers of it (broker, dump).
//
// Everything a broker owns hangs on one Broker value, so that two fit in one process.
//
//	Start:     HTTP side -> log folders -> metadata quorum -> recovery -> listeners bound -> registration (new leader epochs,
//	           partitions, groups) -> connections accepted -> ready
//	Shutdown:  groups -> connections drained -> quorum -> partitions -> log folders (checkpoints, manifest)
//
// # Concurrency
//
// Start and Shutdown are called by one goroutine. Failed is closed by any goroutine when the broker can go on no longer.
package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/api"
	"github.com/tidemark/tidemark/broker/internal/controller"
	"github.com/tidemark/tidemark/broker/internal/coordinator"
	"github.com/tidemark/tidemark/broker/internal/fetchsession"
	"github.com/tidemark/tidemark/broker/internal/logdir"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/broker/internal/monitor"
	"github.com/tidemark/tidemark/broker/internal/purgatory"
	"github.com/tidemark/tidemark/broker/internal/replica"
	"github.com/tidemark/tidemark/broker/internal/server"
	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// Options is what a broker is made of.
type Options struct {
	Config *config.Broker
	FS     vfs.FS // nil means the real one
	Logger *slog.Logger
	Admin  string // address of the HTTP side; "" leaves it out
}

// Broker is one node.
type Broker struct {
	o          Options
	registry   *prometheus.Registry
	pool       *buf.Pool
	dirs       *logdir.Dirs
	controller *controller.Controller
	replicas   *replica.Set
	groups     *coordinator.Groups
	handlers   *api.Handlers
	server     *server.Server
	monitor    *monitor.Server
	bound      map[string]net.Addr // by listener name
	addr       string
	// metadataLock is held for a metadata folder that is no log folder.
	metadataLock io.Closer

	failed struct {
		sync.Once
		ch  chan struct{}
		err error
	}
}

// New makes a broker that has touched nothing yet.
func New(o Options) *Broker {
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Broker{o: o, registry: prometheus.NewRegistry(), pool: buf.NewPool(), bound: map[string]net.Addr{}}
	b.failed.ch = make(chan struct{})
	return b
}

func nowMS() int64 { return time.Now().UnixMilli() }

// elapsedMS is for what counts time alone: nobody can set it back.
func elapsedMS() int64 { return clock.Nanos() / 1e6 }

// Start brings the broker up. After an error what had been started is down again.
func (b *Broker) Start(ctx context.Context) error {
	if err := b.start(ctx); err != nil {
		b.down(context.WithoutCancel(ctx))
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			return fmt.Errorf("%w: the disk is full: make room on it, or name folders on another one (log.dirs, metadata.log.dir)", err)
		}
		return err
	}
	return nil
}

func (b *Broker) start(ctx context.Context) error {
	if err := b.openMonitor(); err != nil { // first: a start may take long, and who watches it must not take it for dead
		return err
	}
	if err := b.openLogs(); err != nil {
		return err
	}
	if err := b.openQuorum(ctx); err != nil {
		return err
	}
	if err := b.dirs.Adopt(b.ClusterID()); err != nil {
		return err
	}
	if err := b.dirs.Recover(ctx); err != nil {
		return err
	}
	if err := b.listen(); err != nil {
		return err
	}
	if err := b.register(ctx); err != nil {
		return err
	}
	b.dirs.CountSockets(func() int { return int(b.server.Connections()) })
	b.dirs.Start()
	b.server.Start()
	if b.monitor != nil {
		b.monitor.SetReady(true)
	}
	return nil
}

// openLogs locks the log folders.
func (b *Broker) openLogs() error {
	cfg := b.o.Config
	dirs, err := logdir.Open(logdir.Options{FS: b.o.FS, Dirs: cfg.LogDirs, NodeID: kafka.BrokerID(cfg.NodeID), Config: cfg, Pool: b.pool,
		Tail: commitlog.NewTailBudget(cfg.TidemarkTailBytes), Logger: b.o.Logger, NowMS: nowMS, Failed: b.folderFailed})
	if err != nil {
		return err
	}
	b.dirs = dirs
	b.replicas = replica.NewSet(replica.Options{NodeID: kafka.BrokerID(cfg.NodeID), Config: cfg, Dirs: dirs, Logger: b.o.Logger, NowMS: nowMS})
	return nil
}

// folderFailed stops the process with the last folder.
func (b *Broker) folderFailed(dir string, err error, all bool) {
	if all {
		b.fail(fmt.Errorf("log folder %s, the last one, went offline: %w", dir, err))
	}
}

func (b *Broker) fail(err error) {
	b.failed.Do(func() {
		b.failed.err = err
		close(b.failed.ch)
	})
}

// openQuorum opens the metadata log, tells replicas and groups of every image, and elects this node.
func (b *Broker) openQuorum(ctx context.Context) error {
	if err := errors.Join(b.lockMetadata(), b.checkMetadataPlace()); err != nil {
		return err
	}
	cfg := b.o.Config
	c, err := controller.Open(controller.Options{Config: cfg, FS: b.o.FS, Dir: cfg.MetadataDir(), NowMS: nowMS, Logger: b.o.Logger, Registerer: b.registry,
		ClusterID: b.dirs.ClusterID(), Failed: func(err error) { b.fail(fmt.Errorf("metadata log: %w", err)) }})
	if err != nil {
		return err
	}
	b.controller = c
	b.groups = coordinator.NewGroups(coordinator.Options{NodeID: kafka.BrokerID(cfg.NodeID), Config: cfg,
		Open:               coordinator.LogsOf(b.replicas),
		Empty:              func(p kafka.Partition) bool { return b.replicas.Empty(kafka.OffsetsTopic, p) },
		Folder:             func(p kafka.Partition) int { return b.replicas.Folder(kafka.OffsetsTopic, p) },
		CreateOffsetsTopic: b.createOffsetsTopic, Image: c.Image, NowMS: nowMS, Logger: b.o.Logger, Registerer: b.registry})
	c.Subscribe(func(img *metadata.Image, d metadata.Delta) {
		b.dynamic(img, d)
		b.replicas.Apply(img, d)
		b.groups.Apply(img, d)
	})
	if err := c.Start(ctx); err != nil {
		return err
	}
	b.dynamic(c.Image(), c.Image().Everything()) // recovery goes by it, and comes before subscribers are told
	return nil
}

// dynamic follows the broker's own settings that were made while it ran; before replicas, which fall back to them.
func (b *Broker) dynamic(img *metadata.Image, d metadata.Delta) {
	if !slices.ContainsFunc(d.Configs, func(c metadata.ConfigChange) bool { return c.Kind == metadata.BrokerResource }) {
		return
	}
	cfg := b.o.Config
	if err := cfg.SetDynamic(img.Config(metadata.BrokerResource, ""), img.Config(metadata.BrokerResource, cfg.OwnName())); err != nil {
		b.o.Logger.Error("settings made at run time do not go with those given at start, and do not count", "error", err)
	}
}

func (b *Broker) createOffsetsTopic(ctx context.Context) error {
	r := b.controller.CreateOffsetsTopic(ctx)
	if r.Err == kafka.None || r.Err == kafka.TopicAlreadyExists {
		return nil
	}
	return fmt.Errorf("create %s: %w: %s", kafka.OffsetsTopic, r.Err, r.Text)
}

// listen binds every listener; nothing is accepted before Start has ended.
func (b *Broker) listen() error {
	cfg := b.o.Config
	sessions := fetchsession.New(int(cfg.MaxIncrementalFetchSessionCacheSlots), elapsedMS)
	b.registry.MustRegister(sessionMetrics(sessions)...)
	b.handlers = api.New(api.Deps{NodeID: kafka.BrokerID(cfg.NodeID), Config: cfg, Meta: b.controller, Controller: b.controller,
		Replicas: b.replicas, Groups: b.groups, Sessions: sessions,
		Purgatory: purgatory.New(), Pool: b.pool, Logger: b.o.Logger, NowMS: nowMS, Advertised: b.advertised})
	srv, err := server.New(server.Options{Handlers: b.handlers, Config: cfg, Pool: b.pool, Logger: b.o.Logger})
	if err != nil {
		return err
	}
	b.server = srv
	for _, l := range cfg.ClientListeners() {
		addr, err := srv.Listen(l.Name, net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))))
		if err != nil {
			return err
		}
		b.bound[l.Name] = addr
		b.warnOfAllInterfaces(l.Name)
		if b.addr == "" {
			b.addr = addr.String()
		}
	}
	if b.addr == "" {
		return errNoListener
	}
	b.metrics()
	return nil
}

// openMonitor brings the HTTP side up, not ready yet.
func (b *Broker) openMonitor() (err error) {
	if b.o.Admin == "" {
		return nil
	}
	if b.monitor, err = monitor.New(monitor.Options{Addr: b.o.Admin, Registry: b.registry, Logger: b.o.Logger}); err == nil {
		b.o.Logger.Info("admin http://" + b.AdminAddr())
	}
	return err
}

var errNoListener = errors.New("listeners: no listener for clients is given; add one, such as listeners=PLAINTEXT://127.0.0.1:9092")

// advertised is where clients that came by a listener are told to find this broker.
func (b *Broker) advertised(listener string) (string, int32) {
	host, port := "", int32(0)
	if l, ok := b.o.Config.Advertised(listener); ok {
		host, port = l.Host, l.Port
	}
	if tcp, ok := b.bound[listener].(*net.TCPAddr); ok {
		if port == 0 {
			port = int32(tcp.Port)
		}
		if host == "" {
			host = tcp.IP.String()
			if tcp.IP.IsUnspecified() {
				host = "localhost"
			}
		}
	}
	return host, port
}

// warnOfAllInterfaces tells what clients are told where nobody has said it.
func (b *Broker) warnOfAllInterfaces(listener string) {
	tcp, ok := b.bound[listener].(*net.TCPAddr)
	if l, _ := b.o.Config.Advertised(listener); !ok || !tcp.IP.IsUnspecified() || l.Host != "" {
		return
	}
	host, port := b.advertised(listener)
	at := net.JoinHostPort(host, strconv.Itoa(int(port)))
	b.o.Logger.Warn("the listener takes everybody who reaches this host, without authentication, and tells clients to find the broker at "+at+
		", which other hosts cannot follow: set advertised.listeners="+listener+"://HOST:"+strconv.Itoa(int(port))+", or listen on 127.0.0.1", "listener", listener)
}

// register makes this start known: a new broker epoch, a new leader epoch for every partition led here.
func (b *Broker) register(ctx context.Context) error {
	r := metadata.Broker{ID: kafka.BrokerID(b.o.Config.NodeID), Rack: b.o.Config.BrokerRack}
	_, _ = rand.Read(r.Incarnation[:]) // it never fails
	for _, l := range b.o.Config.ClientListeners() {
		host, port := b.advertised(l.Name)
		r.Endpoints = append(r.Endpoints, metadata.Endpoint{Listener: l.Name, Host: host, Port: port})
	}
	_, err := b.controller.RegisterBroker(ctx, r)
	return err
}

// Addr is the first client listener's bound address, HOST:PORT.
func (b *Broker) Addr() string { return b.addr }

// AdminAddr is the HTTP side's bound address, "" without one.
func (b *Broker) AdminAddr() string {
	if b.monitor == nil {
		return ""
	}
	return b.monitor.Addr()
}

// ClusterID is the cluster's id, known once Start has returned.
func (b *Broker) ClusterID() string { return b.controller.Image().ClusterID }

// Failed is closed when the broker can go on no longer; Err says why.
func (b *Broker) Failed() <-chan struct{} { return b.failed.ch }

// Err is the reason after Failed is closed.
func (b *Broker) Err() error { return b.failed.err }

// Shutdown drains connections, then takes the rooms down: the logs are closed and the clean-shutdown files are
// written. When ctx ends first, connections are cut; the log is still closed in order.
func (b *Broker) Shutdown(ctx context.Context) error { return b.down(ctx) }

// groupsHeadStart is how long a stop waits for the groups alone.
const groupsHeadStart = 3 * time.Second

// closeTimeout is what the rooms behind the connections get to close.
const closeTimeout = 10 * time.Second

func (b *Broker) down(ctx context.Context) error {
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	if b.monitor != nil {
		b.monitor.SetReady(false)
	}
	resigned := b.resignGroups(ctx) // first: a parked JoinGroup would hold its connection for a whole rebalance
	if b.server != nil {
		note(b.server.Shutdown(ctx))
	}
	note(<-resigned)
	// The rooms behind the connections close in order even when draining has taken all of ctx's time: without that the
	// clean-shutdown files would be missing whenever a client does not read its answers.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if b.handlers != nil {
		note(within(ctx, "stop the workers", func() error { b.handlers.Close(); return nil }))
	}
	if b.controller != nil {
		// No image, so no partition, comes after this.
		note(within(ctx, "close the metadata log", func() error { return b.controller.Shutdown(ctx) }))
	}
	if b.replicas != nil {
		note(b.replicas.Close(ctx))
	}
	if b.dirs != nil {
		note(b.dirs.Close())
	}
	if b.metadataLock != nil {
		note(b.metadataLock.Close())
	}
	if b.monitor != nil {
		note(b.monitor.Close())
	}
	return errors.Join(errs...)
}

// resignGroups ends the groups and gives them a head start before the connections are drained. The rest of their end, which a disk
// may hold up, is waited for through the channel.
func (b *Broker) resignGroups(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	if b.groups == nil {
		close(done)
		return done
	}
	ended := make(chan struct{})
	go func() { done <- b.groups.Close(ctx); close(ended) }()
	select {
	case <-ended:
	case <-time.After(groupsHeadStart):
	case <-ctx.Done():
	}
	return done
}

// within waits for a step of the stop, but not beyond ctx for a disk that hangs.
func within(ctx context.Context, what string, step func() error) error {
	done := make(chan error, 1)
	go func() { done <- step() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: a disk does not answer", what, ctx.Err())
	}
}
