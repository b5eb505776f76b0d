// Package fetchsession keeps the sessions of incremental fetches (KIP-227): which partitions a client follows, from
// which offset and with which bound, so that a request names only what changed and an answer only what has news.
//
// It knows no log and no socket: a session is an ordered list of partitions that the handler walks.
package fetchsession

// Cache holds the sessions of one broker.
type Cache struct{ slots int }

// New makes a cache for at most slots sessions (max.incremental.fetch.session.cache.slots).
func New(slots int, nowMS func() int64) *Cache { return &Cache{slots: slots} }
