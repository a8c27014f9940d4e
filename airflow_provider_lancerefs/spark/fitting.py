"""Whether a data frame fits a table, said on the driver, column by column, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from airflow_provider_lancerefs.refstore import InvalidInputError
from airflow_provider_lancerefs.spark.columns import ROW_MARKS

_WHOLE: tuple[type[DataType], ...] = (ByteType, ShortType, IntegerType, LongType)
RESERVED = {
    *ROW_MARKS,
    "_rowoffset",
    "_row_created_at_version",
    "_row_last_updated_at_version",
}
_WIDER: tuple[tuple[type[DataType], ...], ...] = (_WHOLE, (FloatType, DoubleType))


def check_fits(frame: StructType, table: StructType, where: str) -> None:
    """Raise InvalidInputError with each difference, where rows of the frame cannot go there."""
    found = list(differences(frame, table))
    if found:
        raise InvalidInputError(
            f"The data frame does not fit {where}, and nothing was written: {'; '.join(found)}."
        )


def check_columns(frame: StructType, where: str) -> None:
    """Raise InvalidInputError for what can be the columns of no table."""
    said = next(_no_columns(frame.names), None)
    if said is not None:
        raise InvalidInputError(
            f"A data frame with {said} cannot be written to {where}, and nothing was."
        )


def _no_columns(names: Sequence[str]) -> Iterator[str]:
    if not names:
        yield "no columns"
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        yield f"two columns called {', '.join(map(repr, twice))}"
    dotted = [name for name in names if "." in name]
    if dotted:
        yield f"a column called {', '.join(map(repr, dotted))}, in which Lance takes no dot,"
    reserved = sorted(RESERVED.intersection(names))
    if reserved:
        yield f"a column called {', '.join(map(repr, reserved))}, as Lance calls one of its own,"


def differences(frame: StructType, table: StructType, path: str = "") -> Iterator[str]:
    """What keeps rows of one schema from a table of the other; order and nulls are no difference.

    Nulls in a column that takes none are found when they come.
    """
    ours = {field.name: field.dataType for field in frame.fields}
    theirs = {field.name: field.dataType for field in table.fields}
    if len(ours) < len(frame.fields):
        yield f"{path or 'the frame'} has two columns of one name"
    for name in theirs:
        if name not in ours:
            yield f"{path}{name} ({theirs[name].simpleString()}) is missing"
        elif not _fits(ours[name], theirs[name]):
            yield from _difference(ours[name], theirs[name], f"{path}{name}")
    for name in ours:
        if name not in theirs:
            yield f"{path}{name} ({ours[name].simpleString()}) is not a column of the table"


def _difference(ours: DataType, theirs: DataType, path: str) -> Iterator[str]:
    if isinstance(ours, StructType) and isinstance(theirs, StructType):
        yield from differences(ours, theirs, f"{path}.")
    else:
        yield f"{path} is {ours.simpleString()} and has to be {theirs.simpleString()}"


def _fits(ours: DataType, theirs: DataType) -> bool:
    match ours, theirs:
        case StructType(), StructType():
            return not any(differences(ours, theirs))
        case ArrayType(), ArrayType():
            return _fits(ours.elementType, theirs.elementType)
        case MapType(), MapType():
            return _fits(ours.keyType, theirs.keyType) and _fits(ours.valueType, theirs.valueType)
        case StringType(), StringType():
            return True
        case DecimalType(), DecimalType():
            return ours.scale == theirs.scale and ours.precision <= theirs.precision
    return type(ours) is type(theirs) or any(
        type(ours) in one and type(theirs) in one[one.index(type(ours)) :] for one in _WIDER
    )
