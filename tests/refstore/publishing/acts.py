"""Tables with a branch, what is done to them, and what they then hold."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
from lance.fragment import write_fragments

from airflow_provider_lancerefs.refstore import (
    RefStore,
)
from tests.tables import Place

NO_TIME = timedelta(0)
Act = Callable[[Place], object]


def table(*values: int, **columns: list[int]) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64()), **columns})


def nothing(place: Place) -> None:
    """Nobody does anything."""


def start(
    place: Place, name: str = "b", before: Act = nothing, **arguments: object
) -> tuple[RefStore, Place]:
    """Two fragments, 1 to 3 and 4 to 6, and a branch of them."""
    place.create([1, 2, 3], **arguments).append(4, 5, 6)
    before(place)
    store = place.store()
    store.create_branch(name)
    return store, place.branch(name)


def appends(*values: int) -> Act:
    return lambda place: place.append(*values)


def deletes(predicate: str) -> Act:
    return lambda place: place.open().delete(predicate)


def updates(where: str) -> Act:
    return lambda place: place.open().update({"n": "n + 100"}, where=where)


def compacts(place: Place) -> None:
    place.open().optimize.compact_files()


def cleans(place: Place) -> None:
    place.open().cleanup_old_versions(older_than=NO_TIME, delete_unverified=True)


def upserts(place: Place) -> None:
    merge = place.open().merge_insert("n")
    merge.when_matched_update_all().when_not_matched_insert_all().execute(table(3, 30))


def adds_column(place: Place) -> None:
    place.open().add_columns({"m": "n * 2"})


def drops_column(place: Place) -> None:
    place.open().drop_columns(["m"])


def casts(place: Place) -> None:
    place.open().alter_columns({"path": "m", "data_type": pa.int32()})


def renames(place: Place) -> None:
    place.open().alter_columns({"path": "n", "name": "k"})


def indexes(place: Place) -> None:
    place.open().create_scalar_index("n", "BTREE")


def adds_empty_column(place: Place) -> None:
    place.open().add_columns(pa.field("m", pa.int64()))


def indexes_empty_column(place: Place) -> None:
    adds_empty_column(place)
    place.open().create_scalar_index("m", "BTREE")


def fills_column(place: Place) -> None:
    """Values by another file for a fragment, as a backfill writes them."""
    there = place.open()
    values = pa.table({"n": pa.array([1], pa.int64()), "m": pa.array([7], pa.int64())})
    changed, fields = there.get_fragments()[0].update_columns(values, "n", "n")[:2]
    lance.LanceDataset.commit(
        there.uri,
        lance.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields),
        read_version=there.version,
        storage_options=place.options or None,
    )


def adds_another_column(place: Place) -> None:
    place.open().add_columns({"k": "n * 2"})


def replaces_schema(place: Place) -> None:
    lance.write_dataset(
        pa.table({"x": ["a", "b"]}),
        place.uri,
        mode="overwrite",
        storage_options=place.options or None,
    )


def both(*acts: Act) -> Act:
    def act(place: Place) -> None:
        for one in acts:
            one(place)

    return act


def writes_through(store: RefStore, place: Place, branch: str, *values: int) -> None:
    """As a distributed writer does: files into the root, then one commit on the branch."""
    target = store.write_target(branch)
    there = place.branch(branch).open()
    fragments = write_fragments(
        table(*values),
        target.uri,
        schema=there.schema,
        mode="append",
        storage_options=place.options or None,
    )
    for file in (file for fragment in fragments for file in fragment.files):
        file.base_id = target.base_id
    lance.LanceDataset.commit(
        there.uri,
        lance.LanceOperation.Append(fragments),
        read_version=there.version,
        storage_options=place.options or None,
    )


def contents(place: Place, but: str = "_refs/") -> list[tuple[str, int, str]]:
    entries = place.store()._dataset.storage.list("")
    return [(one.path, one.size, one.token) for one in entries if not one.path.startswith(but)]


CHANGES: dict[str, tuple[Act, Act, list[int]]] = {
    "append": (appends(10), both(appends(7), deletes("n = 2")), [1, 3, 4, 5, 6, 7, 10]),
    "append, compacted there": (appends(10), both(deletes("n = 2"), compacts), [1, 3, 4, 5, 6, 10]),
    "append, cleaned there": (appends(10), both(deletes("n = 2"), cleans), [1, 3, 4, 5, 6, 10]),
    "delete": (deletes("n = 1"), deletes("n = 2"), [3, 4, 5, 6]),
    "delete, all gone with theirs": (deletes("n = 1"), deletes("n in (2, 3)"), [4, 5, 6]),
    "update": (updates("n = 1"), deletes("n = 2"), [3, 4, 5, 6, 101]),
    "update of what it wrote": (
        both(updates("n = 1"), updates("n = 101")),
        nothing,
        [2, 3, 4, 5, 6, 201],
    ),
    "merge_insert": (upserts, deletes("n = 2"), [1, 3, 4, 5, 6, 30]),
    "compaction": (compacts, appends(7), [1, 2, 3, 4, 5, 6, 7]),
    "append and delete": (
        both(appends(10, 11), deletes("n = 10")),
        appends(7),
        [1, 2, 3, 4, 5, 6, 7, 11],
    ),
    "overwrite": (lambda place: place.overwrite(8), nothing, [8]),
    "emptied": (deletes("true"), nothing, []),
    "added column": (adds_column, deletes("n = 2"), [1, 3, 4, 5, 6]),
    "added column and rows": (both(adds_column, deletes("n = 1")), deletes("n = 2"), [3, 4, 5, 6]),
    "added column, dropped rows": (both(adds_column, deletes("n < 4")), nothing, [4, 5, 6]),
}


def row_ids(place: Place) -> dict[int, int]:
    rows = place.open().to_table(columns=["n"], with_row_id=True)
    return dict(zip(rows["n"].to_pylist(), rows["_rowid"].to_pylist(), strict=True))


def orphans(place: Place) -> set[str]:
    """Data and deletion files of the root that no version of it names."""
    store = place.store()
    named = {
        Path(file.uri).name for version in store.log() for file in store.files(version.version)
    }
    storage = store._dataset.storage
    there = [*storage.list("data/"), *storage.list("_deletions/")]
    return {Path(entry.path).name for entry in there} - named
