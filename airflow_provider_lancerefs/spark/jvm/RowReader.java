package lancerefs.spark;

import java.io.IOException;
import java.util.Collections;
import java.util.Iterator;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;

/** Rows whose arrays are copied whole, where Spark would copy the items of a batch one by one. */
final class RowReader implements PartitionReader {
    private final BatchReader batches;
    private final StructType columns;
    private UnsafeProjection packing; // made when there are rows, for making it takes long
    private Iterator rows = Collections.emptyIterator();

    RowReader(BatchReader batches, StructType columns) {
        this.batches = batches;
        this.columns = columns;
    }

    public boolean next() throws IOException {
        while (!rows.hasNext()) {
            if (!batches.next()) {
                return false;
            }
            rows = batches.batch(true).rowIterator();
        }
        return true;
    }

    public Object get() {
        if (packing == null) {
            packing = UnsafeProjection.create(PackedArray.packed(columns));
        }
        return packing.apply((InternalRow) rows.next());
    }

    public void close() throws IOException {
        batches.close();
    }
}
