import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Records what Kafka's assignors choose, for internal/group/assign: one case a line, as JSON. Groups live through random histories in
 * which members come and go, topics come, grow and go, and subscriptions change; each case begins with what the last one gave.
 * Everything that is iterated over is sorted, so that the order of Java's hash tables plays no part.
 *
 *   kafka/kafka jvm -Xmx256m kafka/Assignments.java SEED HISTORIES STEPS > ../internal/group/assign/testdata/kafka.jsonl
 */
public class Assignments {
    static final Random random = new Random();
    static final TreeMap<Integer, Integer> topics = new TreeMap<>(); // number: partitions
    static final TreeMap<String, Member> members = new TreeMap<>();

    static class Member {
        String instance;
        TreeSet<Integer> reads = new TreeSet<>();
        TreeMap<Integer, TreeSet<Integer>> owned = new TreeMap<>();
    }

    public static void main(String[] args) {
        random.setSeed(Long.parseLong(args[0]));
        for (int h = 0; h < Integer.parseInt(args[1]); h++) {
            history(h % 2 == 0 ? new UniformAssignor() : new RangeAssignor(), h % 4 < 2, h % 7 == 0 ? 4 : 1, Integer.parseInt(args[2]));
        }
    }

    static void history(ConsumerGroupPartitionAssignor assignor, boolean alike, int scale, int steps) {
        topics.clear();
        members.clear();
        for (int i = random.nextInt(4); i >= 0; i--) grow(scale);
        for (int step = 0; step < steps; step++) {
            for (int n = random.nextInt(3 * scale); n >= 0; n--) change(alike, scale);
            if (alike) members.values().forEach(m -> m.reads = new TreeSet<>(topics.keySet()));
            members.values().forEach(m -> m.reads.retainAll(topics.keySet()));
            record(assignor);
        }
    }

    static void grow(int scale) {
        topics.merge(1 + random.nextInt(6), 1 + random.nextInt(9 * scale), Integer::sum);
    }

    static void change(boolean alike, int scale) {
        switch (random.nextInt(8)) {
            case 0 -> grow(scale);
            case 1 -> {
                if (topics.size() > 1) topics.remove(new ArrayList<>(topics.keySet()).get(random.nextInt(topics.size())));
            }
            case 2, 3 -> {
                if (members.size() > 1) members.remove(new ArrayList<>(members.keySet()).get(random.nextInt(members.size())));
            }
            case 4 -> {
                if (!alike && !members.isEmpty()) subscribe(new ArrayList<>(members.values()).get(random.nextInt(members.size())));
            }
            default -> {
                Member m = new Member();
                if (random.nextInt(3) == 0) m.instance = "i" + random.nextInt(100);
                subscribe(m);
                members.put("m" + (100 + random.nextInt(900)), m);
            }
        }
    }

    static void subscribe(Member m) {
        m.reads.clear();
        for (int topic : topics.keySet()) if (random.nextInt(3) > 0) m.reads.add(topic);
    }

    static Uuid id(int topic) {
        return new Uuid(0, topic);
    }

    static void record(ConsumerGroupPartitionAssignor assignor) {
        boolean alike = members.values().stream().map(m -> m.reads).distinct().count() <= 1;
        Map<String, MemberSubscriptionAndAssignmentImpl> specs = new TreeMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        List<String> said = new ArrayList<>();
        members.forEach((name, m) -> {
            Set<Uuid> reads = new TreeSet<>();
            m.reads.forEach(topic -> reads.add(id(topic)));
            Map<Uuid, Set<Integer>> owned = new TreeMap<>();
            m.owned.forEach((topic, partitions) -> {
                owned.put(id(topic), partitions);
                partitions.forEach(p -> inverted.computeIfAbsent(id(topic), t -> new HashMap<>()).put(p, name));
            });
            specs.put(name, new MemberSubscriptionAndAssignmentImpl(
                Optional.of("rack" + name.hashCode() % 3), Optional.ofNullable(m.instance), reads, new Assignment(owned)));
            said.add("{\"id\":\"" + name + "\"" + (m.instance == null ? "" : ",\"instance\":\"" + m.instance + "\"") +
                ",\"reads\":" + m.reads + ",\"owned\":" + json(m.owned) + "}");
        });
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) {
                return topics.getOrDefault((int) topic.getLeastSignificantBits(), -1);
            }

            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of("rack" + partition % 3);
            }
        };
        var given = assignor.assign(new GroupSpecImpl(Collections.unmodifiableMap(specs),
            alike ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS, inverted, Optional.empty()), describer).members();
        List<String> gives = new ArrayList<>();
        members.forEach((name, m) -> {
            m.owned = new TreeMap<>();
            if (given.get(name) != null) given.get(name).partitions().forEach((topic, partitions) -> {
                if (!partitions.isEmpty()) m.owned.put((int) topic.getLeastSignificantBits(), new TreeSet<>(partitions));
            });
            gives.add(json(m.owned));
        });
        System.out.println("{\"assignor\":\"" + assignor.name() + "\",\"alike\":" + alike + ",\"topics\":" + json(topics) +
            ",\"members\":[" + String.join(",", said) + "],\"gives\":[" + String.join(",", gives) + "]}");
    }

    static String json(Map<Integer, ?> map) {
        List<String> parts = new ArrayList<>();
        map.forEach((k, v) -> parts.add("\"" + k + "\":" + v));
        return "{" + String.join(",", parts) + "}";
    }
}
