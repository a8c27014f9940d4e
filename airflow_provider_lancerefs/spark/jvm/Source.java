package lancerefs.spark;

import java.util.Map;

import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What Spark looks for by name: reads or writes what an order says. */
public class Source implements TableProvider {

    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return Order.named(options).columns;
    }

    public Table getTable(StructType schema, Transform[] partitioning, Map options) {
        return new OrderedTable(Order.named(options));
    }

    /** True, for a frame that is written brings columns of its own. */
    public boolean supportsExternalMetadata() {
        return true;
    }
}
