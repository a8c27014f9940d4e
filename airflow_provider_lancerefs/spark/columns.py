"""Columns as Spark and as Arrow know them, in both directions.

Spark has fewer types than Arrow, so a table's own schema decides what is written: what Spark hands
over is cast to it, and nothing that would lose data passes. A vector of fixed size is an array in
Spark; its size travels in the column's metadata, under the key that the JVM connector uses too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql import types as spark

if TYPE_CHECKING:
    import pyarrow as pa

VECTOR_SIZE = "arrow.fixed-size-list.size"
ROW_ADDRESS = "_rowaddr"
ROW_ID = "_rowid"
ROW_MARKS = (ROW_ADDRESS, ROW_ID)
_UTC = "UTC"
_LARGEST_DECIMAL = 38
_BLOB_MARKS = (b"lance-encoding:blob", b"ARROW:extension:name")


_TIME: type[spark.DataType] | None = getattr(spark, "TimeType", None)  # since Spark 4.1
_ATOMS = (
    spark.BinaryType,
    spark.BooleanType,
    spark.ByteType,
    spark.DateType,
    spark.DayTimeIntervalType,
    spark.DecimalType,
    spark.DoubleType,
    spark.FloatType,
    spark.IntegerType,
    spark.LongType,
    spark.NullType,
    spark.ShortType,
    spark.StringType,
    spark.TimestampNTZType,
    spark.TimestampType,
    *((_TIME,) if _TIME else ()),
)


class NoCounterpartError(TypeError):
    """A column whose type only one of the two sides has."""


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """The table's columns as Spark sees them; raises NoCounterpartError naming the column."""
    return spark.StructType([_spark_field(field, field.name) for field in schema])


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """The columns that a new table gets from a data frame."""
    import pyarrow as pa

    return pa.schema([_arrow_field(field, field.name) for field in schema.fields])


