package lancerefs.spark;

import java.util.EnumSet;
import java.util.Set;

import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A branch at a version, or the files of one write, which Python commits afterwards. */
final class OrderedTable implements SupportsRead, SupportsWrite {
    private final Order order;

    OrderedTable(Order order) {
        this.order = order;
    }

    public String name() {
        return order.title;
    }

    public StructType schema() {
        return order.columns;
    }

    public Set capabilities() {
        return EnumSet.of(
            TableCapability.BATCH_READ,
            TableCapability.BATCH_WRITE,
            TableCapability.ACCEPT_ANY_SCHEMA);
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return new Reading(order);
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new Writing(order, info.schema());
    }
}
