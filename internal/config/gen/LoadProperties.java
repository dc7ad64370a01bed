import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;

/**
 * Reads files' texts, one a line in hexadecimal, and prints what java.util.Properties makes of each: key=value pairs in
 * hexadecimal UTF-8, sorted, or "refused". The test of the Go parser records its answers from it.
 */
public class LoadProperties {
  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    HexFormat hex = HexFormat.of();
    for (String line; (line = in.readLine()) != null; ) {
      Properties p = new Properties();
      try {
        p.load(new ByteArrayInputStream(hex.parseHex(line)));
      } catch (IllegalArgumentException e) {
        System.out.println("refused");
        continue;
      }
      StringJoiner pairs = new StringJoiner(" ");
      for (String key : new TreeSet<>(p.stringPropertyNames())) {
        pairs.add(hex.formatHex(key.getBytes(StandardCharsets.UTF_8)) + "="
            + hex.formatHex(p.getProperty(key).getBytes(StandardCharsets.UTF_8)));
      }
      System.out.println(pairs);
    }
  }
}
