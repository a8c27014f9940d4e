"""Making the format `lancerefs` known: `spark.read.format(...)` and `df.write.format(...)`.

A session that has a JVM at hand reads and writes there, beside one Python process for each
executor; any other one does so in Spark's own Python workers, with the same options and results.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from airflow_provider_lancerefs.refstore import InvalidInputError
from airflow_provider_lancerefs.spark.jvm.compiling import has_jvm
from airflow_provider_lancerefs.spark.options import Storages, configured_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

_log = logging.getLogger(__name__)
_registered: dict[str, Mapping[str, str]] = {}


def register(spark: SparkSession, storages: Storages | None = None) -> None:
    """Make the data source `lancerefs` known to a session; may be called again with more storages.

    Args:
        spark: The session.
        storages: pylance's storage options by dataset, or by a folder above it. What stands in
            Spark's configuration as `spark.lancerefs.secret.<option>` serves all others, if
            nothing is given for ''.
    """
    given = {uri.rstrip("/"): dict(one) for uri, one in (storages or {}).items()}
    usual = given.pop("") if "" in given else configured_storage(spark)
    _registered.update(given)
    known = {"": usual, **_registered}
    in_python = _python_side()
    if not _is_in_jvm(spark, known):
        in_python(spark, known)


def _is_in_jvm(spark: SparkSession, storages: Storages) -> bool:
    """Register there; False where there is no JVM, or a Spark that does not take our classes."""
    if not has_jvm(spark):
        return False
    from py4j.protocol import Py4JError

    from airflow_provider_lancerefs.spark.jvm.telling import tell

    try:
        tell(spark.sparkContext, storages)
    except Py4JError as error:
        _log.warning(
            "This Spark does not take our classes (%s), so rows go through Python workers, which "
            "is slower.",
            str(error).partition("\n")[0],
        )
        return False
    return True


def _python_side() -> Callable[[SparkSession, Storages], None]:
    """What registers in Spark's Python workers, of which only newer Sparks know."""
    try:
        from airflow_provider_lancerefs.spark.source import register_source
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            "This Spark is too old for the data source 'lancerefs': use Spark 4.2, or the engine "
            "'connector'."
        ) from error
    return register_source
