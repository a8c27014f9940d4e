package lancerefs.spark;

import java.io.IOException;
import java.io.UncheckedIOException;

import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** The rows of one part, a batch at a time, in the memory that Arrow read them into. */
final class BatchReader implements PartitionReader {

    /** Stays open when Spark is done with a batch: the next one is read into the same vector. */
    static final class Lent extends ArrowColumnVector {
        Lent(FieldVector vector) {
            super(vector);
        }

        public void close() {}
    }

    private final String recipe;
    private final byte[] order;
    private final StructType columns;
    private Conversation python;
    private BufferAllocator memory;
    private ArrowStreamReader arrow;

    BatchReader(String recipe, byte[] order, StructType columns) {
        this.recipe = recipe;
        this.order = order;
        this.columns = columns;
    }

    public boolean next() throws IOException {
        if (python == null) {
            python = new Conversation(recipe, "read", order);
            memory = ArrowUtils.rootAllocator().newChildAllocator("lancerefs", 0, Long.MAX_VALUE);
            arrow = new ArrowStreamReader(python.channel, memory);
        }
        if (!python.hasPiece()) {
            return false;
        }
        if (!arrow.loadNextBatch()) { // takes a stream that broke off for one that ended
            throw Conversation.broken();
        }
        return true;
    }

    public Object get() {
        return batch(false);
    }

    /** The batch that is there; where rows are to be made of it, with its arrays packed. */
    ColumnarBatch batch(boolean packed) {
        VectorSchemaRoot root = root();
        ColumnVector[] found = new ColumnVector[columns.length()];
        for (int i = 0; i < found.length; i++) {
            DataType type = columns.apply(i).dataType();
            FieldVector vector = (FieldVector) root.getFieldVectors().get(i);
            if (packed && PackedArray.fits(type)) {
                found[i] = new PackedArray((ListVector) vector);
            } else if (DirectColumn.fits(vector)) {
                found[i] = new DirectColumn(type, vector);
            } else {
                found[i] = new Lent(vector);
            }
        }
        return new ColumnarBatch(found, root.getRowCount());
    }

    private VectorSchemaRoot root() {
        try {
            return arrow.getVectorSchemaRoot();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    public void close() throws IOException {
        if (python == null) {
            return;
        }
        try {
            arrow.close(false);
            memory.close();
        } finally {
            python.close();
        }
    }
}
