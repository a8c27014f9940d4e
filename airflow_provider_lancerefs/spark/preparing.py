"""What a write is to do, found out on the driver before any task runs."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from airflow_provider_lancerefs.refstore import (
    ConflictError,
    FormatError,
    InvalidInputError,
    RefNotFoundError,
    RefStore,
    versions,
)
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.layout import branch_root
from airflow_provider_lancerefs.refstore.models import Branch, BranchState, Version
from airflow_provider_lancerefs.refstore.names import MAIN
from airflow_provider_lancerefs.refstore.storage import normalise_uri, open_storage
from airflow_provider_lancerefs.spark.columns import (
    ROW_MARKS,
    NoCounterpartError,
    arrow_schema,
    spark_schema,
)
from airflow_provider_lancerefs.spark.fitting import check_columns, check_fits
from airflow_provider_lancerefs.spark.landings import find_landing, new_attempt
from airflow_provider_lancerefs.spark.shapes import file_shape, ids_of
from airflow_provider_lancerefs.spark.writing import Write

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

    from airflow_provider_lancerefs.spark.options import Place, WriteOptions

_NEW_FILES = "2.2"
_LEGACY_FILES = "0."


def dataset_at(place: Place) -> Dataset:
    """The dataset of a place, for calls below the ref store's facade."""
    options = dict(place.storage_options)
    return Dataset(open_storage(normalise_uri(place.uri), options), options)


def prepare(options: WriteOptions, frame: StructType, *, overwrite: bool) -> Write:
    """What to write where, on the table as it is now; raises before anything is written.

    InvalidInputError where the frame does not fit, RefNotFoundError where the branch is gone,
    ConflictError where it takes no more writes.
    """
    dataset, name = dataset_at(options.place), options.place.branch or MAIN
    marks = ROW_MARKS if options.merge is not None else ()
    rows = StructType([field for field in frame.fields if field.name not in marks])
    check_columns(rows, f"{name} of {dataset.uri}")
    branch = standing_branch(dataset, name, options.life)
    life = branch.life if branch else ""
    write_id = options.write_id or uuid.uuid4().hex
    landed = find_landing(dataset, name, write_id) if options.write_id else None
    if landed is None and branch is not None:
        check_open(branch)
    head = _read_version(dataset, name, options.merge)
    home, base_id = home_of(dataset, name)
    table = None if head is None else open_version(dataset, name, head.number)
    schema = _new_schema(rows) if table is None else table.schema
    ids = () if table is None else field_ids(table)
    if table is not None and landed is None:
        _check(rows, table, f"{head}")
    file_version = _NEW_FILES if table is None else str(table.data_storage_version)
    if file_version.startswith(_LEGACY_FILES):
        raise InvalidInputError(
            f"{head} has files of Lance's first format: rewrite the table in a newer one."
        )
    return Write(
        uri=dataset.uri,
        storage_options=dataset.storage_options,
        branch=name,
        life=life,
        home=home,
        base_id=base_id,
        write_id=write_id,
        attempt=new_attempt(name, life, write_id),
        schema=schema,
        field_ids=ids,
        shape=file_shape(schema, file_version, ids),
        file_version=file_version,
        max_rows_per_file=options.max_rows_per_file,
        overwrite=overwrite or table is None,
        merge=options.merge is not None,
        keeps_row_ids=table is not None and bool(table.has_stable_row_ids),
        read_version=head.number if head else None,
        landed=landed.version if landed else None,
    )


def _read_version(dataset: Dataset, name: str, merged: int | None) -> Version | None:
    """The version on which to write: the head, or the one whose rows a merge speaks of."""
    if merged is not None:
        return versions.exact(dataset.storage, name, merged)
    return versions.find_head(dataset.storage, name)


def standing_branch(dataset: Dataset, name: str, life: str | None) -> Branch | None:
    """The branch, if it is there, and is of that life where one is given; None for main."""
    if name == MAIN:
        return None
    try:
        branch = RefStore(dataset).branch(name)
    except RefNotFoundError:
        if not life:
            raise
        raise RefNotFoundError(f"{_gone(dataset, name)}.", ref=name) from None
    if life and branch.life != life:
        raise RefNotFoundError(
            f"{_gone(dataset, name)}; another of the same name has taken its place.", ref=name
        )
    return branch


def check_open(branch: Branch) -> None:
    """Raise ConflictError where what is written now would not be published."""
    if branch.state is not BranchState.OPEN:
        raise ConflictError(
            f"The branch {branch.name!r} is {branch.state}: write to a new branch.",
            ref=branch.name,
        )


def _gone(dataset: Dataset, name: str) -> str:
    return (
        f"The branch {name!r} of {dataset.uri} is gone, so there is nowhere to write: clear the "
        "setup task, which makes a new one"
    )


def home_of(dataset: Dataset, name: str) -> tuple[str, int | None]:
    """Where data files go: the root, or the branch's folder if that cannot name the root."""
    if name == MAIN:
        return dataset.uri, None
    try:
        target = RefStore(dataset).write_target(name)
    except FormatError:
        return dataset.at(branch_root(name)), None
    return target.uri, target.base_id


def open_version(dataset: Dataset, name: str, version: int) -> lance.LanceDataset:
    """One version of a branch, as pylance opens it."""
    import lance

    return lance.dataset(
        dataset.at(branch_root(name)),
        version=version,
        storage_options=dict(dataset.storage_options) or None,
    )


def field_ids(table: lance.LanceDataset) -> tuple[int, ...]:
    """The ids of all fields of a table, in the order of its schema."""
    return tuple(ids_of(table.lance_schema.fields()))


def _check(rows: StructType, table: lance.LanceDataset, where: str) -> None:
    try:
        columns = spark_schema(table.schema)
    except NoCounterpartError as error:
        raise InvalidInputError(f"In {where} {error}, so Spark cannot write there.") from None
    check_fits(rows, columns, where)


def _new_schema(rows: StructType) -> pa.Schema:
    try:
        return arrow_schema(rows)
    except NoCounterpartError as error:
        raise InvalidInputError(f"No table can be made of the data frame: {error}.") from None
