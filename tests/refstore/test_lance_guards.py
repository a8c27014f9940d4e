"""What pylance does on disk and on S3, pinned: a release that changes one of these turns red."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import lance
import pyarrow as pa
import pytest
import s3fs
from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet
from google.protobuf.wrappers_pb2 import UInt64Value
from lance import LanceDataset, LanceOperation
from lance.commit import CommitConflictError
from lance.fragment import FragmentMetadata, RowIdSequence, write_fragments

from tests.services.proxy import S3Proxy
from tests.services.seaweed import BUCKET, S3Server

SCHEMA = pa.schema([("a", pa.int64())])
TAG = {"branch": None, "version": 1, "manifestSize": 400}
OLD_BRANCH = {"parentBranch": None, "parentVersion": 1, "createAt": 17 * 10**8, "manifestSize": 400}
BRANCH = {**OLD_BRANCH, "identifier": {"version_mapping": [[1, "1" * 32]]}, "metadata": {}}
NIL_IDENTIFIER = {"version_mapping": [[0, "0" * 32]]}
SNAKE_BRANCH = {"parent_branch": None, "parent_version": 1, "create_at": 1, "manifest_size": 400}
SNAKE_TAG = {"branch": None, "version": 1, "manifest_size": 400}
READER_FLAGS, WRITER_FLAGS = b"\x48", b"\x50"
FLAG_BITS_UNDERSTOOD = {0, 1, 2, 3, 4, 5, 7, 8, 10, 11, 14, 15}
BAD_NAMES = ["", ".", "a..b", "a b", "a+b", "a%2Fb", "a/", "a//b", "🙂", "a.lock"]


@pytest.fixture
def parent(tmp_path: Path) -> LanceDataset:
    write(str(tmp_path / "table"), 0, 1, 2, mode="create")
    return write(str(tmp_path / "table"), 3, 4, 5)


def table(*values: int) -> pa.Table:
    return pa.table({"a": values}, schema=SCHEMA)


def write(where: str, *values: int, mode: str = "append", **options: Any) -> LanceDataset:
    return lance.write_dataset(table(*values), where, mode=mode, **options)


def rows(where: str) -> list[int]:
    return sorted(lance.dataset(where).to_table()["a"].to_pylist())


def fragments(where: str) -> list[FragmentMetadata]:
    return [fragment.metadata for fragment in lance.dataset(where).get_fragments()]


def versions(where: str) -> list[int]:
    return [one["version"] for one in lance.dataset(where).versions()]


def sweep(where: str) -> None:
    lance.dataset(where).cleanup_old_versions(
        older_than=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )


def overwrite_and_sweep(where: str, *values: int) -> None:
    for value in values:
        write(where, value, mode="overwrite")
    sweep(where)


def files(*folder: str | Path) -> set[str]:
    root = Path(*folder)
    return {str(one.relative_to(root)) for one in root.rglob("*") if one.is_file()}


def ref_file(dataset: LanceDataset, kind: str, name: str) -> Path:
    return Path(dataset.uri, "_refs", kind, f"{quote(name, safe='')}.json")


def read_ref(dataset: LanceDataset, kind: str, name: str) -> Any:
    return json.loads(ref_file(dataset, kind, name).read_text())


def put_ref(dataset: LanceDataset, kind: str, name: str, body: object) -> None:
    path = ref_file(dataset, kind, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body))


def clone(root: str, name: str, version: int, **options: Any) -> LanceDataset:
    operation = LanceOperation.Clone(True, None, version, root, name)
    return LanceDataset.commit(f"{root}/tree/{name}", operation, read_version=version, **options)


def manifest_file(where: str | Path) -> Path:
    return min(Path(where, "_versions").glob("*.manifest"))


def sized(data: bytes, position: int) -> bytes:
    (size,) = struct.unpack_from("<I", data, position)
    return data[position + 4 : position + 4 + size]


def message_position(data: bytes) -> int:
    return int(struct.unpack_from("<q", data, len(data) - 16)[0])


def manifest(where: str | Path) -> dict[int, list[Any]]:
    data = manifest_file(where).read_bytes()
    return message(sized(data, message_position(data)))


def edit_manifest(path: Path, change: Callable[[bytes], bytes]) -> None:
    data = path.read_bytes()
    position = message_position(data)
    body = change(sized(data, position))
    path.write_bytes(data[:position] + struct.pack("<I", len(body)) + body + data[-16:])


def message(data: bytes) -> dict[int, list[Any]]:
    fields: dict[int, list[Any]] = {}
    for field in UnknownFieldSet(Empty.FromString(data)):
        fields.setdefault(field.field_number, []).append(field.data)
    return fields


def new_fragments(root: str, *values: int, base_id: int | None = None) -> list[FragmentMetadata]:
    return rebased(write_fragments(table(*values), root, mode="append", schema=SCHEMA), base_id)


def rebased(found: list[FragmentMetadata], base_id: int | None) -> list[FragmentMetadata]:
    for file in (file for fragment in found for file in fragment.files):
        file.base_id = base_id
    return found


def branch_in_root(parent: LanceDataset, *values: int) -> LanceDataset:
    """A branch b whose new rows are in data files of the dataset root."""
    branch = parent.create_branch("b")
    [base_id] = [key for key, base in branch.base_paths().items() if base.path == parent.uri]
    operation = LanceOperation.Append(new_fragments(parent.uri, *values, base_id=base_id))
    return LanceDataset.commit(branch.uri, operation, read_version=branch.version)


def update(
    root: str, read_version: int, added: list[FragmentMetadata], *updated: FragmentMetadata
) -> LanceDataset:
    operation = LanceOperation.Update(new_fragments=added, updated_fragments=list(updated))
    return LanceDataset.commit(root, operation, read_version=read_version)


def test_ref_files_are_camel_case(parent: LanceDataset) -> None:
    """pylance writes camelCase keys, its times as below, and the size of the source's manifest."""
    parent.create_branch("b")
    parent.tags.create("t", 2)
    branch, tag = read_ref(parent, "branches", "b"), read_ref(parent, "tags", "t")
    size = manifest_file(parent.uri).stat().st_size
    [[version, life]] = branch.pop("identifier")["version_mapping"]
    assert version == 2
    assert re.fullmatch("[0-9a-f]{32}", life)
    assert isinstance(branch.pop("createAt"), int)
    assert branch == {
        "parentBranch": None,
        "parentVersion": 2,
        "manifestSize": size,
        "metadata": {},
    }
    updated = tag.pop("updatedAt")
    assert tag.pop("createdAt") == updated
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", updated)
    assert tag == {"branch": None, "version": 2, "manifestSize": size, "metadata": {}}


