import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The transactional copy job with Java's client; see clients/python/copy_job.py for what it does and prints. */
public final class Copy {
    public static void main(String[] args) {
        String input = args[0], output = args[1], group = args[2], id = args[3];
        Map<String, Object> reading = new HashMap<>();
        reading.put("bootstrap.servers", System.getenv("BOOTSTRAP"));
        reading.put("group.id", group);
        reading.put("auto.offset.reset", "earliest");
        reading.put("enable.auto.commit", false);
        reading.put("isolation.level", "read_committed");
        reading.put("max.poll.records", 40);
        if ("consumer".equals(System.getenv("GROUP_PROTOCOL"))) {
            reading.put("group.protocol", "consumer");
        } else {
            reading.put("session.timeout.ms", 6000);
            reading.put("heartbeat.interval.ms", 500);
        }
        if (System.getenv("GROUP_INSTANCE") != null) {
            reading.put("group.instance.id", System.getenv("GROUP_INSTANCE"));
        }
        Map<String, Object> writing = new HashMap<>();
        writing.put("bootstrap.servers", System.getenv("BOOTSTRAP"));
        writing.put("transactional.id", id);
        writing.put("transaction.timeout.ms", 10000);
        writing.put("linger.ms", 2);

        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
        KafkaProducer<String, String> producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer());
        boolean[] stopped = new boolean[1];
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            synchronized (stopped) {
                stopped[0] = true;
            }
            try {
                main.join(10000);
            } catch (InterruptedException stop) {
                Thread.currentThread().interrupt();
            }
        }));
        Random random = new Random();
        String run = id + "-" + ProcessHandle.current().pid() + "-" + Integer.toHexString(random.nextInt());
        producer.initTransactions();
        Map<TopicPartition, Long> following = new HashMap<>(); // the offset that comes next, where that is known
        consumer.subscribe(List.of(input), new ConsumerRebalanceListener() {
            @Override public void onPartitionsRevoked(Collection<TopicPartition> gone) {
                following.clear();
            }

            @Override public void onPartitionsAssigned(Collection<TopicPartition> added) {
                following.clear();
            }
        });
        for (int n = 0; ; n++) {
            synchronized (stopped) {
                if (stopped[0]) {
                    break;
                }
            }
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
            if (records.isEmpty()) {
                checkIdle(consumer, following);
                continue;
            }
            check(records, following);
            boolean abort = random.nextInt(8) == 0;
            String transaction = run + "-" + n;
            if (abort) {
                tell("aborted", transaction); // before there is anything of it, so that it is known whatever happens
            }
            try {
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                for (ConsumerRecord<String, String> r : records) {
                    producer.send(new ProducerRecord<>(output, r.key(), r.value() + " " + transaction + " " + records.count()));
                    next.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
                }
                producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
                if (abort) {
                    producer.flush();
                    producer.abortTransaction();
                    rewind(consumer, following);
                } else {
                    producer.commitTransaction();
                    tell("committed", transaction);
                }
            } catch (KafkaException failed) {
                System.err.println(transaction + ": " + failed);
                try {
                    producer.abortTransaction();
                    tell("aborted", transaction);
                    rewind(consumer, following);
                } catch (RuntimeException fatal) { // fenced, or what became of a commit is not known
                    fatal.printStackTrace();
                    Runtime.getRuntime().halt(3);
                }
            }
        }
        consumer.close();
        producer.close();
    }

    /** A seek that came to nothing must not leave records out: the input has no gaps. */
    private static void check(ConsumerRecords<String, String> records, Map<TopicPartition, Long> following) {
        for (ConsumerRecord<String, String> r : records) {
            Long expected = following.put(new TopicPartition(r.topic(), r.partition()), r.offset() + 1);
            if (expected != null && expected != r.offset()) {
                System.err.println(r.topic() + "-" + r.partition() + " goes on at " + r.offset() + ", " + expected + " comes next");
                Runtime.getRuntime().halt(3);
            }
        }
    }

    /** As check, where nothing comes at all. */
    private static void checkIdle(KafkaConsumer<String, String> consumer, Map<TopicPartition, Long> following) {
        for (TopicPartition p : consumer.assignment()) {
            Long expected = following.get(p);
            if (expected != null && consumer.position(p) > expected) {
                System.err.println(p + " stands at " + consumer.position(p) + ", " + expected + " comes next");
                Runtime.getRuntime().halt(3);
            }
        }
    }

    /** Goes back to what is committed. */
    private static void rewind(KafkaConsumer<String, String> consumer, Map<TopicPartition, Long> following) {
        Set<TopicPartition> owned = new HashSet<>(consumer.assignment());
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(owned);
        for (TopicPartition p : owned) {
            OffsetAndMetadata at = committed.get(p);
            following.put(p, at == null ? 0 : at.offset());
            if (at == null) {
                consumer.seekToBeginning(List.of(p));
            } else {
                consumer.seek(p, at.offset());
            }
        }
    }

    private static void tell(String what, String transaction) {
        System.out.println("{\"" + what + "\":\"" + transaction + "\"}");
    }
}
