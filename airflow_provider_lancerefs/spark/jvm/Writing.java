package lancerefs.spark;

import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;

/** Has tasks write files, and keeps what they say of them for Python, which commits or aborts. */
final class Writing implements WriteBuilder, Write, BatchWrite {

    /** What one task said, which only Python understands. */
    static final class Said implements WriterCommitMessage {
        final byte[] words;

        Said(byte[] words) {
            this.words = words;
        }
    }

    /** Writes on executors. */
    static final class Writers implements DataWriterFactory {
        private final String recipe;
        private final byte[] order;
        private final byte[] columnsInArrow;
        private final StructType columns;

        Writers(String recipe, byte[] order, byte[] columnsInArrow, StructType columns) {
            this.recipe = recipe;
            this.order = order;
            this.columnsInArrow = columnsInArrow;
            this.columns = columns;
        }

        public DataWriter createWriter(int partition, long task) {
            return new RowWriter(recipe, order, columnsInArrow, columns);
        }
    }

    private final Order order;
    private final StructType columns;

    Writing(Order order, StructType columns) {
        this.order = order;
        this.columns = columns;
    }

    public Write build() {
        return this;
    }

    public BatchWrite toBatch() {
        return this;
    }

    public String description() {
        return order.title;
    }

    public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
        return new Writers(order.executors, order.order, order.columnsInArrow, columns);
    }

    public void commit(WriterCommitMessage[] messages) {
        byte[][] words = new byte[messages.length][];
        for (int i = 0; i < messages.length; i++) {
            words[i] = ((Said) messages[i]).words;
        }
        order.done(words);
    }

    public void abort(WriterCommitMessage[] messages) {}
}