def test_children_are_found_by_identifier(parent: LanceDataset) -> None:
    """A child is known by an identifier that is its parent's plus one (version, life) pair."""
    write(parent.create_branch("p").uri, 7)
    parent.create_branch("c", ("p", None))
    outer, inner = (read_ref(parent, "branches", name) for name in "pc")
    lives = inner["identifier"]["version_mapping"]
    assert lives[:-1] == outer["identifier"]["version_mapping"]
    assert lives[-1][0] == inner["parentVersion"] == 3
    with pytest.raises(OSError, match="Branch p is referenced by"):
        parent.branches.delete("p")
    put_ref(parent, "branches", "c", {**inner, "identifier": {"version_mapping": lives[1:]}})
    parent.branches.delete("p")


@pytest.mark.parametrize(
    ("name", "changes", "life"),
    [
        ("old", {}, "a04512096bed5ee91b674366368a0130"),
        ("old", {"identifier": NIL_IDENTIFIER}, "a04512096bed5ee91b674366368a0130"),
        ("old", {"manifestSize": 1, "metadata": {"k": "v"}}, "a04512096bed5ee91b674366368a0130"),
        ("other", {}, "0930a031e3e544087f803214bbc250a5"),
        ("old", {"parentBranch": "x"}, "3678bb87430b63537d32bef724fba7d8"),
        ("old", {"parentVersion": 2}, "d348cd7aed822fb6ad872d58b4c2c61f"),
        ("old", {"createAt": 1_700_000_001}, "a04511096bed5d361b674466368a02e3"),
    ],
)
def test_synthetic_identifier(
    parent: LanceDataset, name: str, changes: dict[str, Any], life: str
) -> None:
    """A branch file without identifier gets version 0 and a hash of name, parent and time."""
    put_ref(parent, "branches", name, {**OLD_BRANCH, **changes})
    assert parent.branches.list()[name]["branch_identifier"] == [(0, life)]


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("branches", SNAKE_BRANCH, "missing field `parentVersion`"),
        ("tags", SNAKE_TAG, "missing field `manifestSize`"),
        ("branches", {**BRANCH, "metadata": {"k": 1}}, "expected a string"),
        ("tags", {**TAG, "metadata": {"k": 1}}, "expected a string"),
    ],
)
def test_bodies_refused(parent: LanceDataset, kind: str, body: object, text: str) -> None:
    """Snake_case keys and metadata that is not all strings make listing raise."""
    put_ref(parent, kind, "r", body)
    with pytest.raises(RuntimeError, match=text):
        getattr(parent, kind).list()


@pytest.mark.parametrize(("kind", "least"), [("branches", OLD_BRANCH), ("tags", TAG)])
def test_unknown_keys_are_dropped(parent: LanceDataset, kind: str, least: dict[str, Any]) -> None:
    """pylance reads past unknown keys, and replace_metadata drops them with the old metadata."""
    put_ref(parent, kind, "r", {**least, "unknown": 1, "metadata": {"old": "1"}})
    refs = getattr(parent, kind)
    assert refs.list()["r"]["metadata"] == {"old": "1"}
    refs.replace_metadata("r", {"new": "2"})
    assert "unknown" not in read_ref(parent, kind, "r")
    assert read_ref(parent, kind, "r")["metadata"] == {"new": "2"}


@pytest.mark.parametrize(("name", "text"), [("broken", "expected struct"), ("é", "%25C3%25A9")])
def test_one_unlistable_tag(parent: LanceDataset, name: str, text: str) -> None:
    """One unparsable or non-ASCII tag stops listing tags, deleting any branch, and cleanup."""
    parent.create_branch("b")
    parent.tags.create(name, 2)
    assert parent.tags.get_version(name) == 2
    if name == "broken":
        put_ref(parent, "tags", name, "not an object")
    for call in (parent.tags.list, lambda: parent.branches.delete("b"), lambda: sweep(parent.uri)):
        with pytest.raises((RuntimeError, ValueError, OSError), match=text):
            call()


