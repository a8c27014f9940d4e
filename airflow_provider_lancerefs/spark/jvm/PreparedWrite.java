package lancerefs.spark;

import java.io.IOException;
import java.io.UncheckedIOException;

import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;

/** Has tasks write files, and Python commit what they say of them, or clean up. */
final class PreparedWrite implements BatchWrite {

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

    private final Told told;
    private final StructType columns;
    private final byte[] columnsInArrow;
    private final byte[] order;
    private boolean settled = false;

    PreparedWrite(Told told, StructType columns, byte[] columnsInArrow, byte[] order) {
        this.told = told;
        this.columns = columns;
        this.columnsInArrow = columnsInArrow;
        this.order = order;
    }

    public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
        return new Writers(told.executors, order, columnsInArrow, columns);
    }

    public void commit(WriterCommitMessage[] messages) {
        try {
            Conversation python = told.ask("commit", order);
            try {
                python.send(messages.length);
                for (int i = 0; i < messages.length; i++) {
                    python.send(((Said) messages[i]).words);
                }
                python.hasPiece();
            } catch (Conversation.Refusal refusal) {
                settled = true;
                throw refusal;
            } finally {
                python.close();
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Whoever refuses a commit has cleaned up; one that was not heard of to its end may have landed. */
    public void abort(WriterCommitMessage[] messages) {
        if (settled) {
            return;
        }
        boolean whole = messages.length > 0;
        for (int i = 0; i < messages.length; i++) {
            whole &= messages[i] != null;
        }
        try {
            Conversation python = told.ask("abort", order);
            try {
                python.send(whole ? 1 : 0);
                python.hasPiece();
            } finally {
                python.close();
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
