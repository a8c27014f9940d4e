package lancerefs.spark;

import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.Float4Vector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.ValueVector;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.execution.arrow.ArrowFieldWriter;
import org.apache.spark.unsafe.Platform;

/** Arrays of numbers, copied whole from a row to Arrow's memory, where Spark copies each item. */
final class ArrayWriter extends ArrowFieldWriter {
    private final ListVector lists;
    private final BaseFixedWidthVector items;
    private final int width;
    private int total = 0;
    private int[] nulls = new int[16];
    private int nullCount = 0;

    ArrayWriter(FieldVector vector) {
        lists = (ListVector) vector;
        items = (BaseFixedWidthVector) lists.getDataVector();
        width = items.getTypeWidth();
    }

    static boolean fits(FieldVector vector) {
        if (!(vector instanceof ListVector)) {
            return false;
        }
        FieldVector items = ((ListVector) vector).getDataVector();
        return items instanceof Float4Vector
            || items instanceof Float8Vector
            || items instanceof IntVector
            || items instanceof BigIntVector;
    }

    public ValueVector valueVector() {
        return lists;
    }

    public void setNull() {}

    public void setValue(SpecializedGetters row, int ordinal) {
        UnsafeArrayData array = (UnsafeArrayData) row.getArray(ordinal);
        int size = array.numElements();
        while (items.getValueCapacity() < total + size) {
            items.reAlloc();
        }
        lists.startNewValue(count());
        Object base = array.getBaseObject();
        long start = array.getBaseOffset();
        long header = UnsafeArrayData.calculateHeaderPortionInBytes(size);
        long there = items.getDataBuffer().memoryAddress() + (long) total * width;
        Platform.copyMemory(base, start + header, null, there, (long) size * width);
        for (long word = 8; word < header; word += 8) {
            if (Platform.getLong(base, start + word) != 0) {
                noteNulls(array);
                break;
            }
        }
        lists.endValue(count(), size);
        total += size;
    }

    private void noteNulls(UnsafeArrayData array) {
        for (int i = 0; i < array.numElements(); i++) {
            if (array.isNullAt(i)) {
                if (nullCount == nulls.length) {
                    nulls = java.util.Arrays.copyOf(nulls, 2 * nullCount);
                }
                nulls[nullCount++] = total + i;
            }
        }
    }

    public void finish() {
        super.finish();
        ArrowBuf validity = items.getValidityBuffer();
        validity.setOne(0, (total + 7) / 8);
        for (int i = 0; i < nullCount; i++) {
            items.setNull(nulls[i]);
        }
    }

    public void reset() {
        super.reset();
        total = 0;
        nullCount = 0;
    }
}
