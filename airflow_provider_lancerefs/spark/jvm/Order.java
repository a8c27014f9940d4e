package lancerefs.spark;

import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * What the driver's Python wants read or written.
 *
 * <p>Spark is told no more than an order's name, for what Python says may hold storage keys.
 */
public final class Order {
    static final String OPTION = "order";
    private static final Map GIVEN = new ConcurrentHashMap();

    final String title;
    final StructType columns;
    final byte[] columnsInArrow;
    final byte[] order;
    final String executors;
    final String driver;
    final long rows;
    final long bytes;
    private volatile byte[][] written = new byte[0][];

    private Order(
            String title, StructType columns, byte[] inArrow, byte[] order,
            String executors, String driver, long rows, long bytes) {
        this.title = title;
        this.columns = columns;
        this.columnsInArrow = inArrow;
        this.order = order;
        this.executors = executors;
        this.driver = driver;
        this.rows = rows;
        this.bytes = bytes;
    }

    /**
     * Take an order; its name, to be given as the option of that read or write.
     *
     * @param columns Spark's schema in JSON, and the same in Arrow
     * @param executors how to start Python there, in JSON
     * @param driver the same for here
     * @param rows how many there are to read
     * @param bytes how many their files have, 0 where that is not known
     */
    public static String give(
            String title, String columns, byte[] inArrow, byte[] order,
            String executors, String driver, long rows, long bytes) {
        String name = UUID.randomUUID().toString();
        StructType type = (StructType) DataType.fromJson(columns);
        Order given = new Order(title, type, inArrow, order, executors, driver, rows, bytes);
        GIVEN.put(name, given);
        return name;
    }

    /** Forget a write's order; what its tasks said, once all of them were done. */
    public static byte[][] take(String name) {
        return ((Order) GIVEN.remove(name)).written;
    }

    static Order named(Map options) {
        return (Order) GIVEN.get(options.get(OPTION));
    }

    void done(byte[][] said) {
        written = said;
    }
}