def test_stray_files_under_refs_disturb_nothing(parent: LanceDataset) -> None:
    """Files of our own in _refs, and files beside the refs not named .json, disturb no call."""
    parent.create_branch("b")
    parent.tags.create("t", 1)
    strays = {".lancerefs.lock", "lancerefs.probe", "branches/x.tmp", "tags/x.tmp"}
    for stray in strays:
        Path(parent.uri, "_refs", stray).write_text("x")
    parent.create_branch("c")
    assert (set(parent.branches.list()), set(parent.tags.list())) == ({"b", "c"}, {"t"})
    parent.branches.delete("c")
    parent.tags.delete("t")
    sweep(parent.uri)
    assert rows(parent.uri) == [0, 1, 2, 3, 4, 5]
    assert files(parent.uri, "_refs") == {"branches/b.json", *strays}


@pytest.mark.parametrize("name", ["feature/é.1", "①", "_refs", "a.lock/b", "main/x"])
def test_branch_names_accepted(parent: LanceDataset, name: str) -> None:
    """A branch's file name is percent-encoded, its folder under tree/ is the bare name."""
    assert parent.create_branch(name).uri == f"{parent.uri}/tree/{name}"
    assert ref_file(parent, "branches", name).is_file()
    assert manifest_file(f"{parent.uri}/tree/{name}").is_file()
    assert set(parent.branches.list()) == {name}


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_refused(parent: LanceDataset, name: str) -> None:
    """A segment that is only '.' passes as a branch name and fails as a path, the rest by rule."""
    with pytest.raises(OSError, match="illegal character" if name == "." else "Ref is invalid"):
        parent.create_branch(name)
    with pytest.raises(OSError, match="Ref is invalid"):
        parent.tags.create(name, 1)


def test_names_of_one_kind_only(parent: LanceDataset) -> None:
    """Only a tag may be called main, only a branch may have inner slashes or dots at its ends."""
    with pytest.raises(OSError, match="reserved for the default branch"):
        parent.create_branch("main")
    for name in ("main", "latest"):
        parent.tags.create(name, 1)
    for name in ("a/b", ".a", "a."):
        parent.create_branch(name)
        with pytest.raises(OSError, match="Ref is invalid"):
            parent.tags.create(name, 1)


