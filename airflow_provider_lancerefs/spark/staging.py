"""Files that another writer makes for a write: in a table of its own first, then named as ours are.

The table lies below `data/` under a name that begins with the attempt's, so whatever removes that
attempt's files removes it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from airflow_provider_lancerefs.refstore import InvalidInputError, StorageError, layout
from airflow_provider_lancerefs.refstore.storage import open_storage
from airflow_provider_lancerefs.refstore.storage.concurrency import side_by_side
from airflow_provider_lancerefs.spark.writing import Write, Written, WrittenFile

if TYPE_CHECKING:
    import pyarrow as pa
    from lance.fragment import DataFile, FragmentMetadata

__all__ = ["carry_over", "stage_for"]

_ELEMENT = "element"


def stage_for(write: Write) -> str:
    """An empty table with the columns of the write, in which Spark's names for parts are used."""
    import lance
    import pyarrow as pa

    stage = f"{write.home}/{layout.stage(write.attempt)}"
    columns = [field.with_type(_with_element(field.type)) for field in write.schema]
    with _pylance(stage):
        lance.write_dataset(
            pa.schema(columns).empty_table(),
            stage,
            data_storage_version=cast(Any, write.file_version),  # of what pylance told
            storage_options=dict(write.storage_options) or None,
        )
    return stage


def carry_over(write: Write, stage: str) -> Written:
    """Copy what was committed to the stage to where the write's files go, within the storage."""
    storage = open_storage(write.uri, dict(write.storage_options))
    home = f"{write.home}/{layout.DATA}/".removeprefix(f"{write.uri}/")
    there = f"{stage}/{layout.DATA}/".removeprefix(f"{write.uri}/")
    files, copies = [], []
    with side_by_side(storage) as run:
        for number, fragment in enumerate(_fragments(write, stage)):
            name = f"{write.attempt}-staged-{number}.lance"
            source = _checked(write, fragment).path
            copies.append(run.submit(storage.copy, f"{there}{source}", storage, f"{home}{name}"))
            files.append(WrittenFile(name, fragment.physical_rows))
    for copy in copies:
        copy.result()
    return Written(tuple(files))


def _fragments(write: Write, stage: str) -> Iterator[FragmentMetadata]:
    import lance

    with _pylance(stage):
        table = lance.dataset(stage, storage_options=dict(write.storage_options) or None)
        yield from (one.metadata for one in table.get_fragments())


def _checked(write: Write, fragment: FragmentMetadata) -> DataFile:
    """The fragment's file, if it lies as the manifest will say of it."""
    file: DataFile = fragment.files[0]
    shape = write.shape
    lies = (tuple(file.column_indices), file.file_major_version, file.file_minor_version)
    if lies != (shape.column_indices, shape.major, shape.minor):
        raise InvalidInputError(
            f"The files that the connector wrote are of version {lies[1]}.{lies[2]} and not as "
            f"those of {write.branch} of {write.uri}, so nothing was committed: give a newer jar."
        )
    return file


@contextmanager
def _pylance(uri: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        raise StorageError(f"pylance could not use {uri} ({error}).", ref=uri) from error


def _with_element(kind: pa.DataType) -> pa.DataType:
    """The type as the connector spells it, which calls the parts of a list by one name.

    No file knows them by name, so the table's own spelling stays right.
    """
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_element(field.type)) for field in kind])
    if pa.types.is_list(kind):
        part = kind.value_field
        return pa.list_(part.with_name(_ELEMENT).with_type(_with_element(part.type)))
    return kind
