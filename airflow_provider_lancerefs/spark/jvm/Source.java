package lancerefs.spark;

import java.util.Map;

import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What Spark makes for each read and write of the format `lancerefs`. */
public class Source implements TableProvider, DataSourceRegister {
    private Snapshot snapshot;

    public String shortName() {
        return "lancerefs";
    }

    /** Of the version that the options mean now, to which the frame keeps. */
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        snapshot = Snapshot.take(options.asCaseSensitiveMap());
        return snapshot.columns;
    }

    public Table getTable(StructType columns, Transform[] partitioning, Map options) {
        return new LanceTable(columns, options, snapshot);
    }

    /** True, for a frame that is written brings columns of its own. */
    public boolean supportsExternalMetadata() {
        return true;
    }
}
