package lancerefs.spark;

import java.io.IOException;
import java.util.Map;

import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** One exact version of a table or branch; how it is opened only Python understands. */
final class Snapshot {
    final Told told;
    final String title;
    final StructType columns;
    final long rows;
    final long bytes; // of all files, 0 where that is not known
    final byte[] order;

    private Snapshot(Told told, Map said, byte[] order) {
        this.told = told;
        this.title = (String) said.get("title");
        this.columns = (StructType) DataType.fromJson((String) said.get("columns"));
        this.rows = ((Number) said.get("rows")).longValue();
        this.bytes = ((Number) said.get("bytes")).longValue();
        this.order = order;
    }

    /** The version that a read's options mean now. */
    static Snapshot take(Map options) {
        Told told = Told.newest();
        try {
            Conversation python = told.ask("take");
            try {
                python.sendJson(options);
                byte[] said = python.answer();
                Map parsed = (Map) new ObjectMapper().readValue(said, Map.class);
                return new Snapshot(told, parsed, python.answer());
            } finally {
                python.close();
            }
        } catch (IOException error) {
            throw new IllegalArgumentException(error.getMessage(), error);
        }
    }
}
