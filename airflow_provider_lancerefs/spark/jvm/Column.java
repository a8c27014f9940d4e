package lancerefs.spark;

import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** A column of a batch, read straight from Arrow's memory; kinds of it give what they hold. */
abstract class Column extends ColumnVector {
    private final int nulls;
    private final long validity;

    Column(DataType type, FieldVector vector) {
        super(type);
        nulls = vector.getNullCount();
        validity = vector.getValidityBuffer().memoryAddress();
    }

    static boolean isNull(long validity, int row) {
        return (Platform.getByte(null, validity + (row >> 3)) >> (row & 7) & 1) == 0;
    }

    public boolean hasNull() {
        return nulls > 0;
    }

    public int numNulls() {
        return nulls;
    }

    public boolean isNullAt(int row) {
        return nulls > 0 && isNull(validity, row);
    }

    public boolean getBoolean(int row) {
        throw new UnsupportedOperationException();
    }

    public byte getByte(int row) {
        throw new UnsupportedOperationException();
    }

    public short getShort(int row) {
        throw new UnsupportedOperationException();
    }

    public int getInt(int row) {
        throw new UnsupportedOperationException();
    }

    public long getLong(int row) {
        throw new UnsupportedOperationException();
    }

    public float getFloat(int row) {
        throw new UnsupportedOperationException();
    }

    public double getDouble(int row) {
        throw new UnsupportedOperationException();
    }

    public ColumnarArray getArray(int row) {
        throw new UnsupportedOperationException();
    }

    public ColumnarMap getMap(int row) {
        throw new UnsupportedOperationException();
    }

    public Decimal getDecimal(int row, int precision, int scale) {
        throw new UnsupportedOperationException();
    }

    public UTF8String getUTF8String(int row) {
        throw new UnsupportedOperationException();
    }

    public byte[] getBinary(int row) {
        throw new UnsupportedOperationException();
    }

    public ColumnVector getChild(int ordinal) {
        throw new UnsupportedOperationException();
    }

    public void close() {}
}
