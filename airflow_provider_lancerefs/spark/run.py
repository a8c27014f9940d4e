"""The handle by which a job reads and writes its run's branch, without knowing which that is."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from airflow_provider_lancerefs.refstore import (
    ConflictError,
    InvalidInputError,
    LanceRefsError,
    RefStore,
    Revision,
    errors,
)
from airflow_provider_lancerefs.refstore.names import MAIN
from airflow_provider_lancerefs.refstore.storage import normalise_uri
from airflow_provider_lancerefs.spark.columns import ROW_MARKS
from airflow_provider_lancerefs.spark.committing import remove_dead_attempts
from airflow_provider_lancerefs.spark.engines import engine_of
from airflow_provider_lancerefs.spark.landings import Landing, find_landing
from airflow_provider_lancerefs.spark.numbering import next_write
from airflow_provider_lancerefs.spark.options import configured_storage
from airflow_provider_lancerefs.spark.ordering import (
    OWN,
    RUN_CONF,
    BranchOf,
    Order,
    check_engine,
)
from airflow_provider_lancerefs.spark.preparing import dataset_at, home_of, standing_branch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MODES = ("append", "overwrite")
_MERGES = 3
_OUR_ERROR = re.compile(r"airflow_provider_lancerefs\.refstore\.errors\.(\w+): (.+)")


class LanceRun:
    """The datasets of a run, each on the run's branch, by name.

    Every write is one commit, made once: run again after a crash, the job finds what it committed.
    """

    def __init__(
        self,
        spark: SparkSession,
        order: Order,
        storages: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._spark, self._order = spark, order
        self._storages = {"": configured_storage(spark), **(storages or {})}
        self._engine = engine_of(check_engine(order.engine), spark, self._storages)
        for one in order.datasets.values():
            standing_branch(dataset_at(one.place(self._storages)), one.branch, one.life)

    @classmethod
    def current(cls, spark: SparkSession | None = None, engine: str | None = None) -> LanceRun:
        """The run that this job was submitted for, from Spark's configuration.

        Its engine, too, is the one that it was submitted with, unless another is given here.
        Raises RefNotFoundError if a branch is gone, InvalidInputError if there is no run.
        """
        session = spark or _session()
        text = session.conf.get(RUN_CONF, None)
        if text is None:
            raise InvalidInputError(
                f"This job was not submitted for a run, for {RUN_CONF} is not in its "
                "configuration: use LanceRun.open(dataset, branch=...)."
            )
        order = Order.from_json(text)
        return cls(session, replace(order, engine=engine) if engine else order)

    @classmethod
    def open(
        cls,
        dataset: str | Mapping[str, str],
        branch: str = MAIN,
        storage_options: Mapping[str, str] | None = None,
        spark: SparkSession | None = None,
        engine: str = OWN,
    ) -> LanceRun:
        """The same for a script run by hand.

        Args:
            dataset: A dataset's URI, which then goes by the last part of it without '.lance', or
                several by name.
            branch: The branch of each.
            storage_options: pylance's own keys.
            spark: The session; the active one by default.
            engine: 'lancerefs', our own data source, or 'connector', the JVM connector, whose jar
                has to be on the class path.
        """
        given = {_name_of(dataset): dataset} if isinstance(dataset, str) else dict(dataset)
        places = {name: BranchOf(normalise_uri(uri), branch) for name, uri in given.items()}
        storages = {one.uri: dict(storage_options or {}) for one in places.values()}
        order = Order(places, uuid.uuid4().hex, engine)
        return cls(spark or _session(), order, storages if storage_options else None)

    def __repr__(self) -> str:
        return f"LanceRun({', '.join(map(repr, self._order.datasets))})"

    def read(self, name: str, columns: Iterable[str] | None = None) -> DataFrame:
        """A dataset as the run's branch shows it now; the frame keeps to that version."""
        one = self._dataset(name)
        chosen = [columns] if isinstance(columns, str) else columns
        wanted = None if chosen is None else list(chosen)
        try:
            return self._engine.load(one, wanted)
        except PySparkException as error:
            raise _ours(error) or error from None

    def write(self, df: DataFrame, name: str, mode: str = "append") -> str:
        """Append to a dataset, or overwrite it, on the run's branch; the revision that it makes.

        Raises InvalidInputError if the frame does not fit or another thread is writing there,
        ConflictError if the branch takes no more writes, OutcomeUnknownError if it is not known
        whether rows were written.
        """
        if mode not in _MODES:
            raise InvalidInputError(f"A mode is 'append' or 'overwrite', not {mode!r}.")
        one = self._dataset(name)

        def save(write_id: str) -> None:
            self._engine.save(df, one, mode, write_id)

        return self._once(name, save)

    def merge(self, df: DataFrame, name: str, on: Iterable[str]) -> str:
        """Replace the rows whose key a row of the frame has, and add the frame's other rows.

        Rows are matched and written on executors. A key with a null in it matches nothing. The
        frame has to have one row for each key; raises InvalidInputError where two replace one row.
        """
        one, keys = self._dataset(name), [on] if isinstance(on, str) else [*dict.fromkeys(on)]
        missing = [key for key in keys if key not in df.columns]
        if missing or not keys or not {*ROW_MARKS}.isdisjoint(df.columns):
            raise InvalidInputError(
                f"Rows are merged on columns of the data frame, which has no {missing}."
                if missing
                else f"Name columns to merge on, and have none called {ROW_MARKS} in the frame."
            )

        def save(write_id: str) -> None:
            self._engine.merge(df, one, keys, write_id)

        return self._once(name, save, tries=_MERGES)

    def revision(self, name: str) -> str:
        """The exact version that the run's branch shows now, such as 'branch:x@7'."""
        one = self._dataset(name)
        return str(self._store(one).resolve(Revision(one.branch)))

    def _once(self, name: str, save: Callable[[str], None], tries: int = 1) -> str:
        """Save under the next write id, unless an earlier attempt of the job did that already."""
        one = self._dataset(name)
        with next_write(self._spark, self._order.write_id, name) as write_id:
            landing = self._saved(one, write_id, save, tries)
        return str(Revision(one.branch, landing.version)) if landing else self.revision(name)

    def _saved(
        self, one: BranchOf, write_id: str, save: Callable[[str], None], tries: int
    ) -> Landing | None:
        """The landing of the write; None where all that could show it is cleaned up."""
        dataset = dataset_at(one.place(self._storages))
        branch = standing_branch(dataset, one.branch, one.life)
        for left in reversed(range(tries)):
            landing = find_landing(dataset, one.branch, write_id)
            if landing is not None:  # of an attempt that may not have lived to tidy up
                life, (home, _) = branch.life if branch else "", home_of(dataset, one.branch)
                remove_dead_attempts(dataset, home, one.branch, life, write_id, landing)
                break
            try:
                save(write_id)
            except ConflictError:
                if not left:
                    raise
            except Exception as error:  # whichever Spark has for a job that failed
                ours = _ours(error)
                if ours is None:
                    raise
                if not (left and isinstance(ours, ConflictError)):
                    raise ours from error
        return find_landing(dataset, one.branch, write_id)

    def _dataset(self, name: str) -> BranchOf:
        try:
            return self._order.datasets[name]
        except KeyError:
            raise InvalidInputError(
                f"This run has no dataset {name!r}; it has {', '.join(self._order.datasets)}."
            ) from None

    def _store(self, one: BranchOf) -> RefStore:
        return RefStore.open(one.uri, one.place(self._storages).storage_options)


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def _name_of(uri: str) -> str:
    return uri.rstrip("/").rpartition("/")[2].removesuffix(".lance")


def _ours(error: Exception) -> LanceRefsError | None:
    """The error that a process of Spark's raised, of which Spark passes on the text."""
    said = _OUR_ERROR.search(str(error))
    kind = getattr(errors, said[1], None) if said else None
    if said is None or not (isinstance(kind, type) and issubclass(kind, LanceRefsError)):
        return None
    return kind(said[2])
