import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs many of Kafka's tools, one after another, in one JVM: each by its main, with a standard input and output of its own. A line of
 * the standard input is a command, its words in base64 with spaces between them; each is answered by one line, the exit status and
 * what the tool printed, in base64.
 *
 *   run CLASS STDIN ARG...         a tool
 *   join NAME TOPICS KEY=VALUE...  a consumer that polls until it is told to leave
 *   leave NAME                     it leaves its group
 *   produce BOOTSTRAP TOPIC PARTITION TIMESTAMP KEY VALUE COUNT   so many records, each a batch, the timestamps, in milliseconds, a
 *                                  second apart
 *
 * A tool that ends by Exit.exit, or by returning, can be run here; one that calls System.exit can't.
 */
public class Tools {
    /** Leaves the tool's main; what it prints on the way is not what it would have printed. */
    static class Exited extends Error {
        Exited() {
            super("the tool has exited", null, false, false);
        }
    }

    static final Map<String, Member> members = new HashMap<>();
    static final List<Runnable> hooks = new ArrayList<>();
    static ByteArrayOutputStream printed;
    static Integer status; // null while the tool runs

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        InputStream commands = System.in;
        PrintStream toTool = new PrintStream(new OutputStream() {
            @Override
            public void write(int b) {
                write(new byte[] {(byte) b}, 0, 1);
            }

            @Override
            public void write(byte[] b, int from, int count) {
                synchronized (Tools.class) {
                    if (status == null) printed.write(b, from, count);
                }
            }
        }, true, StandardCharsets.UTF_8);
        printed = new ByteArrayOutputStream();
        System.setOut(toTool);
        System.setErr(toTool);
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        Exit.setShutdownHookAdder((name, hook) -> {
            synchronized (hooks) {
                hooks.add(hook);
            }
        });
        BufferedReader lines = new BufferedReader(new InputStreamReader(commands, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            List<String> words = new ArrayList<>();
            for (String word : line.split(" ", -1)) words.add(new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8));
            synchronized (Tools.class) {
                printed.reset();
                status = null;
            }
            int code = handle(words);
            answers.println(code + " " + Base64.getEncoder().encodeToString(printed.toByteArray()));
            answers.flush();
        }
        System.exit(0);
    }

    static void end(int code) {
        synchronized (Tools.class) {
            if (status == null) status = code;
        }
        throw new Exited();
    }

    static int handle(List<String> words) throws Exception {
        switch (words.get(0)) {
            case "run" -> {
                return run(words.get(1), words.get(2), words.subList(3, words.size()).toArray(new String[0]));
            }
            case "join" -> {
                Member m = new Member(words.get(1), words.get(2), words.subList(3, words.size()));
                members.put(words.get(1), m);
                m.start();
            }
            case "leave" -> {
                Member m = members.remove(words.get(1));
                m.consumer.wakeup();
                m.join();
            }
            case "produce" -> produce(words);
            default -> throw new IllegalArgumentException("no command " + words.get(0));
        }
        return 0;
    }

    static int run(String tool, String stdin, String[] args) throws Exception {
        System.setIn(new ByteArrayInputStream(stdin.getBytes(StandardCharsets.UTF_8)));
        int code = 0;
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Exited)) {
                System.err.print("Exception in thread \"main\" ");
                e.getCause().printStackTrace();
                code = 1;
            }
        }
        List<Runnable> left;
        synchronized (hooks) {
            left = List.copyOf(hooks);
            hooks.clear();
        }
        synchronized (Tools.class) {
            if (status != null) code = status;
            status = null; // what the hooks print counts
        }
        for (Runnable hook : left) hook.run();
        synchronized (Tools.class) {
            status = code;
        }
        return code;
    }

    static void produce(List<String> words) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", words.get(1));
        p.put("batch.size", "0");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer())) {
            Future<RecordMetadata> last = null;
            for (int i = 0; i < Integer.parseInt(words.get(7)); i++) {
                last = producer.send(new ProducerRecord<>(words.get(2), Integer.parseInt(words.get(3)), Long.parseLong(words.get(4)) + i * 1000L,
                    words.get(5).getBytes(StandardCharsets.UTF_8), words.get(6).getBytes(StandardCharsets.UTF_8)));
            }
            last.get();
        }
    }

    static class Member extends Thread {
        final KafkaConsumer<byte[], byte[]> consumer;

        Member(String name, String topics, List<String> settings) {
            super(name);
            setDaemon(true);
            Properties p = new Properties();
            p.put("client.id", name);
            p.put("enable.auto.commit", "false");
            for (String setting : settings) p.put(setting.split("=", 2)[0], setting.split("=", 2)[1]);
            consumer = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(Arrays.asList(topics.split(",")));
        }

        @Override
        public void run() {
            try {
                while (true) consumer.poll(Duration.ofMillis(200));
            } catch (WakeupException e) {
                consumer.close();
            }
        }
    }
}