def batch_schema(schema: spark.StructType) -> pa.Schema:
    """What Spark demands of the batches that a data source reads."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone=_UTC)


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows with the columns, order and types of a schema; raises ArrowInvalid."""
    import pyarrow as pa

    columns = [_cast(batch.column(field.name), field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def with_all_buffers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows; what is empty in a list or struct of Spark's has no buffers, which is allowed.

    But casts of pyarrow's end the process at that, and Lance's writers panic.
    """
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([*map(_whole, batch.columns)], names=batch.schema.names)


def _whole(array: pa.Array) -> pa.Array:
    import pyarrow as pa

    kind = array.type
    if not len(array):
        return pa.array([], kind)
    if pa.types.is_struct(kind) and kind.num_fields:
        parts = [_whole(array.field(place)) for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        own, items = array.buffers()[:2], [_whole(array.values)]
        return pa.Array.from_buffers(kind, len(array), own, array.null_count, array.offset, items)
    return array


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    import pyarrow as pa

    if column.null_count and not field.nullable:
        raise pa.ArrowInvalid(f"the column {field.name!r} takes no nulls")
    if column.type.equals(field.type):
        return column
    if pa.types.is_dictionary(field.type):
        return column.cast(field.type.value_type).dictionary_encode().cast(field.type)
    try:
        cast = column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(f"the column {field.name!r}: {error}") from None
    if _has_halves(field.type) and _infinite(cast) > _infinite(column):
        raise pa.ArrowInvalid(f"the column {field.name!r}: a number is too large for a half float")
    return cast


def _has_halves(kind: pa.DataType) -> bool:
    import pyarrow as pa

    inner = (kind.field(place).type for place in range(kind.num_fields))
    return pa.types.is_float16(kind) or any(map(_has_halves, inner))


def _infinite(array: pa.Array) -> int:
    """How many numbers are infinite, as pyarrow's casts make what a half float cannot hold."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_struct(array.type):
        return sum(_infinite(array.field(place)) for place in range(array.type.num_fields))
    if pa.types.is_map(array.type):
        return _infinite(array.keys) + _infinite(array.items)
    if pa.types.is_nested(array.type):
        return _infinite(array.flatten())
    return pc.sum(pc.is_inf(array)).as_py() or 0 if pa.types.is_floating(array.type) else 0


def _spark_field(field: pa.Field, path: str) -> spark.StructField:
    import pyarrow as pa

    marks = [mark for mark in _BLOB_MARKS if mark in (field.metadata or {})]
    if marks or isinstance(field.type, pa.BaseExtensionType):
        raise NoCounterpartError(f"{path!r} is a blob or of an extension type")
    sized = pa.types.is_fixed_size_list(field.type)
    metadata = {VECTOR_SIZE: field.type.list_size} if sized else None
    return spark.StructField(field.name, _spark_type(field.type, path), field.nullable, metadata)


def _spark_type(kind: pa.DataType, path: str) -> spark.DataType:
    import pyarrow as pa

    for is_kind, name in _plain_types():
        if is_kind(kind):
            return name()
    if pa.types.is_decimal(kind) and kind.precision <= _LARGEST_DECIMAL and kind.scale >= 0:
        return spark.DecimalType(kind.precision, kind.scale)
    if pa.types.is_uint64(kind):
        return spark.DecimalType(20, 0)
    if pa.types.is_timestamp(kind):
        return spark.TimestampType() if kind.tz else spark.TimestampNTZType()
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type, path)
    return _spark_nested(kind, path)


def _spark_nested(kind: pa.DataType, path: str) -> spark.DataType:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return spark.StructType([_spark_field(field, f"{path}.{field.name}") for field in kind])
    if pa.types.is_map(kind):
        key, item = (_spark_type(one, path) for one in (kind.key_type, kind.item_type))
        return spark.MapType(key, item, kind.item_field.nullable)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return spark.ArrayType(_spark_type(kind.value_type, path))
    raise NoCounterpartError(f"{path!r} is of the Arrow type {kind}, which Spark does not have")


def _arrow_field(field: spark.StructField, path: str) -> pa.Field:
    """Nullable whatever the frame says: it says so of literals too, and later frames have nulls."""
    import pyarrow as pa

    size = (field.metadata or {}).get(VECTOR_SIZE)
    kind = _arrow_type(field.dataType, path)
    if size is None or not isinstance(field.dataType, spark.ArrayType):
        return pa.field(field.name, kind)
    if not isinstance(size, int) or size < 1:
        raise NoCounterpartError(f"{path!r} has {VECTOR_SIZE} {size!r}, which is no size")
    return pa.field(field.name, pa.list_(kind.value_type, size))


def _arrow_type(kind: spark.DataType, path: str) -> pa.DataType:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    if isinstance(kind, spark.StructType):
        return pa.struct([_arrow_field(one, f"{path}.{one.name}") for one in kind.fields])
    if isinstance(kind, spark.ArrayType):
        return pa.list_(_arrow_type(kind.elementType, path))
    if isinstance(kind, spark.MapType):
        return pa.map_(_arrow_type(kind.keyType, path), _arrow_type(kind.valueType, path))
    if isinstance(kind, spark.TimestampType):
        return pa.timestamp("us", tz=_UTC)
    if isinstance(kind, _ATOMS):
        return to_arrow_type(kind)
    raise NoCounterpartError(
        f"{path!r} is of the Spark type {kind.simpleString()}, which Lance does not have"
    )


def _plain_types() -> Iterator[tuple[Callable[[pa.DataType], bool], type[spark.DataType]]]:
    from pyarrow import types

    yield types.is_boolean, spark.BooleanType
    yield types.is_int8, spark.ByteType
    yield from ((one, spark.ShortType) for one in (types.is_int16, types.is_uint8))
    yield from ((one, spark.IntegerType) for one in (types.is_int32, types.is_uint16))
    yield from ((one, spark.LongType) for one in (types.is_int64, types.is_uint32))
    yield from ((one, spark.FloatType) for one in (types.is_float16, types.is_float32))
    yield types.is_float64, spark.DoubleType
    yield from ((one, spark.StringType) for one in (types.is_string, types.is_large_string))
    yield from (
        (one, spark.BinaryType)
        for one in (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    )
    yield types.is_date, spark.DateType
    if _TIME:
        yield types.is_time, _TIME
    yield types.is_duration, spark.DayTimeIntervalType
    yield types.is_null, spark.NullType
