package versus

// smallSuite has a row of every kind, in windows too short to say anything.
const smallSuite = `
name: small
about: a row of every kind, for tests
broker:
  log.retention.check.interval.ms: "1000"
  log.segment.delete.delay.ms: "1000"
  group.initial.rebalance.delay.ms: "0"
kafka:
  - {name: kafka, about: a second broker of ours stands in, heap: 1G}
profiles:
  - {name: full, about: all, budget: 10m, processes: 1, pairs: 2, blocks: 2, settle-at-most: 1s, tuned: false, warm-up: 0s}
set: {driver: raw, acks: all, idempotence: "true", in-flight: "5", producers: "1", partitions: "2", record-size: 256B, partitioner: roundrobin, drain: 20s, consumers: "0"}
rows:
  - name: produce
    title: produce
    set: {question: capacity, batch-size: 16KiB, warm-up: 20ms, window: 200ms}
    ceiling: {frame: 16384, window: 5}
    goals: [{measure: MB per CPU-s, ratio: 2, of-ceiling: 0.8}]
  - name: kept
    title: a kept topic
    topic: kept
    set: {question: capacity, linger: 5ms, partitions: "20", warm-up: 20ms, window: 200ms}
    goals: [{measure: MB per CPU-s, ratio: 2, of-row: produce, of-row-share: 0.5}]
  - name: fetch
    title: catch-up fetch
    read: 16MiB
    set: {question: capacity, producers: "0", consumers: "1", fetch-max: 512KiB, fetch-partition-max: 128KiB, warm-up: 0s, window: 100ms, drain: 20s}
    ceiling: {sendfile: true}
    goals: [{measure: MB read per CPU-s, ratio: 1.6}]
  - name: tail
    title: a tail group
    set: {rate: "500", groups: "1", warm-up: 50ms, window: 1s}
    goals: [{measure: MB per CPU-s, ratio: 2}, {measure: delivery p99, at-most: 0.5}]
  - {name: start, title: start, alone: start, goals: [{measure: start ms, under: 50}]}
  - {name: memory, title: memory, alone: memory, goals: [{measure: idle MiB, under: 30}]}
missing: [{title: TLS, why: not built}]
`
