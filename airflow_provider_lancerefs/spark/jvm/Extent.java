package lancerefs.spark;

import java.util.OptionalLong;

import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * How much a read brings at most, by which Spark chooses how to join.
 *
 * <p>Columns of one width take that for each row. Where there are others, it is no less than all
 * files take.
 */
final class Extent implements Statistics {
    private static final String VECTOR_SIZE = "arrow.fixed-size-list.size";

    private final Snapshot snapshot;
    private final StructType columns;

    Extent(Snapshot snapshot, StructType columns) {
        this.snapshot = snapshot;
        this.columns = columns;
    }

    public OptionalLong numRows() {
        return OptionalLong.of(snapshot.rows);
    }

    public OptionalLong sizeInBytes() {
        long bytes = 0;
        boolean exact = true;
        for (int i = 0; i < columns.length(); i++) {
            StructField column = columns.apply(i);
            bytes += snapshot.rows * width(column);
            exact &= isVector(column) || UnsafeRow.isFixedLength(column.dataType());
        }
        if (!exact && snapshot.bytes == 0) {
            return OptionalLong.empty();
        }
        return OptionalLong.of(Math.max(1, exact ? bytes : Math.max(bytes, snapshot.bytes)));
    }

    private static long width(StructField column) {
        if (!isVector(column)) {
            return column.dataType().defaultSize();
        }
        DataType item = ((ArrayType) column.dataType()).elementType();
        return column.metadata().getLong(VECTOR_SIZE) * item.defaultSize();
    }

    private static boolean isVector(StructField column) {
        return column.dataType() instanceof ArrayType && column.metadata().contains(VECTOR_SIZE);
    }
}
