import java.time.Duration;
import java.util.*;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

/** The Java client of the interop suite: one verb a run, the same verbs and output as clients.py. */
public class Client {
  static final long BASE = Long.parseLong(System.getenv("INTEROP_BASE_MS")); // the time of record 0
  static final long PATIENCE = 180_000;

  public static void main(String[] a) throws Exception {
    switch (a[0]) {
      case "produce" -> produce(a[1], a[2], a[3], a[4], Integer.parseInt(a[5]), Integer.parseInt(a[6]));
      case "consume" -> consume(a[1], a[2], Integer.parseInt(a[3]));
      case "fromtime" -> fromTime(a[1], a[2], Integer.parseInt(a[3]), Long.parseLong(a[4]));
      case "group" -> group(a[1], a[2], a[3], Integer.parseInt(a[4]));
      case "rebalance" -> rebalance(a[1], a[2], a[3], Integer.parseInt(a[4]));
      default -> throw new IllegalArgumentException(a[0]);
    }
  }

  static void produce(String bootstrap, String topic, String codec, String acks, int first, int count) throws Exception {
    Properties p = new Properties();
    p.put("bootstrap.servers", bootstrap);
    p.put("compression.type", codec);
    p.put("acks", acks);
    p.put("enable.idempotence", String.valueOf(acks.equals("all")));
    p.put("linger.ms", "5");
    try (var producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
      List<Future<RecordMetadata>> sent = new ArrayList<>();
      for (int i = first; i < first + count; i++) {
        var r = new ProducerRecord<>(topic, null, BASE + i, "k" + i % 10, "java-" + i);
        r.headers().add("n", String.valueOf(i).getBytes());
        sent.add(producer.send(r));
      }
      for (var f : sent) f.get();
    }
  }

  static KafkaConsumer<String, String> consumer(String bootstrap, String group) {
    Properties p = new Properties();
    p.put("bootstrap.servers", bootstrap);
    if (group != null) p.put("group.id", group);
    p.put("auto.offset.reset", "earliest");
    p.put("enable.auto.commit", "false");
    p.put("session.timeout.ms", "60000");
    p.put("heartbeat.interval.ms", "500");
    p.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
    return new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer());
  }

  static void read(KafkaConsumer<String, String> c, int count, boolean commit) {
    long end = System.currentTimeMillis() + PATIENCE;
    int got = 0;
    Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
    while (got < count && System.currentTimeMillis() < end) {
      for (var r : c.poll(Duration.ofMillis(500))) {
        if (got == count) break;
        System.out.println(r.partition() + " " + r.offset() + " " + r.timestamp() + " " + r.key() + " " + r.value());
        done.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
        got++;
      }
    }
    if (commit) c.commitSync(done);
    c.close();
  }

  static void consume(String bootstrap, String topic, int count) {
    var c = consumer(bootstrap, null);
    List<TopicPartition> parts = new ArrayList<>();
    for (var p : c.partitionsFor(topic)) parts.add(new TopicPartition(topic, p.partition()));
    c.assign(parts);
    c.seekToBeginning(parts);
    read(c, count, false);
  }

  static void fromTime(String bootstrap, String topic, int partitions, long ts) {
    var c = consumer(bootstrap, null);
    Map<TopicPartition, Long> want = new LinkedHashMap<>();
    for (int i = 0; i < partitions; i++) want.put(new TopicPartition(topic, i), ts);
    var found = c.offsetsForTimes(want);
    for (var tp : want.keySet()) System.out.println(tp.partition() + " " + (found.get(tp) == null ? -1 : found.get(tp).offset()));
    c.close();
  }

  static void group(String bootstrap, String topic, String group, int count) {
    var c = consumer(bootstrap, group);
    c.subscribe(List.of(topic));
    read(c, count, true);
  }

  static void rebalance(String bootstrap, String topic, String group, int partitions) {
    List<KafkaConsumer<String, String>> both = List.of(consumer(bootstrap, group), consumer(bootstrap, group));
    for (var c : both) c.subscribe(List.of(topic));
    until(both, "together", partitions);
    both.get(1).close();
    until(both.subList(0, 1), "alone", partitions);
    both.get(0).close();
  }

  static void until(List<KafkaConsumer<String, String>> members, String what, int partitions) {
    long end = System.currentTimeMillis() + PATIENCE;
    List<List<Integer>> owned = List.of();
    while (System.currentTimeMillis() < end) {
      owned = new ArrayList<>();
      TreeSet<Integer> all = new TreeSet<>();
      int n = 0;
      boolean each = true;
      for (var c : members) {
        c.poll(Duration.ofMillis(100));
        List<Integer> mine = new ArrayList<>();
        for (var tp : c.assignment()) mine.add(tp.partition());
        Collections.sort(mine);
        owned.add(mine);
        all.addAll(mine);
        n += mine.size();
        each &= !mine.isEmpty();
      }
      if (each && n == partitions && all.size() == partitions) {
        System.out.println(what + " " + owned);
        return;
      }
    }
    throw new IllegalStateException(what + ": " + owned);
  }
}
