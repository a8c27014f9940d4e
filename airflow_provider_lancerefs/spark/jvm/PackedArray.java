package lancerefs.spark;

import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/**
 * Arrays of numbers as the bytes that they are in a row of Spark's.
 *
 * <p>A row holds an array as it holds a binary value: by place and length. So a projection that is
 * told of a binary column makes rows in which Spark then finds arrays.
 */
final class PackedArray extends Column {
    private final long offsets;
    private final long itemValidity;
    private final long items;
    private final int width;
    private final boolean nullItems;
    private byte[] packed = new byte[0];

    PackedArray(ListVector lists) {
        super(DataTypes.BinaryType, lists);
        FieldVector inner = lists.getDataVector();
        offsets = lists.getOffsetBuffer().memoryAddress();
        itemValidity = inner.getValidityBuffer().memoryAddress();
        items = inner.getDataBuffer().memoryAddress();
        nullItems = inner.getNullCount() > 0;
        width = ((BaseFixedWidthVector) inner).getTypeWidth();
    }

    /** Whether rows hold an array's items as Arrow does, one after the other. */
    static boolean fits(DataType type) {
        if (!(type instanceof ArrayType)) {
            return false;
        }
        DataType item = ((ArrayType) type).elementType();
        return item.equals(DataTypes.FloatType)
            || item.equals(DataTypes.DoubleType)
            || item.equals(DataTypes.IntegerType)
            || item.equals(DataTypes.LongType);
    }

    static boolean isIn(StructType columns) {
        for (int i = 0; i < columns.length(); i++) {
            if (fits(columns.apply(i).dataType())) {
                return true;
            }
        }
        return false;
    }

    /** The columns as a projection is told of them. */
    static StructType packed(StructType columns) {
        StructType told = new StructType();
        for (int i = 0; i < columns.length(); i++) {
            DataType type = columns.apply(i).dataType();
            told = told.add(columns.apply(i).name(), fits(type) ? DataTypes.BinaryType : type);
        }
        return told;
    }

    /**
     * Into the same memory each time, where it is as long: a projection copies it at once.
     *
     * <p>What is no item's is 0, for Spark takes arrays whose bytes differ for different ones.
     */
    public byte[] getBinary(int row) {
        int start = Platform.getInt(null, offsets + 4L * row);
        int count = Platform.getInt(null, offsets + 4L * row + 4L) - start;
        int header = UnsafeArrayData.calculateHeaderPortionInBytes(count);
        int size = header + (count * width + 7) / 8 * 8;
        if (packed.length != size) {
            packed = new byte[size];
        }
        long place = Platform.BYTE_ARRAY_OFFSET;
        Platform.setMemory(packed, place, header, (byte) 0);
        Platform.putLong(packed, place + size - 8, 0L); // of which items may fill a half
        Platform.putLong(packed, place, count);
        Platform.copyMemory(
            null, items + (long) start * width, packed, place + header, (long) count * width);
        for (int i = 0; nullItems && i < count; i++) {
            if (isNull(itemValidity, start + i)) {
                packed[8 + i / 8] |= 1 << i % 8;
                Platform.setMemory(packed, place + header + (long) i * width, width, (byte) 0);
            }
        }
        return packed;
    }
}