ERRORS: dict[str, tuple[Callable[[LanceDataset], object], type[Exception]]] = {
    "tag t already exists": (lambda at: at.tags.create("t", 1), ValueError),
    "tag x does not exist": (lambda at: at.tags.delete("x"), ValueError),
    "version main:99 does not exist": (lambda at: at.tags.create("x", 99), ValueError),
    "Branch x does not exist": (lambda at: at.branches.delete("x"), ValueError),
    "Branch b is referenced by tags": (lambda at: at.branches.delete("b"), OSError),
    "Please file a bug report": (lambda at: at.create_branch("b"), OSError),
    "b/_versions/1.manifest was not found": (lambda at: at.create_branch("b", 1), OSError),
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors_are_told_apart_by_text(parent: LanceDataset, text: str) -> None:
    """Ref errors are bare OSError or ValueError, and a taken branch name is not called taken."""
    parent.create_branch("b")
    parent.tags.create("t", ("b", None))
    call, error = ERRORS[text]
    with pytest.raises(error, match=text) as caught:
        call(parent)
    assert type(caught.value) is error


@pytest.mark.parametrize("hint", ["", "{", '{"version":1}', '{"version":99}'])
def test_v2_manifests_sort_newest_first(parent: LanceDataset, hint: str) -> None:
    """A V2 manifest is named 2^64-1-version in 20 digits, and the version hint may be wrong."""
    folder = Path(parent.uri, "_versions")
    names = [one.name for one in sorted(folder.glob("*.manifest"))]
    assert names == [f"{2**64 - 1 - version:020d}.manifest" for version in (2, 1)]
    assert json.loads((folder / "latest_version_hint.json").read_text()) == {"version": 2}
    (folder / "latest_version_hint.json").write_text(hint)
    assert lance.dataset(parent.uri).version == 2


def test_v1_manifests(tmp_path: Path) -> None:
    """A V1 dataset forks into V2 branches unless told otherwise; migration leaves branches be."""
    dataset = write(str(tmp_path), 1, mode="create", enable_v2_manifest_paths=False)
    dataset.create_branch("b")
    clone(dataset.uri, "c", 1, enable_v2_manifest_paths=False)
    v2 = f"{2**64 - 2}.manifest"
    places = (tmp_path, tmp_path / "tree" / "b", tmp_path / "tree" / "c")
    assert [manifest_file(place).name for place in places] == ["1.manifest", v2, "1.manifest"]
    dataset.migrate_manifest_paths_v2()
    assert [manifest_file(place).name for place in places] == [v2, v2, "1.manifest"]


def test_manifest_tail_and_transaction(parent: LanceDataset) -> None:
    """The tail is position, 0.2, LANC; field 23, not 21, is where the transaction's copy is."""
    data, found = manifest_file(parent.uri).read_bytes(), manifest(parent.uri)
    position, *version, magic = struct.unpack("<qHH4s", data[-16:])
    assert (version, magic) == ([0, 2], b"LANC")
    assert position + 4 + len(sized(data, position)) + 16 == len(data)
    assert 21 not in found
    kept = Path(parent.uri, "_transactions", found[12][0].decode()).read_bytes()
    assert sized(data, found[23][0]) == kept


def test_manifest_fields(parent: LanceDataset) -> None:
    """The manifest's field numbers are those we decode."""
    parent.update_config({"c": "1"})
    parent.update_metadata({"t": "1"})
    parent.update_schema_metadata({"s": "1"})
    parent.create_scalar_index("a", "BTREE")
    branch = lance.dataset(parent.uri).create_branch("b")
    found = manifest(branch.uri)
    assert [message(one)[2] for one in found[1]] == [[b"a"]]
    assert (len(found[2]), found[3], found[11], found[20]) == (2, [branch.version], [1], [b"b"])
    assert [message(found[key][0])[1] for key in (5, 16, 19)] == [[b"s"], [b"c"], [b"t"]]
    assert message(found[7][0])[1][0] > OLD_BRANCH["createAt"]
    assert (found[9], found[10]) == ([16], [8 | 16])
    assert message(found[13][0]) == {1: [b"lance"], 2: [lance.__version__.encode()]}
    assert message(found[15][0])[1] == [b"lance"]
    assert [message(one) for one in found[18]] == [{3: [1], 4: [parent.uri.encode()]}]
    indices = message(sized(manifest_file(branch.uri).read_bytes(), found[6][0]))[1]
    assert [(message(one)[3], message(one)[9]) for one in indices] == [([b"a_idx"], [0])]


def test_fragment_fields(tmp_path: Path) -> None:
    """On a branch, field 7 of data and deletion files is the base id; dense deletions are .bin."""
    write(str(tmp_path), *range(10_000), mode="create")
    write(str(tmp_path), 10_001, 10_003).delete("a % 2 = 0 or a = 10003")
    branch = lance.dataset(tmp_path).create_branch("b")
    dense, sparse = (message(one) for one in manifest(branch.uri)[2])
    assert (sparse[1], sparse[4]) == ([1], [2])
    file, few, many = (message(one) for one in (sparse[2][0], sparse[3][0], dense[3][0]))
    size = Path(tmp_path, "data", file[1][0].decode()).stat().st_size
    assert (file[2], file[3], file[4], file[6], file[7]) == ([b"\0"], [b"\0"], [2], [size], [0])
    assert (few.get(1), few[2], few[4], few[7], many[1]) == (None, [2], [1], [0], [1])
    expected = {f"1-2-{few[3][0]}.arrow", f"0-2-{many[3][0]}.bin"}
    assert files(tmp_path, "_deletions") == expected


def set_flag(path: Path, bit: int, tags: bytes) -> None:
    flag = UInt64Value(value=1 << bit).SerializeToString()[1:]
    edit_manifest(path, lambda body: body + b"".join(bytes([tag]) + flag for tag in tags))


def test_feature_flags_understood(parent: LanceDataset) -> None:
    """pylance opens no manifest with another flag than those listed, and writes to none either."""
    path = manifest_file(parent.uri)
    before, refused = path.read_bytes(), set()
    for bit in range(64):
        set_flag(path, bit, READER_FLAGS + WRITER_FLAGS)
        try:
            lance.dataset(parent.uri)
        except ValueError as error:
            refused |= {bit} if "cannot be read by this version" in str(error) else set()
        path.write_bytes(before)
    assert set(range(64)) - refused == FLAG_BITS_UNDERSTOOD
    set_flag(path, 40, WRITER_FLAGS)
    with pytest.raises(OSError, match="cannot be written by this version"):
        write(parent.uri, 9)
    assert rows(parent.uri) == [0, 1, 2, 3, 4, 5]


def test_a_branch_path_is_a_dataset_of_its_own(parent: LanceDataset) -> None:
    """Every kind of write at tree/<name> lands on that branch and touches nothing of the root."""
    uri = parent.create_branch("b").uri
    before = {one for one in files(parent.uri) if not one.startswith("tree/")}
    write(uri, 9)
    lance.dataset(uri).merge_insert("a").when_not_matched_insert_all().execute(table(9, 10))
    lance.dataset(uri).delete("a = 0")
    lance.dataset(uri).optimize.compact_files()
    assert rows(uri) == [1, 2, 3, 4, 5, 9, 10]
    latest = write(uri, 1, mode="overwrite").version
    assert parent.checkout_version(("b", None)).version == latest
    assert {one for one in files(parent.uri) if not one.startswith("tree/")} == before


def test_create_branch_writes_the_head_before_the_ref(parent: LanceDataset) -> None:
    """create_branch forks its handle's version, and leaves that head where it meets a ref."""
    write(parent.uri, 9)
    assert parent.create_branch("a").version == 2
    put_ref(parent, "branches", "b", BRANCH)
    with pytest.raises(OSError, match="branch b already exists"):
        parent.create_branch("b")
    assert versions(f"{parent.uri}/tree/b") == [2]


def test_a_head_without_a_ref_bricks_the_name(parent: LanceDataset) -> None:
    """A head without a ref can be neither made nor deleted, and keeps no version alive."""
    clone(parent.uri, "b", 1)
    with pytest.raises(OSError, match="Please file a bug report"):
        parent.create_branch("b", 1)
    with pytest.raises(ValueError, match="Branch b does not exist"):
        parent.branches.delete("b")
    sweep(parent.uri)
    assert versions(parent.uri) == [2]


def test_a_ref_without_a_head_harms_nothing(parent: LanceDataset) -> None:
    """A ref without a head stands in no one's way, deletes, and keeps no version alive."""
    put_ref(parent, "branches", "b", BRANCH)
    parent.create_branch("c")
    assert set(parent.branches.list()) == {"b", "c"}
    parent.branches.delete("c")
    sweep(parent.uri)
    assert versions(parent.uri) == [2]
    parent.branches.delete("b")
    assert parent.branches.list() == {}


def test_ref_first_then_clone_makes_a_whole_branch(parent: LanceDataset) -> None:
    """A ref file and then a committed Clone are a branch that opens, is kept alive, and deletes."""
    put_ref(parent, "branches", "b", BRANCH)
    assert clone(parent.uri, "b", 1).version == 1
    sweep(parent.uri)
    assert versions(parent.uri) == [1, 2]
    assert parent.checkout_version(("b", None)).count_rows() == 3
    parent.branches.delete("b")
    assert not Path(parent.uri, "tree", "b").exists()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_clone_refuses_an_existing_head(parent: LanceDataset, version: int) -> None:
    """Committing a Clone where any manifest stands raises OSError and leaves the head alone."""
    write(parent.uri, 9)
    clone(parent.uri, "b", 2)
    with pytest.raises(OSError, match=r"should not enter|was not found"):
        clone(parent.uri, "b", version)
    assert versions(f"{parent.uri}/tree/b") == [2]


def test_clone_reads_its_source_at_ref_path(parent: LanceDataset) -> None:
    """A Clone takes version ref_version at ref_path; ref_name and read_version do not choose it."""
    root, source = parent.uri, write(parent.create_branch("p").uri, 77).uri
    wrong = LanceOperation.Clone(True, "p", 3, root, "wrong")
    with pytest.raises(OSError, match="was not found"):
        LanceDataset.commit(f"{root}/tree/wrong", wrong, read_version=3)
    write(root, 88)
    assert rows(LanceDataset.commit(f"{root}/tree/wrong", wrong, read_version=1).uri)[-1] == 88
    right = LanceOperation.Clone(True, "p", 3, source, "right")
    assert rows(LanceDataset.commit(f"{root}/tree/right", right, read_version=3).uri)[-1] == 77
    with pytest.raises(ValueError, match="read_version is required"):
        LanceDataset.commit(f"{root}/tree/other", right)


def test_a_branch_of_a_branch_has_two_bases(parent: LanceDataset) -> None:
    """create_branch from a branch records the branch's folder as source and as second base."""
    source = write(parent.create_branch("p").uri, 77).uri
    child = parent.create_branch("c", ("p", None))
    expected = LanceOperation.Clone(True, "p", 3, source, "c")
    assert child.read_transaction(3).operation == expected
    bases = {key: (base.path, base.name) for key, base in child.base_paths().items()}
    assert bases == {0: (parent.uri, None), 1: (source, "p")}
    assert [one.files[0].base_id for one in fragments(child.uri)] == [0, 0, 1]


def test_deleting_the_outer_of_two_nested_names(parent: LanceDataset) -> None:
    """Deleting a while a/b lives leaves a's head behind, and a cannot be made again."""
    parent.create_branch("a")
    parent.create_branch("a/b")
    parent.branches.delete("a")
    assert versions(f"{parent.uri}/tree/a") == versions(f"{parent.uri}/tree/a/b") == [2]
    with pytest.raises(OSError, match="Please file a bug report"):
        parent.create_branch("a")


def test_deleting_a_branch_deletes_what_else_is_there(parent: LanceDataset) -> None:
    """Deleting branch a/data deletes a's data; deleting c/d takes heads in tree/c without a ref."""
    outer = write(parent.create_branch("a").uri, 9)
    parent.create_branch("a/data")
    parent.create_branch("c/d")
    clone(parent.uri, "c/e", 2)
    parent.branches.delete("a/data")
    parent.branches.delete("c/d")
    assert files(outer.uri, "data") == files(parent.uri, "tree", "c") == set()


@pytest.mark.parametrize("recreated", [False, True])
def test_a_late_write(parent: LanceDataset, recreated: bool) -> None:
    """A write to a deleted branch makes a tree without a ref, or lands in the name's next life."""
    late = parent.create_branch("b")
    parent.branches.delete("b")
    if recreated:
        parent.create_branch("b")
    late.insert(table(9))
    assert versions(late.uri) == ([2, 3] if recreated else [3])
    assert set(parent.branches.list()) == ({"b"} if recreated else set())


@pytest.mark.parametrize("identified", [True, False])
def test_cleanup_keeps_the_fork_version_only(parent: LanceDataset, identified: bool) -> None:
    """Cleanup keeps the version whose files an identified branch uses, and no later one."""
    branch = parent.create_branch("b")
    if not identified:
        body = read_ref(parent, "branches", "b")
        put_ref(parent, "branches", "b", {key: body[key] for key in OLD_BRANCH})
    overwrite_and_sweep(parent.uri, 7, 8)
    assert versions(parent.uri) == ([2, 4] if identified else [4])
    overwrite_and_sweep(branch.uri, 9)
    sweep(parent.uri)
    assert versions(parent.uri) == [4]


def test_cleanup_of_a_branch_keeps_the_fork_version_of_its_child(parent: LanceDataset) -> None:
    """A child branch keeps its fork version in the parent branch alive."""
    uri = write(parent.create_branch("b").uri, 6).uri
    child = parent.create_branch("c", ("b", None))
    overwrite_and_sweep(uri, 7, 8)
    assert versions(uri) == [3, 5]
    assert rows(child.uri) == [0, 1, 2, 3, 4, 5, 6]


def test_one_handle_is_not_for_two_threads(parent: LanceDataset) -> None:
    """A handle used while it is being changed raises "Already borrowed"."""
    caught: list[BaseException | None] = []

    def column() -> Iterator[pa.RecordBatch]:
        with ThreadPoolExecutor() as pool:
            caught.append(pool.submit(parent.tags.create, "t", 1).exception())
        yield pa.record_batch({"b": range(6)})

    schema = pa.schema([("b", pa.int64())])
    parent.add_columns(pa.RecordBatchReader.from_batches(schema, column()))
    assert [str(error) for error in caught] == ["Already borrowed"]


def test_a_moved_branch_works_but_has_no_refs(parent: LanceDataset) -> None:
    """A branch copied to a root path reads and appends; refs and cleanup need field 20 cut out."""
    branch = write(parent.create_branch("moved").uri, 77)
    uri = str(shutil.copytree(branch.uri, f"{parent.uri}-elsewhere"))
    assert write(uri, 78).version == 4
    assert rows(uri) == [0, 1, 2, 3, 4, 5, 77, 78]
    assert manifest(uri)[20] == [b"moved"]
    at, before = lance.dataset(uri), files(uri)
    for call in (
        at.tags.list,
        at.branches.list,
        lambda: at.tags.create("t"),
        lambda: at.tags.create("t", 4),
        lambda: at.create_branch("n"),
        lambda: at.checkout_version(("main", None)),
        lambda: sweep(uri),
    ):
        with pytest.raises((OSError, ValueError), match="Can not find the root location of branch"):
            call()
    assert files(uri) == before
    for path in Path(uri, "_versions").glob("*.manifest"):
        edit_manifest(path, lambda body: body.replace(b"\xa2\x01\x05moved", b""))
    lance.dataset(uri).tags.create("t", 2)
    assert lance.dataset(uri).create_branch("n").count_rows() == 8
    sweep(uri)


def test_clones_of_a_branch_have_no_branch_field(parent: LanceDataset) -> None:
    """shallow_clone and deep_clone of a branch make datasets that take tags."""
    branch = parent.create_branch("b")
    for make in (branch.shallow_clone, branch.deep_clone):
        made = make(f"{parent.uri}-{make.__name__}", 2)
        assert 20 not in manifest(made.uri)
        made.tags.create("t")


def test_memory_does_not_outlive_a_handle() -> None:
    """A memory:// dataset is gone for the next open, a shared-memory:// one can be branched."""
    private, shared = (f"{scheme}://{uuid4().hex}/t" for scheme in ("memory", "shared-memory"))
    write(private, 1, mode="create")
    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(private)
    write(shared, 1, mode="create")
    clone(shared, "b", 1)
    assert rows(f"{shared}/tree/b") == [1]


@pytest.mark.parametrize("published", [True, False])
def test_root_files_of_a_branch(parent: LanceDataset, published: bool) -> None:
    """A branch keeps its files in the root alive, and after it an Update without base id does."""
    branch, before = branch_in_root(parent, 100), files(parent.uri, "data")
    assert fragments(branch.uri)[-1].files[0].base_id == 0
    sweep(parent.uri)
    assert (rows(branch.uri)[-1], files(branch.uri, "data")) == (100, set())
    if published:
        update(parent.uri, 2, rebased(fragments(branch.uri)[2:], None))
    parent.branches.delete("b")
    sweep(parent.uri)
    assert (files(parent.uri, "data") == before, 100 in rows(parent.uri)) == (published, published)


@pytest.mark.parametrize(("given", "kept"), [(0, 3), (3, 3), (50, 50)])
def test_explicit_fragment_ids(parent: LanceDataset, given: int, kept: int) -> None:
    """A new fragment keeps the id it carries, id 0 takes the next, and one in use is refused."""
    write(parent.uri, 9)
    [fragment] = new_fragments(parent.uri, 100)
    with pytest.raises(OSError, match="would produce two fragments with id 2"):
        update(parent.uri, 2, [replace(fragment, id=2)])
    update(parent.uri, 2, [replace(fragment, id=given)])
    write(parent.uri, 101)
    assert [one.id for one in fragments(parent.uri)] == [0, 1, 2, kept, kept + 1]


PARENT_DOES: dict[str, Callable[[str], object]] = {
    "append": lambda root: write(root, 9),
    "delete elsewhere": lambda root: lance.dataset(root).delete("a = 4"),
    "index": lambda root: lance.dataset(root).create_scalar_index("a", "BTREE"),
    "config": lambda root: lance.dataset(root).update_config({"k": "v"}),
    "delete": lambda root: lance.dataset(root).delete("a = 1"),
    "compact": lambda root: lance.dataset(root).optimize.compact_files(),
    "add column": lambda root: lance.dataset(root).add_columns({"b": "a + 1"}),
    "overwrite": lambda root: write(root, 9, mode="overwrite"),
    "restore": lambda root: lance.dataset(root, version=1).restore(),
}
CONFLICTS = {
    "adding": {"add column", "overwrite", "restore"},
    "deleting": {"add column", "overwrite", "restore", "delete", "compact"},
}


def update_from_fork(parent: LanceDataset, kind: str) -> list[int]:
    if kind == "adding":
        update(parent.uri, 2, new_fragments(parent.uri, 100))
    else:
        update(parent.uri, 2, [], parent.get_fragments()[0].delete("a = 0"))
    return rows(parent.uri)


@pytest.mark.parametrize("change", PARENT_DOES)
@pytest.mark.parametrize("kind", CONFLICTS)
def test_update_conflicts(parent: LanceDataset, change: str, kind: str) -> None:
    """An Update is held against every commit since its read_version, and these are conflicts."""
    PARENT_DOES[change](parent.uri)
    if change in CONFLICTS[kind]:
        with pytest.raises(CommitConflictError):
            update_from_fork(parent, kind)
    else:
        found = update_from_fork(parent, kind)
        assert (0 in found, 100 in found) == ((True, True) if kind == "adding" else (False, False))


@pytest.mark.parametrize(
    ("change", "kind", "outcome"),
    [
        ("delete", "deleting", [1, 2, 3, 4, 5, 8]),
        ("compact", "deleting", [0, 1, 2, 3, 4, 5, 8]),
        ("overwrite", "adding", [8, 9, 100]),
    ],
)
def test_cleaned_history_loses_changes_silently(
    parent: LanceDataset, change: str, kind: str, outcome: list[int]
) -> None:
    """Where cleanup took the versions since read_version, conflicts land and lose changes."""
    parent.create_branch("b")
    PARENT_DOES[change](parent.uri)
    write(parent.uri, 8)
    sweep(parent.uri)
    assert versions(parent.uri)[0] == 2
    assert update_from_fork(parent, kind) == outcome


@pytest.mark.parametrize("chosen", [0, 7])
def test_a_deletion_file_is_named_after_its_fragment(parent: LanceDataset, chosen: int) -> None:
    """A new fragment with deletions reads only under the explicit id its deletion file names."""
    branch = branch_in_root(parent, 100, 101)
    branch.delete("a = 100")
    write(parent.uri, 9)
    [fragment] = rebased(fragments(branch.uri)[2:], None)
    deletion = fragment.deletion_file
    assert deletion
    target = Path(parent.uri, deletion.path(chosen or fragment.id))
    assert target.name == f"{chosen or 2}-{deletion.read_version}-{deletion.id}.arrow"
    target.parent.mkdir()
    shutil.copy(Path(branch.uri, deletion.path(fragment.id)), target)
    update(parent.uri, 2, [replace(fragment, id=chosen)])
    if chosen:
        assert rows(parent.uri) == [0, 1, 2, 3, 4, 5, 9, 101]
    else:
        with pytest.raises(ValueError, match=f"Not found.*_deletions/3-{deletion.read_version}"):
            rows(parent.uri)


@pytest.mark.parametrize(("carried", "row_id"), [(None, 3), (1, 1)])
def test_row_ids_of_rewritten_rows(tmp_path: Path, carried: int | None, row_id: int) -> None:
    """With stable row ids, a rewritten row keeps its id only if row_id_meta hands it on."""
    dataset = write(str(tmp_path), 1, 2, 3, mode="create", enable_stable_row_ids=True)
    assert (manifest(tmp_path)[9], manifest(tmp_path)[14]) == ([2], [3])
    assert {5, 7, 9} <= set(message(manifest(tmp_path)[2][0]))
    [fragment] = new_fragments(dataset.uri, 20)
    if carried is not None:
        fragment.row_id_meta = RowIdSequence([carried]).to_inline_metadata()
    made = update(dataset.uri, 1, [fragment], dataset.get_fragments()[0].delete("a = 2"))
    assert made.to_table(with_row_id=True)["_rowid"].to_pylist() == [0, 2, row_id]
    meta = fragments(dataset.uri)[-1].row_id_meta
    assert RowIdSequence.from_inline_metadata(meta).to_pyarrow().to_pylist() == [row_id]


def test_transaction_properties_are_readable(parent: LanceDataset) -> None:
    """The properties of a transaction committed by hand are read back by version."""
    operation = LanceOperation.Update(new_fragments=new_fragments(parent.uri, 100))
    transaction = lance.Transaction(2, operation, transaction_properties={"lancerefs": "b@7"})
    write(LanceDataset.commit(parent.uri, transaction).uri, 9)
    found = lance.dataset(parent.uri).read_transaction(3)
    assert found.transaction_properties == {"lancerefs": "b@7"}


def test_target_bases_breaks_a_branch(parent: LanceDataset) -> None:
    """write_dataset with target_bases on a branch writes to the root and records no base id."""
    branch = write(parent.create_branch("b").uri, 9, target_bases=[parent.uri])
    assert fragments(branch.uri)[-1].files[0].base_id is None
    with pytest.raises(ValueError, match="Not found"):
        rows(branch.uri)


def test_indices_are_forked_but_not_published(parent: LanceDataset) -> None:
    """A fork has the parent's indices; one made on the branch does not come with an Update."""
    parent.create_scalar_index("a", "BTREE", name="old")
    branch = branch_in_root(lance.dataset(parent.uri), 100)
    branch.create_scalar_index("a", "BITMAP", name="new")
    assert {one.name for one in branch.describe_indices()} == {"old", "new"}
    made = update(parent.uri, 3, rebased(fragments(branch.uri)[2:], None))
    assert {one.name for one in made.describe_indices()} == {"old"}


def test_a_tag_keeps_the_files_of_a_clone_elsewhere(parent: LanceDataset) -> None:
    """A shallow clone elsewhere reads while a tag holds its source version, and breaks without."""
    elsewhere = parent.shallow_clone(f"{parent.uri}-elsewhere", 2).uri
    write(parent.uri, 9, mode="overwrite").tags.create("pin", 2)
    sweep(parent.uri)
    assert rows(elsewhere) == [0, 1, 2, 3, 4, 5]
    parent.tags.delete("pin")
    sweep(parent.uri)
    with pytest.raises(ValueError, match="Not found"):
        rows(elsewhere)


@pytest.fixture
def remote(s3: S3Server, s3_proxy: S3Proxy) -> LanceDataset:
    uri, options = f"s3://{BUCKET}/{uuid4().hex}", s3.storage_options(s3_proxy.port)
    write(uri, 0, mode="create", storage_options=options)
    write(uri, 1, storage_options=options).tags.create("old", 1)
    return lance.dataset(uri, storage_options=options)


def reopen(at: LanceDataset, version: int | None = None) -> LanceDataset:
    return lance.dataset(at.uri, version, storage_options=at.initial_storage_options)


def clone_remote(at: LanceDataset) -> None:
    assert clone(at.uri, "b", 2, storage_options=at.initial_storage_options).version == 2


REQUESTS: dict[str, tuple[Callable[[LanceDataset], object], dict[str, int]]] = {
    "open": (reopen, {"LIST": 1, "GET": 1}),
    "open version": (lambda at: reopen(at, 1), {"HEAD": 1, "GET": 1}),
    "clone": (clone_remote, {"LIST": 1, "HEAD": 1, "GET": 1, "PUT": 2}),
    "branch": (lambda at: at.create_branch("b"), {"LIST": 1, "HEAD": 3, "GET": 1, "PUT": 3}),
    "tag": (lambda at: at.tags.create("t", 1), {"HEAD": 2, "PUT": 1}),
    "tag latest": (lambda at: at.tags.create("t"), {"HEAD": 2, "PUT": 1}),
    "get tag": (lambda at: at.tags.get_version("old"), {"HEAD": 2, "GET": 1}),
    "move tag": (lambda at: at.tags.update("old", 2), {"HEAD": 4, "GET": 1, "PUT": 1}),
    "clone elsewhere": (
        lambda at: at.shallow_clone(f"{at.uri}-clone", "old"),
        {"LIST": 3, "HEAD": 3, "GET": 3, "PUT": 2},
    ),
}


@pytest.mark.s3
@pytest.mark.parametrize("call", REQUESTS)
def test_requests_of_one_call(remote: LanceDataset, s3_proxy: S3Proxy, call: str) -> None:
    """pylance sends exactly these requests for one call."""
    act, expected = REQUESTS[call]
    with s3_proxy.recording() as recording:
        act(remote)
    assert dict(recording.kinds) == expected


@pytest.mark.s3
def test_requests_grow_with_the_number_of_refs(remote: LanceDataset, s3_proxy: S3Proxy) -> None:
    """Listing T tags takes 2T + 1 requests, deleting one of B branches 4B + 2T + 5."""
    remote.tags.create("new", 2)
    for name in ("a", "b", "c"):
        remote.create_branch(name)
    with s3_proxy.recording() as listing:
        remote.tags.list()
    with s3_proxy.recording() as deleting:
        remote.branches.delete("a")
    assert (len(listing), len(deleting)) == (2 * 2 + 1, 4 * 3 + 2 * 2 + 5)


@pytest.mark.s3
def test_clone_on_s3_refuses_an_existing_head(remote: LanceDataset) -> None:
    """Committing a Clone twice at one place on S3 raises OSError."""
    clone_remote(remote)
    with pytest.raises(OSError, match="Clone operation should not enter"):
        clone_remote(remote)


@pytest.mark.s3
def test_a_ref_is_an_encoded_key(remote: LanceDataset, s3: S3Server, s3_proxy: S3Proxy) -> None:
    """A branch's key on S3 holds %2F as it is, and s3fs reads it with a HEAD and a GET."""
    remote.create_branch("feature/é.1")
    keys = {"key": s3.access_key, "secret": s3.secret_key}
    filesystem = s3fs.S3FileSystem(endpoint_url=f"http://127.0.0.1:{s3_proxy.port}", **keys)
    with s3_proxy.recording() as recording:
        body = filesystem.cat_file(f"{remote.uri}/_refs/branches/feature%2F%C3%A9.1.json")
    assert json.loads(body)["parentVersion"] == 2
    assert dict(recording.kinds) == {"HEAD": 1, "GET": 1}
