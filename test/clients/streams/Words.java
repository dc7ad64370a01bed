import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * A Kafka Streams application as its users write it: Words BOOTSTRAP STATE-DIRECTORY GUARANTEE, until SIGTERM. The guarantee is
 * at_least_once or exactly_once_v2.
 *
 * From the lines in topic "lines" (key: who wrote it, value: a number and words) it counts words into "counts", which takes a
 * repartition and a changelog topic, collects the numbers of each writer's lines by minute into "minutes", and joins each line with
 * the table of writers in "writers" into "joined".
 */
public class Words {
    public static void main(String[] args) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "words");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[1]);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, args[2]);
        // Sooner than every 30 seconds, so that the test need not wait for it.
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 500);
        config.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, 500);
        config.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6000); // the application is killed, and started again

        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream("lines");
        lines.flatMapValues(line -> Arrays.asList(line.substring(line.indexOf(' ') + 1).split(" ")))
            .groupBy((writer, word) -> word)
            .count(Materialized.as("counts-store"))
            .toStream()
            .to("counts", Produced.with(Serdes.String(), Serdes.Long()));
        lines.groupByKey()
            .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1)))
            .aggregate(() -> "", (writer, line, numbers) -> with(numbers, line.substring(0, line.indexOf(' '))), Materialized.as("minutes-store"))
            .toStream((window, numbers) -> window.key() + "@" + window.window().start())
            .to("minutes");
        lines.join(builder.table("writers"), (line, writer) -> line + " by " + writer).to("joined");

        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
    }

    /** The numbers with one more, which is there twice when its line was processed twice. */
    private static String with(String numbers, String number) {
        return numbers.isEmpty() ? number : numbers + "," + number;
    }
}
