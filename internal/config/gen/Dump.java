import java.lang.reflect.Field;
import java.util.*;
import java.util.function.Function;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.*;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints every configuration key that an Apache Kafka knows: facts only (name, type, default, range, importance, mode,
 * synonyms), one key a line, tab-separated. The Go generator beside this file runs it and writes the table from it.
 */
public class Dump {
  public static void main(String[] args) throws Exception {
    Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
    Set<String> security = DynamicBrokerConfig.DYNAMIC_SECURITY_CONFIGS;
    ConfigDef broker = AbstractKafkaConfig.CONFIG_DEF;
    for (ConfigKey k : sorted(broker)) {
      String mode = modes.getOrDefault(k.name, "read-only") + (security.contains(k.name) ? ",listener" : "");
      print("broker", k, mode, "");
    }
    for (ConfigKey k : sorted(QuotaConfig.brokerQuotaConfigs())) {
      if (!broker.names().contains(k.name)) print("broker", k, modes.getOrDefault(k.name, "per-broker") + ",quota", "");
    }
    for (ConfigKey k : sorted(LogConfig.configDefCopy())) {
      StringJoiner synonyms = new StringJoiner(",");
      for (ConfigSynonym s : ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.getOrDefault(k.name, List.of())) {
        synonyms.add(s.name() + "*" + factor(s.converter()));
      }
      print("topic", k, "", synonyms.toString());
    }
    for (ConfigKey k : sorted(GroupConfig.CONFIG_DEF)) {
      print("group", k, "", GroupConfig.brokerSynonym(k.name).map(s -> s + "*1").orElse(""));
    }
    for (ConfigKey k : sorted(ClientMetricsConfigs.configDef())) print("client-metrics", k, "", "");
    for (ConfigKey k : sorted(QuotaConfig.userAndClientQuotaConfigs())) print("client-quota", k, "", "");
    for (ConfigKey k : sorted(QuotaConfig.ipConfigs())) print("ip-quota", k, "", "");
  }

  static Collection<ConfigKey> sorted(ConfigDef def) {
    return new TreeMap<>(def.configKeys()).values();
  }

  static long factor(Function<String, String> converter) {
    return converter == ConfigSynonym.HOURS_TO_MILLISECONDS || converter == ConfigSynonym.MINUTES_TO_MILLISECONDS
        ? Long.parseLong(converter.apply("1")) : 1;
  }

  static void print(String scope, ConfigKey k, String mode, String synonyms) throws Exception {
    String state = !k.hasDefault() ? "required" : k.defaultValue == null ? "null" : "value";
    String value = state.equals("value") ? ConfigDef.convertToString(k.defaultValue, k.type) : "";
    System.out.println(String.join("\t", scope, k.name, k.type.toString(), state, escape(value),
        escape(check(k.validator)), k.validator == null ? "" : escape(k.validator.toString()), k.importance.toString(),
        k.internalConfig ? "internal" : "", mode, synonyms));
  }

  /** The validator as a small expression: range(min,max), string(a|b), list(a|b;flags), all(x & y) or class(Name). */
  static String check(Object v) throws Exception {
    if (v == null) return "";
    String name = v.getClass().getSimpleName();
    switch (name) {
      case "Range": return "range(" + text(v, "min") + "," + text(v, "max") + ")";
      case "ValidString": return "string(" + bars(v, "validStrings") + ")";
      case "CaseInsensitiveValidString": return "anycase(" + bars(v, "validStrings") + ")";
      case "ValidList":
        return "list(" + bars(field(v, "validString"), "validStrings") + ";empty=" + field(v, "isEmptyAllowed")
            + ";null=" + field(v, "isNullAllowed") + ")";
      case "CompositeValidator": {
        StringJoiner all = new StringJoiner(" & ", "all(", ")");
        for (Object each : (List<?>) field(v, "validators")) all.add(check(each));
        return all.toString();
      }
      default: return "class(" + v.getClass().getName() + ")";
    }
  }

  static String bars(Object v, String name) throws Exception {
    StringJoiner s = new StringJoiner("|");
    for (Object each : (Collection<?>) field(v, name)) s.add(String.valueOf(each));
    return s.toString();
  }

  static String text(Object v, String name) throws Exception {
    Object value = field(v, name);
    return value == null ? "" : value.toString();
  }

  static Object field(Object v, String name) throws Exception {
    Field f = v.getClass().getDeclaredField(name);
    f.setAccessible(true);
    return f.get(v);
  }

  static String escape(String s) {
    return s.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n");
  }
}
