import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A read_committed reader with Java's client; see clients/python/follow.py for what it does and prints. */
public final class Follow {
    public static void main(String[] args) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", System.getenv("BOOTSTRAP"));
        config.put("auto.offset.reset", "none");
        config.put("isolation.level", "read_committed");
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        List<TopicPartition> partitions = new ArrayList<>();
        for (String topic : args[0].split(",")) {
            for (PartitionInfo p : consumer.partitionsFor(topic, Duration.ofMinutes(2))) {
                partitions.add(new TopicPartition(topic, p.partition()));
            }
        }
        consumer.assign(partitions);
        partitions.forEach(p -> consumer.seek(p, 0));
        System.out.println("{\"assigned\":[]}");
        while (true) {
            StringBuilder told = new StringBuilder();
            for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(500))) {
                told.append(String.format("{\"topic\":\"%s\",\"partition\":%d,\"offset\":%d,\"key\":\"%s\",\"value\":\"%s\"}%n",
                    r.topic(), r.partition(), r.offset(), r.key(), r.value()));
            }
            System.out.print(told);
            System.out.flush();
        }
    }
}
