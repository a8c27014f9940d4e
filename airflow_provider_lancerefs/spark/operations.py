"""What the commits of a write are to pylance: the empty ones, and the one that lands it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_provider_lancerefs.refstore import ConflictError, StorageError
from airflow_provider_lancerefs.spark.landings import fence
from airflow_provider_lancerefs.spark.writing import Write, Written, WrittenFile

if TYPE_CHECKING:
    import lance
    from lance.fragment import FragmentMetadata, RowIdMeta

_FRAGMENT_SHIFT = 32
_OFFSETS = (1 << _FRAGMENT_SHIFT) - 1
_RETRIES = 20


class OvertakenError(ConflictError):
    """A commit did not land, for somebody else's came first."""


def nothing(removed: Iterable[int] = ()) -> lance.LanceOperation.BaseOperation:
    """A version without a change; two that remove the same fragment, which never was, exclude
    each other.
    """
    import lance

    return lance.LanceOperation.Update(removed_fragment_ids=list(removed))


def creation(write: Write, added: Sequence[FragmentMetadata]) -> lance.LanceOperation.BaseOperation:
    """A table's first version."""
    import lance

    return lance.LanceOperation.Overwrite(write.schema, list(added))


def landing(
    write: Write,
    dataset: lance.LanceDataset,
    added: Sequence[FragmentMetadata],
    replaced: Mapping[int, list[int]],
) -> lance.LanceOperation.BaseOperation:
    """The write itself, on that version of the branch, without the rows that it replaces.

    An overwrite lands right above the version it read or not at all; others carry the fence.
    """
    import lance

    if write.overwrite:
        return lance.LanceOperation.Overwrite(dataset.lance_schema, list(added))
    removed, updated = _without(write, dataset, replaced)
    return lance.LanceOperation.Update(
        removed_fragment_ids=[fence(write.write_id), *removed],
        updated_fragments=updated,
        new_fragments=list(added),
    )


def fragment(write: Write, file: WrittenFile, size: int) -> FragmentMetadata:
    """A file as a fragment of the table; Lance gives it its number."""
    import lance

    data = lance.fragment.DataFile(
        file.name,
        list(write.shape.fields),
        list(write.shape.column_indices),
        write.shape.major,
        write.shape.minor,
        file_size_bytes=size,
        base_id=write.base_id,
    )
    return lance.fragment.FragmentMetadata(
        0, [data], file.rows, row_id_meta=_row_ids(file.row_ids) if file.row_ids else None
    )


def _row_ids(packed: bytes) -> RowIdMeta:
    import lance
    import numpy as np

    ids = np.frombuffer(packed, dtype=np.int64).tolist()
    return lance.fragment.RowIdSequence(ids).to_inline_metadata()


def commit(
    write: Write,
    uri: str,
    read_version: int,
    operation: lance.LanceOperation.BaseOperation,
    identity: str,
    properties: Mapping[str, str],
) -> int:
    """Commit; OvertakenError says that it did not land, StorageError that it may have.

    An overwrite is tried once: tried again it would forget what came in between.
    """
    import lance
    import lance.commit

    transaction = lance.Transaction(
        read_version, operation, uuid=identity, transaction_properties=dict(properties)
    )
    try:
        committed = lance.LanceDataset.commit(
            uri,
            transaction,
            storage_options=dict(write.storage_options) or None,
            max_retries=0 if isinstance(operation, lance.LanceOperation.Overwrite) else _RETRIES,
        )
    except lance.commit.CommitConflictError as error:
        raise OvertakenError(
            f"Somebody else changed {write.branch} of {write.uri} meanwhile ({error}).",
            ref=write.branch,
        ) from error
    except (OSError, ValueError, RuntimeError) as error:
        raise StorageError(
            f"pylance did not commit to {write.branch} of {write.uri} ({error}).", ref=write.branch
        ) from error
    version: int = committed.version
    return version


def replaced_rows(messages: Iterable[Written]) -> dict[int, list[int]]:
    """What a merge replaces, as offsets by fragment; raises InvalidInputError for a row twice."""
    import numpy as np

    from airflow_provider_lancerefs.refstore import InvalidInputError

    packed = b"".join(message.replaced for message in messages)
    addresses = np.sort(np.frombuffer(packed, dtype=np.int64))
    if (addresses[1:] == addresses[:-1]).any():
        raise InvalidInputError(
            "Several rows of the data frame have the key of one row of the table: nothing was "
            "merged; keep one row for each key."
        )
    fragments, starts = np.unique(addresses >> _FRAGMENT_SHIFT, return_index=True)
    parts = np.split(addresses & _OFFSETS, starts[1:])
    return {int(one): part.tolist() for one, part in zip(fragments, parts, strict=False)}


def _without(
    write: Write, dataset: lance.LanceDataset, replaced: Mapping[int, list[int]]
) -> tuple[list[int], list[FragmentMetadata]]:
    """The fragments of which no row is left, and those that lose some."""
    removed, updated = [], []
    for number, offsets in replaced.items():
        there = dataset.get_fragment(number)
        if there is None:
            raise ConflictError(
                f"Rows of {write.branch} that are to be replaced are gone: merge again.",
                ref=write.branch,
            )
        left = there.delete_rows(offsets)
        if left is None:
            removed.append(number)
        else:
            updated.append(left)
    return removed, updated
