package lancerefs.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;

import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;

/** Plans a read: Python divides the rows into parts, of the columns and by the filters of Spark. */
final class Reading
        implements Batch, SupportsPushDownFilters, SupportsPushDownRequiredColumns,
            SupportsReportStatistics {

    /** What one task reads, as Python put it. */
    static final class Part implements InputPartition {
        final byte[] order;

        Part(byte[] order) {
            this.order = order;
        }
    }

    /** Reads parts on executors, in whichever way their columns are had sooner. */
    static final class Readers implements PartitionReaderFactory {
        private final String recipe;
        private final StructType columns;

        Readers(String recipe, StructType columns) {
            this.recipe = recipe;
            this.columns = columns;
        }

        public boolean supportColumnarReads(InputPartition part) {
            return !PackedArray.isIn(columns);
        }

        public PartitionReader createReader(InputPartition part) {
            return new RowReader(batches(part), columns);
        }

        public PartitionReader createColumnarReader(InputPartition part) {
            return batches(part);
        }

        private BatchReader batches(InputPartition part) {
            return new BatchReader(recipe, ((Part) part).order, columns);
        }
    }

    private final Snapshot snapshot;
    private final StructType known;
    private StructType columns;
    private Filter[] filters = new Filter[0];
    private InputPartition[] parts;

    Reading(Snapshot snapshot, StructType known) {
        this.snapshot = snapshot;
        this.known = known;
        this.columns = known;
    }

    /** All columns that are asked for whole: Spark may want parts of a struct alone. */
    public void pruneColumns(StructType wanted) {
        StructType chosen = new StructType();
        String[] names = wanted.fieldNames();
        for (int i = 0; i < names.length; i++) {
            chosen = chosen.add(known.apply(names[i]));
        }
        columns = chosen;
    }

    /** Spark looks at the rows again whatever Lance leaves out. */
    public Filter[] pushFilters(Filter[] all) {
        filters = all;
        return all;
    }

    public Filter[] pushedFilters() {
        return filters;
    }

    public Scan build() {
        return this;
    }

    public StructType readSchema() {
        return columns;
    }

    public String description() {
        return snapshot.title;
    }

    public Batch toBatch() {
        return this;
    }

    public Statistics estimateStatistics() {
        return new Extent(snapshot, columns);
    }

    /** The parts, found once: Spark plans some queries again. */
    public InputPartition[] planInputPartitions() {
        if (parts == null) {
            try {
                parts = plan();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
        return parts;
    }

    private InputPartition[] plan() throws IOException {
        List found = new ArrayList();
        Conversation python = snapshot.told.ask("plan", snapshot.order);
        try {
            python.send(SparkContext.getOrCreate().defaultParallelism());
            python.send(columns.json().getBytes("UTF-8"));
            python.sendJson(Filters.told(filters));
            while (python.hasPiece()) {
                found.add(new Part(python.receive()));
            }
        } finally {
            python.close();
        }
        return (InputPartition[]) found.toArray(new InputPartition[0]);
    }

    public PartitionReaderFactory createReaderFactory() {
        return new Readers(snapshot.told.executors, columns);
    }
}
