package lancerefs.spark;

import java.util.EnumSet;
import java.util.Map;
import java.util.Set;

import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A branch, to be read at a version or written to. */
final class LanceTable implements SupportsRead, SupportsWrite {
    private final StructType columns;
    private final Map options;
    private Snapshot snapshot;

    /** @param snapshot null for a write, and where the columns were given with the read */
    LanceTable(StructType columns, Map options, Snapshot snapshot) {
        this.columns = columns;
        this.options = options;
        this.snapshot = snapshot;
    }

    public String name() {
        return snapshot == null ? "lancerefs " + options.get("path") : snapshot.title;
    }

    public StructType schema() {
        return columns;
    }

    public Set capabilities() {
        return EnumSet.of(
            TableCapability.BATCH_READ,
            TableCapability.BATCH_WRITE,
            TableCapability.TRUNCATE,
            TableCapability.ACCEPT_ANY_SCHEMA);
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap unused) {
        if (snapshot == null) {
            snapshot = Snapshot.take(options);
        }
        return new Reading(snapshot, columns);
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new Writing(options, info.schema());
    }
}
