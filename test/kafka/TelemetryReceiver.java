import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetryExporter;
import org.apache.kafka.server.telemetry.ClientTelemetryExporterProvider;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;

/** Reads what clients push and keeps nothing. Without such a plug-in Apache Kafka serves no telemetry (KIP-714). */
public class TelemetryReceiver implements MetricsReporter, ClientTelemetryExporterProvider {
  @Override
  public ClientTelemetryExporter clientTelemetryExporter() {
    return (context, payload) -> {
      try {
        MetricsData.parseFrom(payload.data());
      } catch (Exception e) {
        throw new IllegalArgumentException("not the metrics of OTLP", e);
      }
    };
  }

  @Override
  public void configure(Map<String, ?> settings) {}

  @Override
  public void init(List<KafkaMetric> metrics) {}

  @Override
  public void metricChange(KafkaMetric metric) {}

  @Override
  public void metricRemoval(KafkaMetric metric) {}

  @Override
  public void close() {}
}
