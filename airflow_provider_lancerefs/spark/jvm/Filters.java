package lancerefs.spark;

import java.math.BigDecimal;
import java.sql.Date;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.sources.Filter;
import scala.Product;

/** Filters as JSON has them: each by its name, with its column and values, or those within it. */
final class Filters {

    private Filters() {}

    static List told(Filter[] filters) {
        List said = new ArrayList();
        for (int i = 0; i < filters.length; i++) {
            said.add(told(filters[i]));
        }
        return said;
    }

    /** Every filter of Spark's is a product, of which a column comes first. */
    private static Map told(Filter filter) {
        Product product = (Product) filter;
        Map said = new HashMap();
        List parts = new ArrayList();
        for (int i = 0; i < product.productArity(); i++) {
            Object part = product.productElement(i);
            if (i == 0 && part instanceof String) {
                said.put("column", Expressions.column((String) part).fieldNames());
            } else {
                parts.add(part(part));
            }
        }
        said.put("name", product.productPrefix());
        said.put("parts", parts);
        return said;
    }

    private static Object part(Object part) {
        if (part instanceof Filter) {
            return told((Filter) part);
        }
        if (!(part instanceof Object[])) {
            return value(part);
        }
        List values = new ArrayList();
        for (int i = 0; i < ((Object[]) part).length; i++) {
            values.add(value(((Object[]) part)[i]));
        }
        return values;
    }

    /** A value by its kind and as text; one of no kind in this list is of the kind "other". */
    private static Map value(Object value) {
        if (value == null) {
            return value("null", "");
        }
        if (value instanceof Boolean) {
            return value("bool", value);
        }
        if (value instanceof Byte || value instanceof Short) {
            return value("int", value);
        }
        if (value instanceof Integer || value instanceof Long) {
            return value("int", value);
        }
        if (value instanceof Float || value instanceof Double) {
            return value("float", Double.toString(((Number) value).doubleValue()));
        }
        if (value instanceof String) {
            return value("str", value);
        }
        if (value instanceof BigDecimal) {
            return value("decimal", ((BigDecimal) value).toPlainString());
        }
        return moment(value);
    }

    /**
     * Days, or microseconds, since 1970 in today's calendar, as Spark itself counts them: those of
     * Java's older kinds are of the Julian one before 1582.
     */
    private static Map moment(Object value) {
        if (value instanceof Date) {
            return value("date", DateTimeUtils.fromJavaDate((Date) value));
        }
        if (value instanceof LocalDate) {
            return value("date", DateTimeUtils.localDateToDays((LocalDate) value));
        }
        if (value instanceof Timestamp) {
            return value("moment", DateTimeUtils.fromJavaTimestamp((Timestamp) value));
        }
        if (value instanceof Instant) {
            return value("moment", DateTimeUtils.instantToMicros((Instant) value));
        }
        if (value instanceof LocalDateTime) {
            return value("local", DateTimeUtils.localDateTimeToMicros((LocalDateTime) value));
        }
        return value("other", "");
    }

    private static Map value(String kind, Object text) {
        Map said = new HashMap();
        said.put("kind", kind);
        said.put("text", text.toString());
        return said;
    }
}
