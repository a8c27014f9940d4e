package lancerefs.spark;

import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.DateDayVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.Float4Vector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.TimeStampMicroTZVector;
import org.apache.arrow.vector.TimeStampMicroVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Numbers or texts, of which Arrow's own vectors would check every access. */
final class DirectColumn extends Column {
    private final long offsets;
    private final long data;

    DirectColumn(DataType type, FieldVector vector) {
        super(type, vector);
        offsets = vector instanceof VarCharVector ? vector.getOffsetBuffer().memoryAddress() : 0L;
        data = vector.getDataBuffer().memoryAddress();
    }

    static boolean fits(FieldVector vector) {
        return vector instanceof IntVector
            || vector instanceof BigIntVector
            || vector instanceof Float4Vector
            || vector instanceof Float8Vector
            || vector instanceof DateDayVector
            || vector instanceof TimeStampMicroVector
            || vector instanceof TimeStampMicroTZVector
            || vector instanceof VarCharVector;
    }

    public int getInt(int row) {
        return Platform.getInt(null, data + 4L * row);
    }

    public long getLong(int row) {
        return Platform.getLong(null, data + 8L * row);
    }

    public float getFloat(int row) {
        return Platform.getFloat(null, data + 4L * row);
    }

    public double getDouble(int row) {
        return Platform.getDouble(null, data + 8L * row);
    }

    public UTF8String getUTF8String(int row) {
        if (isNullAt(row)) {
            return null;
        }
        int start = Platform.getInt(null, offsets + 4L * row);
        int stop = Platform.getInt(null, offsets + 4L * row + 4L);
        return UTF8String.fromAddress(null, data + start, stop - start);
    }
}
