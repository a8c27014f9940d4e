"""The official JVM connector as the engine: it reads and writes the rows, the commits stay ours.

It reads a branch by its path, at a version that is chosen here. It knows of no write ids, so it
writes to a table of its own below `data/`, whose files then land as those of any write do. See
docs/decisions/0008-connector.md.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_provider_lancerefs.refstore import InvalidInputError, RefStore, Revision, layout
from airflow_provider_lancerefs.spark import staging
from airflow_provider_lancerefs.spark.columns import NoCounterpartError, spark_schema
from airflow_provider_lancerefs.spark.committing import abort, commit
from airflow_provider_lancerefs.spark.fitting import differences
from airflow_provider_lancerefs.spark.landings import find_landing
from airflow_provider_lancerefs.spark.options import WriteOptions
from airflow_provider_lancerefs.spark.ordering import BranchOf
from airflow_provider_lancerefs.spark.preparing import dataset_at, open_version, prepare
from airflow_provider_lancerefs.spark.writing import Write, Written

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
    from pyspark.sql.types import StructType

    from airflow_provider_lancerefs.spark.options import Storages

__all__ = ["ConnectorEngine"]

_FORMAT = "lance"
_CATALOG = "org.lance.spark.LanceNamespaceSparkCatalog"
_PACKAGE = "org.lance:lance-spark-3.5_2.12:0.4.0"
_NO_ROWS = "fragments cannot be null or empty"
_NO_JAR = "DATA_SOURCE_NOT_FOUND"
_OLD_JAR = re.compile("CatalogNotFoundException|Cannot find catalog plugin class")
_UNREADABLE = re.compile(r"\[UNSUPPORTED_ARROWTYPE\] (.+?)\.?$", re.MULTILINE)
_MISFIT = re.compile(r"Append with different schema: (.+?)(?:, location|$)", re.MULTILINE)


class ConnectorEngine:
    """Reads by a branch's path; writes files of which our own commit makes a version."""

    def __init__(self, spark: SparkSession, storages: Storages) -> None:
        self._spark, self._storages = spark, storages
        self._catalogs: dict[str, str] = {}
        self._check_jar()

    def load(self, one: BranchOf, columns: Sequence[str] | None) -> DataFrame:
        """Raises InvalidInputError for columns that the connector reads as what they are not."""
        place = one.place(self._storages)
        version = RefStore.open(one.uri, place.storage_options).resolve(Revision(one.branch))
        path = "/".join(filter(None, (one.uri, layout.branch_root(one.branch))))
        reader = self._spark.read.format(_FORMAT).options(**self._access(one))
        with _told(f"read {version} of {one.uri}"):
            frame = reader.option("version", str(version.number)).load(path)
        table = open_version(dataset_at(place), one.branch, version.number).schema
        chosen = list(columns) if columns is not None else frame.columns
        _check_read(frame.schema, table, chosen, str(version))
        return frame.select(*(f"`{name.replace('`', '``')}`" for name in chosen))

    def save(self, df: DataFrame, one: BranchOf, mode: str, write_id: str) -> None:
        options = WriteOptions(one.place(self._storages), one.life or None, write_id=write_id)
        write = prepare(options, df.schema, overwrite=mode == "overwrite")
        try:
            written = Written() if write.landed is not None else self._stage(df, one, write)
        except Exception:  # of which Spark has many classes
            abort(write, may_have_landed=False)
            if find_landing(dataset_at(options.place), one.branch, write_id) is None:
                raise
            return  # a twin landed, and took the stage, of which nothing can land any more
        commit(write, [written])

    def merge(self, df: DataFrame, one: BranchOf, keys: Sequence[str], write_id: str) -> None:
        raise InvalidInputError(
            "The engine 'connector' cannot merge rows on a branch: use 'lancerefs' for that."
        )

    def _stage(self, df: DataFrame, one: BranchOf, write: Write) -> Written:
        stage = staging.stage_for(write)
        writer = df.write.format(_FORMAT).mode("append").options(**self._access(one))
        with _told(f"write to {one.branch} of {one.uri}"):
            _save(writer.option("file_format_version", write.file_version), stage)
        return staging.carry_over(write, stage)

    def _access(self, one: BranchOf) -> Mapping[str, str]:
        """A catalog of the storage options: the connector takes none with a read or a write."""
        if one.uri not in self._catalogs:
            name = f"lancerefs_{uuid.uuid4().hex}"
            self._spark.conf.set(f"spark.sql.catalog.{name}", _CATALOG)
            for key, value in one.place(self._storages).storage_options.items():
                self._spark.conf.set(f"spark.sql.catalog.{name}.storage.{key}", value)
            self._catalogs[one.uri] = name
        return {"catalog": self._catalogs[one.uri]}

    def _check_jar(self) -> None:
        """Load nothing: what Spark says of that tells whether it knows the connector."""
        try:
            self._spark.read.format(_FORMAT).load()
        except Exception as error:  # of another class in each version of Spark
            if _NO_JAR in str(error):
                raise InvalidInputError(
                    "The engine 'connector' needs the Lance connector's jar on the class path: "
                    f"submit the job with packages='{_PACKAGE}', or the one for your Spark."
                ) from None


def _save(writer: DataFrameWriter, stage: str) -> None:
    """Save; the connector refuses to commit no rows at all, but the stage is empty as it is."""
    try:
        writer.save(stage)
    except Exception as error:
        if _NO_ROWS not in str(error):
            raise


def _check_read(frame: StructType, table: pa.Schema, chosen: Sequence[str], version: str) -> None:
    """Compare what the connector makes of the columns with what they are."""
    missing = [name for name in chosen if name not in frame.names]
    if missing or not chosen:
        raise InvalidInputError(
            f"{version} has no column {', '.join(map(repr, missing)) or 'of no name'}; its columns "
            f"are {', '.join(frame.names)}."
        )
    wrong = [
        text for name in chosen if name in table.names for text in _misread(frame, table, name)
    ]
    if wrong:
        raise InvalidInputError(
            f"The connector would misread {version}, where {'; '.join(wrong)}: choose other "
            "columns, or the engine 'lancerefs'."
        )


def _misread(frame: StructType, table: pa.Schema, name: str) -> Iterator[str]:
    """What sets a column apart from how the connector sees it, where Spark has such a type."""
    import pyarrow as pa
    from pyspark.sql.types import StructType

    try:
        known = spark_schema(pa.schema([table.field(name)]))
    except NoCounterpartError:
        return
    yield from differences(StructType([frame[name]]), known)


@contextmanager
def _told(doing: str) -> Iterator[None]:
    """Say in a sentence what the connector cannot do; other errors stay as Spark raised them."""
    try:
        yield
    except Exception as error:  # of another class in each version of Spark
        said = str(error)
        if _OLD_JAR.search(said):
            raise InvalidInputError(
                f"The connector cannot {doing}, for its jar is an old one that does not use the "
                f"catalog {_CATALOG} for a path: give {_PACKAGE} or a newer one."
            ) from error
        reason = _MISFIT.search(said) or _UNREADABLE.search(said)
        if reason is None:
            raise
        raise InvalidInputError(
            f"The connector cannot {doing}, and nothing was changed: {reason[1]}."
        ) from error
