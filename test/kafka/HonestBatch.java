import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;

/**
 * Writes one record batch as Kafka's producer makes it with compression.type=zstd and compression.zstd.level=22, which declares
 * a window of 128 MiB: HonestBatch FILE RECORDS BYTES, each record of so many bytes that repeat a random block of 5,000.
 */
public class HonestBatch {
    public static void main(String[] args) throws Exception {
        int records = Integer.parseInt(args[1]), bytes = Integer.parseInt(args[2]);
        Random random = new Random(22);
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(8 << 20), RecordBatch.MAGIC_VALUE_V2,
            Compression.zstd().level(22).build(), TimestampType.CREATE_TIME, 0L);
        long now = System.currentTimeMillis();
        byte[] block = new byte[5000], value = new byte[bytes];
        for (int i = 0; i < records; i++) {
            random.nextBytes(block);
            for (int at = 0; at < bytes; at += block.length) {
                System.arraycopy(block, 0, value, at, Math.min(block.length, bytes - at));
            }
            builder.append(now, null, value);
        }
        try (FileOutputStream out = new FileOutputStream(args[0])) {
            out.getChannel().write(builder.build().buffer());
        }
    }
}
