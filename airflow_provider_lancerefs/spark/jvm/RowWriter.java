package lancerefs.spark;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.Channels;
import java.util.List;

import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.arrow.vector.ipc.ReadChannel;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.arrow.ArrowFieldWriter;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.execution.arrow.ArrowWriter$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;

/** Hands one task's rows to Python, in batches of so many bytes, which each row tells of itself. */
final class RowWriter implements DataWriter {
    private static final long MOST_BYTES = 8L << 20;
    private static final int MOST_ROWS = 1 << 16;

    private final StructType columns;
    private final BufferAllocator memory;
    private final Conversation python;
    private final VectorSchemaRoot root;
    private final ArrowStreamWriter arrow;
    private final ArrowWriter writer;
    private UnsafeProjection packing; // seldom needed, and not made before
    private int rows = 0;
    private long bytes = 0;

    RowWriter(String recipe, byte[] order, byte[] columnsInArrow, StructType columns) {
        this.columns = columns;
        memory = ArrowUtils.rootAllocator().newChildAllocator("lancerefs", 0, Long.MAX_VALUE);
        try {
            root = VectorSchemaRoot.create(schema(columnsInArrow), memory);
            python = new Conversation(recipe, "write", order);
        } catch (IOException error) {
            memory.close();
            throw new UncheckedIOException(error);
        }
        arrow = new ArrowStreamWriter(root, null, python.channel);
        writer = new ArrowWriter(root, fields(root.getFieldVectors()));
    }

    private static Schema schema(byte[] inArrow) throws IOException {
        ReadChannel said = new ReadChannel(Channels.newChannel(new ByteArrayInputStream(inArrow)));
        return MessageSerializer.deserializeSchema(said);
    }

    private static ArrowFieldWriter[] fields(List vectors) {
        ArrowFieldWriter[] found = new ArrowFieldWriter[vectors.size()];
        for (int i = 0; i < found.length; i++) {
            FieldVector vector = (FieldVector) vectors.get(i);
            found[i] = ArrayWriter.fits(vector)
                ? new ArrayWriter(vector)
                : ArrowWriter$.MODULE$.createFieldWriter(vector);
        }
        return found;
    }

    public void write(Object given) throws IOException {
        UnsafeRow row =
            given instanceof UnsafeRow ? (UnsafeRow) given : packed((InternalRow) given);
        writer.write(row);
        rows += 1;
        bytes += row.getSizeInBytes();
        if (rows >= MOST_ROWS || bytes >= MOST_BYTES) {
            flush();
        }
    }

    private UnsafeRow packed(InternalRow row) {
        if (packing == null) {
            packing = UnsafeProjection.create(columns);
        }
        return packing.apply(row);
    }

    private void flush() throws IOException {
        writer.finish();
        try {
            arrow.writeBatch();
        } catch (IOException broken) {
            throw python.explained(broken);
        }
        writer.reset();
        rows = 0;
        bytes = 0;
    }

    public WriterCommitMessage commit() throws IOException {
        if (rows > 0) {
            flush();
        }
        try {
            arrow.end();
        } catch (IOException broken) {
            throw python.explained(broken);
        }
        python.send(new byte[0]);
        return new PreparedWrite.Said(python.answer());
    }

    /** Nothing to say: Python makes no file of rows of which the end did not come. */
    public void abort() {}

    public void close() throws IOException {
        try {
            root.close();
            memory.close();
        } finally {
            python.close();
        }
    }
}
