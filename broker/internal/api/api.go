// Package api serves the Kafka protocol's requests: one literal table (table.go) with a row for each API key, and one
// file for each key. Dispatch, ApiVersions and the docs read the table.
//
// Handlers run on the goroutine of the connection that read the request (package server owns it): they may wait for
// nothing. Produce and Fetch (raw rows) decode and encode by hand through core/wire; every other row is decoded to a kmsg
// request and answers with a kmsg response, at once or, through Call.Later, from any goroutine. Answers leave in the
// order of the requests whatever order they complete in.
//
// A Handlers value is shared by all connections and is immutable but for its caches.
package api

import (
	"log/slog"
	"runtime"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/controller"
	"github.com/tidemark/tidemark/broker/internal/coordinator"
	"github.com/tidemark/tidemark/broker/internal/fetchsession"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/broker/internal/purgatory"
	"github.com/tidemark/tidemark/broker/internal/replica"
	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
)

// Images gives the newest committed image of the cluster.
type Images interface{ Image() *metadata.Image }

// Deps is what the handlers are made of.
type Deps struct {
	NodeID     kafka.BrokerID
	Config     *config.Broker
	Meta       Images
	Controller *controller.Controller
	Replicas   *replica.Set
	Groups     *coordinator.Groups
	Sessions   *fetchsession.Cache
	Purgatory  *purgatory.Timeouts // ends waits whose time is over
	Pool       *buf.Pool
	Logger     *slog.Logger
	NowMS      func() int64 // wall clock, milliseconds of the Unix epoch
	// Advertised is where clients that came by a listener are told to find this broker.
	Advertised func(listener string) (host string, port int32)
}

// Handlers serves requests. Build it with New.
type Handlers struct {
	Deps
	// oneAtATime is held while a request of more than 64 KiB is decoded by kmsg, which may take 100 bytes for each of the
	// request's (BROKER 4), and handled, unless that may wait for a disk.
	oneAtATime sync.Mutex
	oneRecode  sync.Mutex // while memory is scarce
	rows       [maxKey + 1]*row
	allTopics  metadataCache
	apiKeys    []kmsg.ApiVersionsResponseApiKey
	codecs     *compress.Codecs
	workers    *workers
	cold       [maxFolders]*workers // readers of cold pages, by log folder: one that hangs stops only its own
	produces   sync.Pool            // *produceCall
	fetches    sync.Pool            // *fetchCall
}

// New makes the handlers and starts the workers that build the answers of fetches that had to wait.
func New(d Deps) *Handlers {
	h := &Handlers{Deps: d, codecs: compress.New(), apiKeys: advertisedKeys(table())}
	for _, r := range table() {
		h.rows[r.key] = &r
	}
	h.workers = newWorkers(runtime.GOMAXPROCS(0), (*fetchCall).run)
	for i := range h.cold {
		h.cold[i] = newWorkers(coldReaders, func(f *fetchCall) { f.warm(i); f.answer() })
	}
	return h
}

// Close stops the workers. No connection may be open.
func (h *Handlers) Close() {
	h.workers.close()
	for _, w := range h.cold {
		w.close()
	}
}

const (
	// coldReaders bounds the fetches that read from the disk of one log folder at once.
	coldReaders = 16
	// maxFolders is how many log folders have readers of their own; with more they share.
	maxFolders = 16
)

// Image is the newest committed image of the cluster.
func (h *Handlers) Image() *metadata.Image { return h.Meta.Image() }
