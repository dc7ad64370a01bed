import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Java's own client as its users write it, driven by the client tests; see clients/python/client.py for the commands.
 */
public final class Client {
    private static final String BOOTSTRAP = System.getenv("BOOTSTRAP");
    private static final String INSTANCE = System.getenv("GROUP_INSTANCE");

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "create" -> create(args[1], Integer.parseInt(args[2]));
            case "produce" -> produce(args[1], args[2], Integer.parseInt(args[3]), Integer.parseInt(args[4]), Integer.parseInt(args[5]));
            case "write" -> write(args[1], args[2], args[3]);
            case "read" -> read(args[1], args[2], Integer.parseInt(args[3]));
            case "consume" -> consume(args[1], args[2], Integer.parseInt(args[3]));
            case "stream" -> stream(args[1], Integer.parseInt(args[2]), args[3], Integer.parseInt(args[4]));
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private static void create(String topic, int partitions) throws Exception {
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", BOOTSTRAP))) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
    }

    private static void produce(String topic, String codec, int first, int count, int keys) throws Exception {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", BOOTSTRAP);
        config.put("compression.type", codec);
        config.put("linger.ms", 5);
        List<String> sentKeys = new ArrayList<>();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            for (int i = first; i < first + count; i++) {
                String key = keys > 0 ? "key-" + i % keys : null;
                sentKeys.add(key);
                sent.add(producer.send(new ProducerRecord<>(topic, key, "value-" + i)));
            }
            producer.flush();
        }
        for (int i = 0; i < sent.size(); i++) {
            RecordMetadata metadata = sent.get(i).get();
            System.out.printf("{\"key\":%s,\"partition\":%d,\"offset\":%d}%n", quoted(sentKeys.get(i)), metadata.partition(), metadata.offset());
        }
    }

    private static void consume(String group, String topic, int count) throws Exception {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", BOOTSTRAP);
        config.put("group.id", group);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", false);
        if ("consumer".equals(System.getenv("GROUP_PROTOCOL"))) { // KIP-848: the broker says how often, and for how long
            config.put("group.protocol", "consumer");
        } else {
            // Short where members are to be replaced, the default where one member reads alone and must not be put out.
            config.put("session.timeout.ms", count > 0 || INSTANCE != null ? 45000 : 6000);
            config.put("heartbeat.interval.ms", 500);
        }
        if (INSTANCE != null) {
            config.put("group.instance.id", INSTANCE);
        }
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                main.join(5000);
            } catch (InterruptedException stop) {
                Thread.currentThread().interrupt();
            }
        }));
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            @Override public void onPartitionsRevoked(Collection<TopicPartition> gone) {
                if ("consumer".equals(System.getenv("GROUP_PROTOCOL"))) { // else all are revoked, and assigned again
                    tell(consumer.assignment().stream().filter(p -> !gone.contains(p)).toList());
                }
            }

            @Override public void onPartitionsAssigned(Collection<TopicPartition> added) {
                tell(consumer.assignment());
            }

            private void tell(Collection<TopicPartition> owned) {
                System.out.println(owned.stream().map(p -> "" + p.partition()).sorted()
                    .collect(Collectors.joining(",", "{\"assigned\":[", "]}")));
            }
        };
        if (topic.startsWith("^")) {
            consumer.subscribe(new SubscriptionPattern(topic), listener);
        } else {
            consumer.subscribe(List.of(topic), listener);
        }
        int seen = 0;
        try {
            while (count == 0 || seen < count) {
                Map<TopicPartition, OffsetAndMetadata> read = new HashMap<>();
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    if (count > 0 && seen >= count) {
                        break;
                    }
                    System.out.printf("{\"key\":%s,\"value\":%s,\"partition\":%d,\"offset\":%d}%n",
                        quoted(record.key()), quoted(record.value()), record.partition(), record.offset());
                    read.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
                    seen++;
                }
                commit(consumer, read, count > 0);
            }
        } catch (WakeupException stop) {
            // SIGTERM: leave the group below
        } finally {
            consumer.close();
        }
    }

    /**
     * Commits what was read. A rebalance that began since the poll refuses that; the next poll takes part in it, and whoever
     * owns the partitions then reads again what was not committed. To a member that is alone that must not happen.
     */
    private static void commit(KafkaConsumer<String, String> consumer, Map<TopicPartition, OffsetAndMetadata> read, boolean alone) {
        if (read.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(read);
        } catch (RebalanceInProgressException | CommitFailedException refused) {
            if (alone) {
                throw refused;
            }
            System.err.println(refused);
        }
    }

    private static void write(String topic, String file, String codecs) throws Exception {
        for (String codec : codecs.split(",")) {
            Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", BOOTSTRAP, "compression.type", codec));
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
                for (String line : Files.readAllLines(Path.of(file))) {
                    String[] words = line.split(" ");
                    var record = new ProducerRecord<>(topic, bytes(words[0]), bytes(words[1]));
                    for (int i = 2; i < words.length; i += 2) {
                        record.headers().add(new String(bytes(words[i]), StandardCharsets.UTF_8), bytes(words[i + 1]));
                    }
                    sent.add(producer.send(record));
                }
            }
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
        }
    }

    private static void read(String group, String topic, int count) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", BOOTSTRAP, "group.id", group, "auto.offset.reset", "earliest"));
        try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (count > 0) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    StringBuilder words = new StringBuilder(word(record.key())).append(' ').append(word(record.value()));
                    for (Header header : record.headers()) {
                        words.append(' ').append(word(header.key().getBytes(StandardCharsets.UTF_8))).append(' ').append(word(header.value()));
                    }
                    System.out.println(words);
                    count--;
                }
            }
        }
    }

    private static void stream(String topic, int partitions, String name, int rate) throws Exception {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", BOOTSTRAP);
        config.put("delivery.timeout.ms", Integer.MAX_VALUE);
        config.put("request.timeout.ms", 5000);
        config.put("max.block.ms", Integer.MAX_VALUE);
        config.put("linger.ms", 2);
        Thread main = Thread.currentThread();
        AtomicBoolean stopped = new AtomicBoolean();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopped.set(true);
            try {
                main.join();
            } catch (InterruptedException stop) {
                Thread.currentThread().interrupt();
            }
        }));
        Semaphore waiting = new Semaphore(20);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            for (int n = 0; !stopped.get(); n++) {
                waiting.acquire();
                String value = name + "/" + n % partitions + "/" + n / partitions;
                producer.send(new ProducerRecord<>(topic, n % partitions, null, value), (at, failed) -> {
                    if (failed != null) {
                        failed.printStackTrace();
                        Runtime.getRuntime().halt(1);
                    }
                    System.out.printf("{\"value\":%s,\"partition\":%d,\"offset\":%d}%n", quoted(value), at.partition(), at.offset());
                    waiting.release();
                });
                Thread.sleep(1000 / rate);
            }
        }
    }

    private static byte[] bytes(String word) {
        return word.equals("-") ? null : Base64.getDecoder().decode(word.substring(1));
    }

    private static String word(byte[] bytes) {
        return bytes == null ? "-" : ":" + Base64.getEncoder().encodeToString(bytes);
    }

    private static String quoted(String text) {
        return text == null ? "null" : "\"" + text + "\"";
    }
}
