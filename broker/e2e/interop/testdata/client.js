// The kafkajs client of the interop suite: one verb a run, the same verbs and output as clients.py.
const { Kafka, CompressionTypes, CompressionCodecs, logLevel, Partitioners } = require('kafkajs')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const { ZstdCodec } = require('zstd-codec')

const BASE = +process.env.INTEROP_BASE_MS // the time of record 0
const PATIENCE = 180000

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: async (buffer) => lz4.decompressFrame(buffer),
})
const zstd = new Promise((resolve) => ZstdCodec.run((z) => resolve(new z.Streaming())))
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from((await zstd).compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from((await zstd).decompress(buffer)),
})
const codecs = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 }

const line = (...parts) => console.log(parts.join(' '))
const client = (bootstrap) => new Kafka({ clientId: 'interop', brokers: [bootstrap], logLevel: logLevel.ERROR })

async function produce(bootstrap, topic, codec, acks, first, count) {
  const p = client(bootstrap).producer({ createPartitioner: Partitioners.DefaultPartitioner, idempotent: acks === 'all', maxInFlightRequests: 1 })
  await p.connect()
  const messages = []
  for (let i = +first; i < +first + +count; i++) {
    messages.push({ key: `k${i % 10}`, value: `kafkajs-${i}`, headers: { n: String(i) }, timestamp: String(BASE + i) })
  }
  for (let i = 0; i < messages.length; i += 100) {
    await p.send({ topic, compression: codecs[codec], acks: acks === 'all' ? -1 : +acks, messages: messages.slice(i, i + 100) })
  }
  await p.disconnect()
}

async function read(bootstrap, topic, groupId, count, commit) {
  const c = client(bootstrap).consumer({ groupId, sessionTimeout: 60000 })
  await c.connect()
  await c.subscribe({ topic, fromBeginning: true })
  let got = 0
  await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${got} of ${count} records after ${PATIENCE} ms`)), PATIENCE)
    c.on(c.events.CRASH, (e) => reject(e.payload.error))
    c.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        if (got >= count) return
        line(partition, message.offset, message.timestamp, message.key, message.value)
        got++
        if (commit) await c.commitOffsets([{ topic, partition, offset: String(+message.offset + 1) }])
        if (got >= count) { clearTimeout(timer); resolve() }
      },
    }).catch(reject)
  })
  await c.disconnect()
}

async function fromtime(bootstrap, topic, partitions, ts) {
  const a = client(bootstrap).admin()
  await a.connect()
  // kafkajs answers the end of a partition that has nothing at or after the time; say -1 as the others do.
  const ends = Object.fromEntries((await a.fetchTopicOffsets(topic)).map((p) => [p.partition, p.high]))
  const found = await a.fetchTopicOffsetsByTimestamp(topic, +ts)
  for (const p of found.sort((x, y) => x.partition - y.partition)) line(p.partition, p.offset === ends[p.partition] ? -1 : p.offset)
  await a.disconnect()
}

async function rebalance(bootstrap, topic, groupId, partitions) {
  const owned = [[], []]
  const members = [0, 1].map((i) => {
    const c = client(bootstrap).consumer({ groupId, sessionTimeout: 60000, heartbeatInterval: 500 })
    c.on(c.events.GROUP_JOIN, (e) => { owned[i] = (e.payload.memberAssignment[topic] || []).slice().sort() })
    return c
  })
  for (const c of members) {
    await c.connect()
    await c.subscribe({ topic, fromBeginning: true })
    await c.run({ eachMessage: async () => {} })
  }
  const until = async (ids, what) => {
    const end = Date.now() + PATIENCE
    while (Date.now() < end) {
      const all = ids.flatMap((i) => owned[i]).sort((a, b) => a - b)
      if (ids.every((i) => owned[i].length) && all.length === +partitions && all.every((p, i) => p === i)) {
        line(what, JSON.stringify(ids.map((i) => owned[i])))
        return
      }
      await new Promise((r) => setTimeout(r, 50))
    }
    throw new Error(`${what}: ${JSON.stringify(owned)} after ${PATIENCE} ms`)
  }
  await until([0, 1], 'together')
  await members[1].disconnect()
  await until([0], 'alone')
  await members[0].disconnect()
}

const [verb, ...args] = process.argv.slice(2)
const verbs = {
  produce,
  consume: (b, t, n) => read(b, t, `kafkajs-consume-${process.pid}-${Date.now()}`, +n, false),
  fromtime,
  group: (b, t, g, n) => read(b, t, g, +n, true),
  rebalance,
}
verbs[verb](...args).then(() => process.exit(0), (e) => { console.error(e); process.exit(1) })
