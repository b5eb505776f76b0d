"""The Python clients of the interop suite: confluent (librdkafka) and kafka-python, one verb a run.

    clients.py LIBRARY produce   BOOTSTRAP TOPIC CODEC ACKS FIRST COUNT
    clients.py LIBRARY consume   BOOTSTRAP TOPIC COUNT
    clients.py LIBRARY fromtime  BOOTSTRAP TOPIC PARTITIONS TIMESTAMP
    clients.py LIBRARY group     BOOTSTRAP TOPIC GROUP COUNT
    clients.py LIBRARY rebalance BOOTSTRAP TOPIC GROUP PARTITIONS

Records: key k<i mod 10>, value <library>-<i>, header n=<i>, timestamp BASE + i milliseconds. consume and group print one
line a record: partition, offset, timestamp, key, value. fromtime prints partition and offset. rebalance prints what each
of two members owned together, then what the one that stayed owned alone.
"""
import os
import sys
import time

BASE = int(os.environ["INTEROP_BASE_MS"])  # the time of record 0
PATIENCE = 180


def line(*parts):
    print(*parts, flush=True)


class Confluent:
    def produce(self, bootstrap, topic, codec, acks, first, count):
        from confluent_kafka import Producer
        failed = []
        p = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "acks": acks, "linger.ms": 5,
                      "enable.idempotence": acks == "all"})
        for i in range(first, first + count):
            p.produce(topic, key=f"k{i % 10}", value=f"confluent-{i}", timestamp=BASE + i, headers={"n": str(i)},
                      on_delivery=lambda err, msg: failed.append(err) if err else None)
            p.poll(0)
        if p.flush(PATIENCE) or failed:
            raise SystemExit(f"not delivered: {failed[:3]}")

    def consumer(self, bootstrap, group, **more):
        from confluent_kafka import Consumer
        return Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
                         "enable.auto.commit": False, **more})

    def read(self, consumer, count, commit):
        end, got = time.monotonic() + PATIENCE, 0
        while got < count and time.monotonic() < end:
            m = consumer.poll(1.0)
            if m is None:
                continue
            if m.error():
                raise SystemExit(f"consume: {m.error()}")
            line(m.partition(), m.offset(), m.timestamp()[1], m.key().decode(), m.value().decode())
            got += 1
        if commit:
            consumer.commit(asynchronous=False)
        consumer.close()

    def consume(self, bootstrap, topic, count):
        from confluent_kafka import TopicPartition, OFFSET_BEGINNING
        c = self.consumer(bootstrap, "unused-confluent")
        parts = c.list_topics(topic, PATIENCE).topics[topic].partitions
        c.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in parts])
        self.read(c, count, False)

    def fromtime(self, bootstrap, topic, partitions, ts):
        from confluent_kafka import TopicPartition
        c = self.consumer(bootstrap, "unused-confluent")
        for tp in c.offsets_for_times([TopicPartition(topic, p, ts) for p in range(partitions)], PATIENCE):
            line(tp.partition, tp.offset)
        c.close()

    def group(self, bootstrap, topic, group, count):
        c = self.consumer(bootstrap, group)
        c.subscribe([topic])
        self.read(c, count, True)

    def rebalance(self, bootstrap, topic, group, partitions):
        cs = [self.consumer(bootstrap, group, **{"session.timeout.ms": 60000,
                                                 "partition.assignment.strategy": "cooperative-sticky"}) for _ in range(2)]
        for c in cs:
            c.subscribe([topic])
        rebalance(cs, partitions, lambda c: c.poll(0.2), lambda c: sorted(t.partition for t in c.assignment()), lambda c: c.close())


class KafkaPython:
    def produce(self, bootstrap, topic, codec, acks, first, count):
        from kafka import KafkaProducer
        p = KafkaProducer(bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec,
                          acks="all" if acks == "all" else int(acks), linger_ms=5, enable_idempotence=acks == "all")
        sent = [p.send(topic, key=f"k{i % 10}".encode(), value=f"kafka-python-{i}".encode(), timestamp_ms=BASE + i,
                       headers=[("n", str(i).encode())]) for i in range(first, first + count)]
        p.flush(PATIENCE)
        for f in sent:
            f.get(PATIENCE)
        p.close()

    def consumer(self, bootstrap, group, *topics, **more):
        from kafka import KafkaConsumer
        return KafkaConsumer(*topics, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
                             enable_auto_commit=False, **more)

    def read(self, consumer, count, commit):
        end, got = time.monotonic() + PATIENCE, 0
        while got < count and time.monotonic() < end:
            for records in consumer.poll(timeout_ms=1000, max_records=count - got).values():
                for m in records:
                    line(m.partition, m.offset, m.timestamp, m.key.decode(), m.value.decode())
                    got += 1
        if commit:
            consumer.commit()
        consumer.close()

    def consume(self, bootstrap, topic, count):
        from kafka import TopicPartition
        c = self.consumer(bootstrap, None)
        c.assign([TopicPartition(topic, p) for p in c.partitions_for_topic(topic)])
        c.seek_to_beginning()
        self.read(c, count, False)

    def fromtime(self, bootstrap, topic, partitions, ts):
        from kafka import TopicPartition
        c = self.consumer(bootstrap, None)
        found = c.offsets_for_times({TopicPartition(topic, p): ts for p in range(partitions)})
        for tp, o in sorted(found.items()):
            line(tp.partition, o.offset if o else -1)
        c.close()

    def group(self, bootstrap, topic, group, count):
        self.read(self.consumer(bootstrap, group, topic), count, True)

    def rebalance(self, bootstrap, topic, group, partitions):
        # Each member polls in a thread of its own: a KafkaConsumer joins inside poll, which waits for the others.
        import threading
        stop = [threading.Event(), threading.Event()]
        cs = [self.consumer(bootstrap, group, topic, session_timeout_ms=60000) for _ in range(2)]

        def work(c, ended):
            while not ended.is_set():
                c.poll(timeout_ms=200)
            c.close()
        threads = [threading.Thread(target=work, args=(c, e)) for c, e in zip(cs, stop)]
        for t in threads:
            t.start()

        def close(c):
            i = cs.index(c)
            stop[i].set()
            threads[i].join()
        try:
            rebalance(cs, partitions, lambda c: time.sleep(0.1), lambda c: sorted(t.partition for t in c.assignment()), close)
        finally:
            for e in stop:
                e.set()


def rebalance(consumers, partitions, poll, owned, close):
    everything = list(range(partitions))

    def until(members, what):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for c in members:
                poll(c)
            parts = [owned(c) for c in members]
            if all(parts) and sorted(sum(parts, [])) == everything:
                line(what, parts)
                return
        raise SystemExit(f"{what}: {[owned(c) for c in members]} after {PATIENCE} s")
    until(consumers, "together")
    close(consumers[1])
    until(consumers[:1], "alone")
    close(consumers[0])


def main():
    library, verb, *args = sys.argv[1:]
    client = {"confluent": Confluent, "kafka-python": KafkaPython}[library]()
    numbers = {"produce": (4, 5), "consume": (2,), "fromtime": (2, 3), "group": (3,), "rebalance": (3,)}[verb]
    getattr(client, verb)(*[int(a) if i in numbers else a for i, a in enumerate(args)])


main()
