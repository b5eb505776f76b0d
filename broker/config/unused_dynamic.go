package config

//tidy:table

// unusedDynamic is those of unusedTable that Kafka 4.4 lets change while a broker runs: a tool that sets them succeeds,
// with a warning. Those of TLS and SASL are left out: some are secrets, and nothing here would keep them as such.
var unusedDynamic = []string{
	"background.threads", "cordoned.log.dirs", "errors.deadletterqueue.auto.create.topics.enable",
	"errors.deadletterqueue.topic.name.prefix", "follower.fetch.last.tiered.offset.enable",
	"follower.replication.throttled.rate", "group.consumer.assignment.interval.ms",
	"group.coordinator.cached.buffer.max.bytes", "group.share.assignment.interval.ms",
	"group.streams.assignment.interval.ms", "leader.replication.throttled.rate", "log.cleaner.io.buffer.size",
	"log.local.retention.bytes", "log.local.retention.ms", "log.remote.copy.lag.bytes", "log.remote.copy.lag.ms",
	"max.connection.creation.rate",
	"max.connections.per.ip.overrides", "metric.reporters", "num.io.threads", "num.network.threads",
	"num.replica.fetchers", "remote.fetch.max.wait.ms", "remote.list.offsets.request.timeout.ms",
	"remote.log.index.file.cache.total.size.bytes", "remote.log.manager.copier.thread.pool.size",
	"remote.log.manager.copy.max.bytes.per.second", "remote.log.manager.expiration.thread.pool.size",
	"remote.log.manager.fetch.max.bytes.per.second", "remote.log.manager.follower.thread.pool.size",
	"remote.log.reader.threads", "replica.alter.log.dirs.io.max.bytes.per.second",
	"share.coordinator.cached.buffer.max.bytes", "transaction.partition.verification.enable",
}
