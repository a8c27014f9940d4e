"""Spark's filters in Lance's SQL.

What is pushed may let through more than Spark wants, never less, and Spark looks at the rows again:
the two order NaN, and zeros of either sign, differently.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from pyspark.sql import datasource as spark

if TYPE_CHECKING:
    import pyarrow as pa

_COMPARED = {
    spark.EqualTo: "=",
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
}
_MATCHED = {
    spark.StringStartsWith: "starts_with",
    spark.StringEndsWith: "ends_with",
    spark.StringContains: "contains",
}
_LONGEST_LIST = 1000
_MICROSECONDS = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 1}


def pushed(filters: Iterable[spark.Filter], schema: pa.Schema) -> str | None:
    """One SQL expression for those that Lance can judge; None where it can judge none."""
    found = [sql for one in filters if (sql := _sql(one, schema)) is not None]
    return " AND ".join(f"({one})" for one in found) or None


def _sql(one: spark.Filter, schema: pa.Schema) -> str | None:
    if isinstance(one, spark.Not):
        return _negated(one.child, schema)
    kind = _type_of(one, schema)
    if kind is None:
        return None
    column = _quoted(one.attribute)  # type: ignore[attr-defined]
    if isinstance(one, spark.IsNull | spark.IsNotNull):
        return f"{column} IS {'NOT ' if isinstance(one, spark.IsNotNull) else ''}NULL"
    if isinstance(one, spark.In):
        return _in(column, one, kind)
    if isinstance(one, spark.EqualNullSafe) and one.value is None:
        return f"{column} IS NULL"
    literal = _literal(one.value, kind)  # type: ignore[attr-defined]
    if literal is None:
        return None
    if type(one) in _MATCHED:
        return f"{_MATCHED[type(one)]}({column}, {literal})"
    return _compared(one, column, literal, kind)


def _compared(one: spark.Filter, column: str, literal: str, kind: pa.DataType) -> str | None:
    from pyarrow import types

    sign = "=" if isinstance(one, spark.EqualNullSafe) else _COMPARED.get(type(one))
    if sign is None:
        return None
    said = f"{column} {sign} {literal}"
    return f"{said} OR isnan({column})" if types.is_floating(kind) and sign[0] == ">" else said


def _negated(one: spark.Filter, schema: pa.Schema) -> str | None:
    """Only of what is told exactly: a superset turns into a subset."""
    from pyarrow import types

    kind = _type_of(one, schema)
    if kind is None or types.is_floating(kind):
        return None
    said = _sql(one, schema)
    if said is None or isinstance(one, spark.Not) or (isinstance(one, spark.In) and _has_null(one)):
        return None
    if isinstance(one, spark.EqualNullSafe) and one.value is not None:
        return f"NOT ({said}) OR {_quoted(one.attribute)} IS NULL"
    return f"NOT ({said})"


def _in(column: str, one: spark.In, kind: pa.DataType) -> str | None:
    literals = [_literal(value, kind) for value in one.value if value is not None]
    if not literals or len(literals) > _LONGEST_LIST or None in literals:
        return None
    return f"{column} IN ({', '.join(one for one in literals if one is not None)})"


def _has_null(one: spark.In) -> bool:
    return any(value is None for value in one.value)


def _type_of(one: spark.Filter, schema: pa.Schema) -> pa.DataType | None:
    """The type of the column that a filter speaks of; None for one that cannot be named in SQL."""
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if not path or any("`" in part for part in path) or path[0] not in schema.names:
        return None
    kind = schema.field(path[0]).type
    for part in path[1:]:
        names = [field.name for field in kind] if hasattr(kind, "get_field_index") else []
        if part not in names:
            return None
        kind = kind.field(part).type
    return kind


def _quoted(path: Iterable[str]) -> str:
    return ".".join(f"`{part}`" for part in path)


def _literal(value: object, kind: pa.DataType) -> str | None:
    """A value in SQL, if the column is of a type with which it compares as in Spark."""
    return next((said for fits, said in _literals(value, kind) if fits), None)


def _literals(value: object, kind: pa.DataType) -> Iterator[tuple[bool, str]]:
    from pyarrow import types

    match value:
        case bool():
            yield types.is_boolean(kind), "true" if value else "false"
        case int():
            yield types.is_integer(kind) and _holds(kind, value), str(value)
        case float():
            exact = math.isfinite(value) and value != 0
            yield types.is_floating(kind) and exact, f"CAST('{value!r}' AS DOUBLE)"
        case str():
            text = value.replace("'", "''")
            yield types.is_string(kind) or types.is_large_string(kind), f"'{text}'"
        case Decimal():
            said = f"CAST('{value}' AS {str(kind).replace('128', '')})"
            yield types.is_decimal128(kind) and _holds(kind, value), said
        case datetime.datetime():
            yield _moment_fits(value, kind), f"timestamp '{value.isoformat(sep=' ')}'"
        case datetime.date():
            yield types.is_date32(kind), f"date '{value.isoformat()}'"


def _holds(kind: pa.DataType, value: object) -> bool:
    """Whether a column of the type can hold the value as it is; Lance refuses what is too large."""
    import pyarrow as pa

    try:
        pa.scalar(value, kind)
    except (pa.ArrowInvalid, OverflowError):
        return False
    return True


def _moment_fits(value: datetime.datetime, kind: pa.DataType) -> bool:
    """Lance takes a moment in UTC for local time where the column names another time zone."""
    from pyarrow import types

    zone = None if value.tzinfo is None else "UTC"
    if not types.is_timestamp(kind) or kind.tz != zone:
        return False
    return value.microsecond % _MICROSECONDS[kind.unit] == 0
