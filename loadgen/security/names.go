package security

// honoured are the properties that are read.
var honoured = []string{
	"security.protocol",
	"ssl.protocol", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm", "ssl.key.password",
	"ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.key", "ssl.keystore.certificate.chain",
	"ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.certificates",
	"sasl.mechanism", "sasl.jaas.config",
}

// workloadFlags are properties of Kafka's clients that a workload sets here.
var workloadFlags = map[string]string{
	"bootstrap.servers": "bootstrap", "acks": "acks", "batch.size": "batch-size", "linger.ms": "linger", "buffer.memory": "buffer",
	"compression.type": "compression", "compression.gzip.level": "compression-level", "compression.lz4.level": "compression-level",
	"compression.zstd.level": "compression-level", "delivery.timeout.ms": "delivery-timeout", "enable.idempotence": "idempotence",
	"max.in.flight.requests.per.connection": "in-flight", "max.request.size": "request-max", "request.timeout.ms": "request-timeout",
	"retries": "retries", "retry.backoff.ms": "retry-backoff", "partitioner.class": "partitioner",
	"auto.commit.interval.ms": "commit-interval", "auto.offset.reset": "consume-from", "enable.auto.commit": "commit",
	"fetch.max.bytes": "fetch-max", "fetch.max.wait.ms": "fetch-max-wait", "fetch.min.bytes": "fetch-min", "isolation.level": "isolation",
	"max.partition.fetch.bytes": "fetch-partition-max", "max.poll.records": "max-poll-records",
	"partition.assignment.strategy": "assignor", "session.timeout.ms": "session-timeout",
}

// WorkloadFlag is the workload's setting that a property of Kafka's clients stands for, "" for none.
func WorkloadFlag(property string) string { return workloadFlags[property] }

// Honoured reports whether a property says how to connect, and is read here.
func Honoured(property string) bool {
	for _, k := range honoured {
		if k == property {
			return true
		}
	}
	return false
}

// Names lists every property that Kafka's clients know, those of the workload and of security among them.
func Names() []string {
	names := append([]string(nil), honoured...)
	names = append(names, known...)
	for k := range workloadFlags {
		names = append(names, k)
	}
	return names
}

// known are further properties of Kafka's producer, consumer and admin clients; they mean nothing to this program.
var known = []string{
	"allow.auto.create.topics", "auto.include.jmx.reporter", "bootstrap.controllers", "check.crcs", "client.dns.lookup", "client.id", "client.rack",
	"config.providers", "connections.max.idle.ms", "default.api.timeout.ms", "enable.metrics.push", "exclude.internal.topics", "group.id",
	"group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms", "interceptor.classes", "key.deserializer", "key.serializer",
	"max.block.ms", "max.poll.interval.ms", "metadata.max.age.ms", "metadata.max.idle.ms", "metadata.recovery.rebootstrap.trigger.ms",
	"metadata.recovery.strategy", "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
	"partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "partitioner.ignore.keys",
	"receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retry.backoff.max.ms",
	"sasl.client.callback.handler.class", "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.service.name",
	"sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor", "sasl.login.callback.handler.class", "sasl.login.class",
	"sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds",
	"sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms",
	"sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.header.urlencode",
	"sasl.oauthbearer.jwks.endpoint.refresh.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
	"sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.token.endpoint.url",
	"security.providers", "send.buffer.bytes", "share.acknowledgement.mode", "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
	"ssl.cipher.suites", "ssl.engine.factory.class", "ssl.keymanager.algorithm", "ssl.provider", "ssl.secure.random.implementation",
	"ssl.trustmanager.algorithm", "transaction.timeout.ms", "transaction.two.phase.commit.enable", "transactional.id", "value.deserializer", "value.serializer",
}
