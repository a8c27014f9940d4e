package lancerefs.spark;

import java.io.IOException;
import java.util.Map;

import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/** A write that is planned; nothing is looked at before it begins. */
final class Writing implements WriteBuilder, SupportsTruncate, Write {
    private final Map options;
    private final StructType columns;
    private boolean overwrite = false;

    Writing(Map options, StructType columns) {
        this.options = options;
        this.columns = columns;
    }

    public WriteBuilder truncate() {
        overwrite = true;
        return this;
    }

    public Write build() {
        return this;
    }

    public String description() {
        return "lancerefs " + options.get("path");
    }

    /** Has Python see to it that the rows fit, and that there is a branch which takes them. */
    public BatchWrite toBatch() {
        Told told = Told.newest();
        try {
            Conversation python = told.ask("prepare");
            try {
                python.sendJson(options);
                python.send(columns.json().getBytes("UTF-8"));
                python.send(overwrite ? 1 : 0);
                return new PreparedWrite(told, columns, python.answer(), python.answer());
            } finally {
                python.close();
            }
        } catch (IOException error) {
            throw new IllegalArgumentException(error.getMessage(), error);
        }
    }
}
