"""Branches to publish or discard, and what must be so whatever happens to whoever does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import lance
import pyarrow as pa
from lance.fragment import write_fragments

from airflow_provider_lancerefs.refstore import RefStore, layout
from airflow_provider_lancerefs.refstore.dataset import Dataset
from tests.refstore.publishing.calls import NO_TIME
from tests.tables import Place

Act = Callable[[Dataset], object]
MAIN = "main"
START = [1, 2, 3, 4, 5, 6]


@dataclass(frozen=True)
class Scene:
    """A call, what stands before it, and the rows of its target before and afterwards."""

    call: str
    prepare: Act
    after: list[int]
    before: list[int]
    branch: str = "b"
    target: str = MAIN

    @property
    def publishes(self) -> bool:
        return self.call.startswith("publish")


def place(dataset: Dataset, branch: str = MAIN) -> Place:
    root = Place(dataset.uri, dict(dataset.storage_options))
    return root if branch == MAIN else root.branch(branch)


def start(dataset: Dataset) -> None:
    """Two fragments, and a branch of them."""
    place(dataset).create([1, 2, 3]).append(4, 5, 6)
    RefStore(dataset).create_branch("b")


def in_the_root(dataset: Dataset) -> None:
    """As a distributed writer does: two files into the root, then one commit on the branch."""
    start(dataset)
    _write_through(dataset, 10, 11)


def to_be_copied(dataset: Dataset) -> None:
    """Files below the branch's folder, one of them with a deletion file, and a deleted old row."""
    start(dataset)
    branch = place(dataset, "b").append(10).append(11, 12)
    branch.delete("n in (1, 12)")


def on_both_sides(dataset: Dataset) -> None:
    """Updates and deletes on the branch, and meanwhile on main."""
    start(dataset)
    branch, main = place(dataset, "b"), place(dataset)
    branch.delete("n = 4")
    branch.open().update({"n": "n + 100"}, where="n = 1")
    main.delete("n = 5")
    main.open().update({"n": "n + 200"}, where="n = 2")


def of_a_branch(dataset: Dataset) -> None:
    """A branch of a branch, both written to."""
    place(dataset).create([1, 2, 3]).append(4, 5, 6)
    RefStore(dataset).create_branch("p")
    place(dataset, "p").append(7)
    RefStore(dataset).create_branch("p/b", "branch:p")
    place(dataset, "p/b").append(10).delete("n = 1")


def indexed(dataset: Dataset) -> None:
    """Main has an index, which the branch's rows are not in."""
    place(dataset).create([1, 2, 3]).append(4, 5, 6)
    place(dataset).open().create_scalar_index("n", "BTREE")
    RefStore(dataset).create_branch("b")
    place(dataset, "b").append(10)


def everywhere(dataset: Dataset) -> None:
    """Files in the root and below the branch's folder, which nothing else reaches."""
    start(dataset)
    _write_through(dataset, 10, 11)
    place(dataset, "b").append(12).delete("n in (1, 10)")


def published(dataset: Dataset) -> None:
    """A branch with files of both kinds, which main has now."""
    everywhere(dataset)
    RefStore(dataset).publish("b")


SCENES = {
    "files in the root": Scene("publish", in_the_root, [*START, 10, 11], START),
    "files to be copied": Scene("publish", to_be_copied, [2, 3, 4, 5, 6, 10, 11], START),
    "changes on both sides": Scene("publish", on_both_sides, [3, 6, 101, 202], [1, 3, 4, 6, 202]),
    "a branch of a branch": Scene(
        "publish into a branch", of_a_branch, [*START[1:], 7, 10], [*START, 7], "p/b", "p"
    ),
    "an index": Scene("publish and index", indexed, [*START, 10], START),
    "a discard": Scene("discard", everywhere, START, START),
    "a discard of what is published": Scene(
        "discard", published, [2, 3, 4, 5, 6, 11, 12], [2, 3, 4, 5, 6, 11, 12]
    ),
}


def check_whole(dataset: Dataset, scene: Scene, known: int) -> list[int]:
    """The target reads whole, as before or as afterwards, and so does every version of it and of
    main; the rows of the head. `known` is the version that it had before."""
    table = place(dataset, scene.target)
    table.open().validate()
    rows = {one["version"]: table.values(one["version"]) for one in table.open().versions()}
    later = [rows[version] for version in sorted(rows) if version >= known]
    changed = later.index(scene.after) if scene.after in later else len(later)
    assert later == [scene.before] * changed + [scene.after] * (len(later) - changed), later
    if scene.target != MAIN:
        assert place(dataset).values() == START
    return later[-1]


def head(dataset: Dataset, scene: Scene) -> int:
    return int(place(dataset, scene.target).open().version)


def repair(dataset: Dataset) -> None:
    """One repair finds and mends all; then no object is left that no version needs."""
    strict = RefStore(replace(dataset, grace=NO_TIME))
    findings = strict.check(repair=True, orphan_age=NO_TIME).findings
    assert [found for found in findings if not found.repaired] == []
    assert strict.check(orphan_age=NO_TIME).findings == ()
    assert needless(dataset) == []


def needless(dataset: Dataset) -> list[str]:
    """Every object that no version of main or of a branch needs, by what pylance says of them."""
    branches = RefStore(dataset).branch_names()
    needed = {one for name in [MAIN, *branches] for one in _needed(dataset, name)}
    paths = [entry.path for entry in dataset.storage.list("")]
    return [path for path in paths if not _is_needed(path, needed, branches)]


def _needed(dataset: Dataset, branch: str) -> Iterator[str]:
    table, store = place(dataset, branch), RefStore(dataset)
    for number in (one["version"] for one in table.open().versions()):
        there = lance.dataset(
            table.uri, version=number, storage_options=dict(dataset.storage_options) or None
        )
        for fragment in there.get_fragments():
            yield from (file.path for file in fragment.data_files())
            deletions = fragment.deletion_file()
            if deletions is not None:
                yield deletions.rpartition("/")[2]
        revision = f"{MAIN}@{number}" if branch == MAIN else f"branch:{branch}@{number}"
        manifest = store.manifest(revision)
        yield from (index.identity for index in manifest.indices)
        yield manifest.transaction_file


def _is_needed(path: str, needed: set[str], branches: list[str]) -> bool:
    parts = path.split("/")
    if parts[0] == layout.REFS:
        return not path.startswith(layout.SCRATCH_PREFIX)
    if parts[0] == layout.TREE and layout.owner(path, branches) is None:
        return False
    if layout.INDICES in parts:
        return parts[-2] in needed
    return layout.VERSIONS in parts or parts[-1] in needed


def _write_through(dataset: Dataset, *values: int) -> None:
    target = RefStore(dataset).write_target("b")
    there = place(dataset, "b").open()
    written = [
        fragment
        for value in values
        for fragment in write_fragments(
            pa.table({"n": pa.array([value], pa.int64())}),
            target.uri,
            schema=there.schema,
            mode="append",
            storage_options=dict(dataset.storage_options) or None,
        )
    ]
    for file in (file for fragment in written for file in fragment.files):
        file.base_id = target.base_id
    lance.LanceDataset.commit(
        there.uri,
        lance.LanceOperation.Append(written),
        read_version=there.version,
        storage_options=dict(dataset.storage_options) or None,
    )
