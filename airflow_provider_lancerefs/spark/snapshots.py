"""What a read reads: one exact version, chosen on the driver when the read is planned."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_lancerefs.refstore import InvalidInputError, RefStore, Revision
from airflow_provider_lancerefs.refstore.layout import branch_root
from airflow_provider_lancerefs.refstore.names import MAIN
from airflow_provider_lancerefs.spark.columns import (
    ROW_MARKS,
    NoCounterpartError,
    spark_schema,
)
from airflow_provider_lancerefs.spark.reading import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from airflow_provider_lancerefs.spark.options import ReadOptions


def take_snapshot(options: ReadOptions) -> tuple[Snapshot, StructType]:
    """The version that the options mean now, and its columns as Spark sees them.

    Raises the NotFoundError that fits, or InvalidInputError for columns that cannot be read.
    """
    place = options.place
    store = RefStore.open(place.uri, place.storage_options)
    version = store.resolve(_wanted(options))
    if version.branch != MAIN:
        store.branch(version.branch)
    home = branch_root(version.branch)
    snapshot = Snapshot(
        uri=f"{store.uri}/{home}" if home else store.uri,
        version=version.number,
        storage_options=place.storage_options,
        batch_size=options.batch_size,
        rows_per_partition=options.rows_per_partition,
        row_marks=options.row_marks,
        taken=uuid.uuid4().hex,
    )
    schema = snapshot.open().schema
    chosen = _chosen(schema, options.columns, str(version))
    try:
        columns = spark_schema(chosen)
    except NoCounterpartError as error:
        raise InvalidInputError(
            f"In {version} {error}: choose other columns with the option 'columns'."
        ) from None
    for mark in ROW_MARKS if options.row_marks else ():
        columns = columns.add(mark, "long")
    return replace(snapshot, columns=tuple(chosen.names)), columns


def _wanted(options: ReadOptions) -> Revision:
    if options.tag is not None:
        return Revision(branch=None, tag=options.tag)
    return Revision(options.place.branch or MAIN, options.version)


def _chosen(schema: pa.Schema, columns: tuple[str, ...] | None, version: str) -> pa.Schema:
    import pyarrow as pa

    if columns is None:
        return schema
    missing = [name for name in columns if name not in schema.names]
    if missing or not columns:
        raise InvalidInputError(
            f"{version} has no column {', '.join(map(repr, missing)) or 'of no name'}; its columns "
            f"are {', '.join(schema.names)}."
        )
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise InvalidInputError(f"A column is read once: {', '.join(map(repr, twice))} is not.")
    return pa.schema([schema.field(name) for name in columns])
