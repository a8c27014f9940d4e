"""Calls, what stands before each, and what must be so whenever it died or succeeded."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider_lancerefs.refstore import (
    Branch,
    BranchState,
    RefStore,
    Tag,
    cloning,
    layout,
    refs,
    versions,
)
from airflow_provider_lancerefs.refstore.dataset import Dataset
from tests.refstore.crashing.calls import elsewhere
from tests.refstore.crashing.everywhere import Check
from tests.refstore.publishing.calls import NO_TIME
from tests.tables import Place

KEPT = [2, 3, 20]


@dataclass(frozen=True)
class Scenario:
    """A call, what stands before it, and what must be so whenever it has succeeded.

    `halfway` must be so wherever it died. `branches` and `tags` are the names it makes or frees,
    `changed` the refs it rewrites; whatever else stands must stay as it is.
    """

    call: str
    prepare: Check
    done: Check
    halfway: Check = lambda dataset: None
    branches: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


def place(dataset: Dataset) -> Place:
    return Place(dataset.uri, dict(dataset.storage_options))


def nothing(dataset: Dataset) -> None:
    """Nothing but what every scenario starts with."""


def seed(dataset: Dataset) -> None:
    """Three versions of main, a written branch, and a tag on each."""
    table, store = place(dataset), RefStore(dataset)
    table.create([1, 2]).append(3).append(4)
    store.create_branch("kept", "main@2")
    branch = table.branch("kept").append(20)
    branch.delete("n = 1")
    store.create_tag("kept-main", "main@1")
    store.create_tag("kept-branch", "branch:kept@3")


def written(dataset: Dataset, name: str, *values: int, source: str = "main") -> Branch:
    """A branch with data files of its own, and a deletion file."""
    branch = RefStore(dataset).create_branch(name, source)
    place(dataset).branch(name).append(*values).delete("n = 2")
    return branch


def old_branch(dataset: Dataset) -> None:
    written(dataset, "old", 50)


def nested_branches(dataset: Dataset) -> None:
    old_branch(dataset)
    written(dataset, "old/inner", 60)


def marked_branch(dataset: Dataset) -> None:
    refs.move_state(dataset.storage, written(dataset, "old", 50), BranchState.DELETING)


def tagged_branch(dataset: Dataset) -> None:
    old_branch(dataset)
    RefStore(dataset).create_tag("on-old", "branch:old")


def residue(dataset: Dataset) -> None:
    """The files of another life of a branch, whose ref somebody removed."""
    refs.remove(dataset.storage, written(dataset, "new", 666, source="main@1"))


def cleaned_residue(dataset: Dataset) -> None:
    """The same, of a life whose history was cleaned up, the version that it began with included."""
    branch = written(dataset, "new", 666, source="main@1")
    place(dataset).branch("new").open().cleanup_old_versions(
        older_than=NO_TIME, delete_unverified=True
    )
    refs.remove(dataset.storage, branch)


def configured_branch(dataset: Dataset) -> None:
    """A branch whose manifest holds a map: protobuf writes its entries in any order."""
    settings = {f"setting {number}": "on" for number in range(8)}
    place(dataset).branch("kept").open().update_config(settings)


def movable_tag(dataset: Dataset) -> None:
    RefStore(dataset).create_tag("moving", "main@1")


def old_tag(dataset: Dataset) -> None:
    RefStore(dataset).create_tag("old", "branch:kept")


def runs(dataset: Dataset) -> None:
    store = RefStore(dataset)
    written(dataset, "run/1", 70)
    store.create_branch("run/2")
    store.create_branch("run/3")
    store.create_tag("release", "branch:run/3")


def damage(dataset: Dataset) -> None:
    """One of everything that a repair mends."""
    store, storage = RefStore(dataset), dataset.storage
    store.create_branch("headless")
    sourceless = store.create_branch("sourceless")
    storage.delete_many(
        [*storage.list("tree/headless/"), *storage.list(f"tree/{sourceless.name}/")]
    )
    refs.update(storage, sourceless, parent_version=99)
    refs.move_state(storage, written(dataset, "going", 80), BranchState.REMOVING)
    refs.remove(storage, written(dataset, "ghost", 81))
    refs.create(storage, Tag("dangling", "main", 99, 0))
    storage.put_new("tree/kept/data/forgotten.lance", b"x")
    storage.put_new(f"{layout.SCRATCH_PREFIX}dead", b"half")


def made(parent: str, version: int, rows: list[int]) -> Check:
    def is_made(dataset: Dataset) -> None:
        branch = RefStore(dataset).branch("new")
        assert (branch.parent, branch.parent_version) == (parent, version)
        assert branch.state is BranchState.OPEN
        table = place(dataset).branch("new")
        assert table.values() == rows
        assert table.append(99).values() == [*rows, 99]

    return is_made


def no_wrong_head(rows: list[int]) -> Check:
    def has_none(dataset: Dataset) -> None:
        """Whoever can open the branch sees what was forked."""
        head = versions.find_head(dataset.storage, "new")
        assert head is None or place(dataset).branch("new").values() == rows

    return has_none


def gone(*names: str) -> Check:
    def are_gone(dataset: Dataset) -> None:
        assert not {*names} & {*RefStore(dataset).branch_names()}
        assert not {*names} & {layout.owner(path, names) for path in tree(dataset)}

    return are_gone


def ref_goes_last(dataset: Dataset) -> None:
    if "old" not in RefStore(dataset).branch_names():
        gone("old")(dataset)


def stands(name: str, rows: list[int]) -> Check:
    def is_standing(dataset: Dataset) -> None:
        assert place(dataset).branch(name).values() == rows

    return is_standing


def open_again(name: str, rows: list[int]) -> Check:
    def is_open(dataset: Dataset) -> None:
        assert RefStore(dataset).branch(name).state is BranchState.OPEN
        stands(name, rows)(dataset)

    return is_open


def tagged(name: str, target: str, rows: list[int]) -> Check:
    def is_tagged(dataset: Dataset) -> None:
        assert str(RefStore(dataset).tag(name).target) == target
        assert tag_rows(dataset, name) == rows

    return is_tagged


def old_or_new_target(dataset: Dataset) -> None:
    assert tag_rows(dataset, "moving") in ([1, 2], KEPT)


def tag_gone(dataset: Dataset) -> None:
    assert "old" not in RefStore(dataset).tag_names()


def metadata_set(dataset: Dataset) -> None:
    store = RefStore(dataset)
    assert store.branch("kept").metadata["colour"] == "red"
    assert store.tag("kept-main").metadata["colour"] == "red"


def stands_elsewhere(version: int) -> Check:
    def is_standing(dataset: Dataset) -> None:
        """The copy reads, and the version that it shares files with is pinned."""
        copy = Place(elsewhere(dataset), dict(dataset.storage_options))
        assert copy.values() == KEPT
        pin = RefStore(dataset).tag(cloning.pin_name(copy.uri))
        assert (str(pin.target), pin.protected) == (f"branch:kept@{version}", True)

    return is_standing


def expired(dataset: Dataset) -> None:
    gone("run/1", "run/2")(dataset)
    open_again("run/3", [1, 2, 3, 4])(dataset)


def mended(dataset: Dataset) -> None:
    gone("sourceless", "going", "ghost")(dataset)
    open_again("headless", [1, 2, 3, 4])(dataset)
    assert "dangling" not in RefStore(dataset).tag_names()
    assert dataset.storage.list("tree/kept/data/forgotten.lance") == []


CREATE_FROM_MAIN = Scenario(
    "create from main",
    nothing,
    made("main", 3, [1, 2, 3, 4]),
    no_wrong_head([1, 2, 3, 4]),
    branches=("new",),
)
CREATE_FROM_BRANCH = Scenario(
    "create from branch", nothing, made("kept", 4, KEPT), no_wrong_head(KEPT), branches=("new",)
)
DELETE = Scenario("delete", old_branch, gone("old"), ref_goes_last, branches=("old",))
TAG_BRANCH = Scenario("tag branch", nothing, tagged("new", "branch:kept@4", KEPT), tags=("new",))
MOVE_TAG = Scenario(
    "move tag",
    movable_tag,
    tagged("moving", "branch:kept@4", KEPT),
    old_or_new_target,
    tags=("moving",),
)
CLONE = Scenario("clone", nothing, stands_elsewhere(4))
RELOCATE = Scenario("relocate", configured_branch, stands_elsewhere(5))

ON_DISK = {
    "create from main": CREATE_FROM_MAIN,
    "create from branch": CREATE_FROM_BRANCH,
    "create from tag": Scenario(
        "create from tag", nothing, made("kept", 3, [1, 2, 3, 20]), branches=("new",)
    ),
    "create over residue": Scenario(
        "create over residue", residue, made("main", 2, [1, 2, 3]), branches=("new",)
    ),
    "create over cleaned residue": Scenario(
        "create over residue", cleaned_residue, made("main", 2, [1, 2, 3]), branches=("new",)
    ),
    "delete": DELETE,
    "delete around a nested branch": replace(DELETE, prepare=nested_branches),
    "delete a marked branch": replace(DELETE, prepare=marked_branch),
    "delete refused": Scenario(
        "delete refused",
        tagged_branch,
        open_again("old", [1, 3, 4, 50]),
        stands("old", [1, 3, 4, 50]),
        changed=("old",),
    ),
    "tag main": Scenario("tag main", nothing, tagged("new", "main@2", [1, 2, 3]), tags=("new",)),
    "tag branch": TAG_BRANCH,
    "move tag": MOVE_TAG,
    "delete tag": Scenario("delete tag", old_tag, tag_gone, tags=("old",)),
    "set metadata": Scenario("set metadata", nothing, metadata_set, changed=("kept", "kept-main")),
    "clone": CLONE,
    "relocate": RELOCATE,
    "expire": Scenario(
        "expire",
        runs,
        expired,
        stands("run/3", [1, 2, 3, 4]),
        branches=("run/1", "run/2"),
        changed=("run/3",),
    ),
    "repair": Scenario(
        "repair",
        damage,
        mended,
        branches=("headless", "sourceless", "going", "ghost"),
        tags=("dangling",),
    ),
}
ON_S3 = {
    scenario.call: scenario
    for scenario in (
        CREATE_FROM_MAIN,
        CREATE_FROM_BRANCH,
        DELETE,
        TAG_BRANCH,
        MOVE_TAG,
        CLONE,
        RELOCATE,
    )
}

# Those that between them do everything to a file that the others do.
HALF_WAY = (
    "create from main",
    "create over residue",
    "delete",
    "delete refused",
    "delete tag",
    "set metadata",
    "clone",
    "relocate",
    "repair",
)


def tag_rows(dataset: Dataset, tag: str) -> list[int]:
    checked_out = place(dataset).open().checkout_version(tag)
    return sorted(checked_out.to_table().column("n").to_pylist())


def tree(dataset: Dataset) -> list[str]:
    return [entry.path for entry in dataset.storage.list(f"{layout.TREE}/")]
