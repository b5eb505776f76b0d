package result

// Contact is what the cluster told when it was first asked, before any load.
type Contact struct {
	Security      string         `json:"security"` // "PLAINTEXT", "SASL_SSL, SCRAM-SHA-512"
	Brokers       int            `json:"brokers"`
	Controller    int            `json:"controller"` // -1: none named
	ProduceMin    int            `json:"produceVersionMin"`
	ProduceMax    int            `json:"produceVersionMax"`
	FetchMin      int            `json:"fetchVersionMin"`
	FetchMax      int            `json:"fetchVersionMax"`
	RoundTrips    int            `json:"roundTrips"` // small requests asked one after another, over all brokers
	RoundTrip     int64          `json:"roundTripNanos"`
	SlowestBroker int            `json:"slowestBroker"` // with the largest median
	Slowest       int64          `json:"slowestNanos"`  // that median
	ThrottleNanos int64          `json:"throttleNanos"` // throttle_time_ms in these answers
	Quotas        []Quota        `json:"quotas,omitempty"`
	QuotasNote    string         `json:"quotasNote,omitempty"` // why they are not known
	Topics        []ContactTopic `json:"topics"`
	// WillWriteBytes is what the workload may write, keys and values of one copy; 0 where nothing bounds it.
	WillWriteBytes int64 `json:"willWriteBytes"`
}

// Quota is a client quota that may apply to the run's clients.
type Quota struct {
	Entity string  `json:"entity"` // "client-id default", "user alice"
	Key    string  `json:"key"`    // producer_byte_rate, ...
	Value  float64 `json:"value"`
}

// ContactTopic is one topic of the run at first contact.
type ContactTopic struct {
	Name        string `json:"name"`
	Missing     bool   `json:"missing,omitempty"` // not there yet
	Partitions  int    `json:"partitions"`
	Replication int    `json:"replication"`
	InSync      int    `json:"inSync"` // of the partition that has the fewest
	MinISR      int    `json:"minISR"` // 0: not told
}

// Condition is one --fail-if and what became of it.
type Condition struct {
	Condition string `json:"condition"`
	Outcome   string `json:"outcome"` // "passed", "failed", "cannot tell"
	Measured  string `json:"measured,omitempty"`
	Reason    string `json:"reason,omitempty"`
}
