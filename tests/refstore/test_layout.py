"""Every path under a dataset root, both ways, and where a file in a base path is."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import lance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_lancerefs.refstore import FormatError, layout
from airflow_provider_lancerefs.refstore.manifest import BasePath, FileRef, Manifest
from tests.refstore.strategies import branch_names, tag_names
from tests.refstore.strategies import versions as version_numbers
from tests.tables import Place

MANIFEST = Manifest(
    version=5,
    branch="main",
    created_at=datetime(2026, 11, 18, tzinfo=UTC),
    reader_flags=0,
    writer_flags=0,
    bases={
        0: BasePath(0, "s3://hot-bucket/dataset", is_dataset_root=True, name=None),
        1: BasePath(1, "s3://cold-bucket/dataset-archive", is_dataset_root=True, name="v1.0"),
        2: BasePath(2, "s3://landing/files", is_dataset_root=False, name=None),
        3: BasePath(3, "/data/other/", is_dataset_root=True, name=None),
        4: BasePath(4, "/flat/", is_dataset_root=False, name=None),
    },
    fragments=(),
    indices=(),
    transaction_file="",
    movable=True,
)
HOME = "s3://here/table"


def test_the_basic_layout() -> None:
    """Folders are named as the format's picture of a dataset root says."""
    assert layout.branch_ref("feature-a") == "_refs/branches/feature-a.json"
    assert layout.branch_ref("bugfix/issue-123") == "_refs/branches/bugfix%2Fissue-123.json"
    assert layout.tag_ref("v1.0.0") == "_refs/tags/v1.0.0.json"
    assert layout.branch_root("main") == ""
    assert layout.branch_root("bugfix/issue-123") == "tree/bugfix/issue-123"
    assert layout.versions_folder("main") == "_versions/"
    assert layout.versions_folder("bugfix/issue-123") == "tree/bugfix/issue-123/_versions/"
    assert layout.in_branch("main", "data/x.lance") == "data/x.lance"
    assert layout.in_branch("a", "data/x.lance") == "tree/a/data/x.lance"


@pytest.mark.parametrize(
    ("branch", "number", "v2", "path"),
    [
        ("main", 1, True, "_versions/18446744073709551614.manifest"),
        ("main", 1, False, "_versions/1.manifest"),
        ("a/b", 7, True, "tree/a/b/_versions/18446744073709551608.manifest"),
        ("a/b", 7, False, "tree/a/b/_versions/7.manifest"),
        ("main", 2**63, True, "_versions/09223372036854775807.manifest"),
        ("main", 2**64 - 1, True, "_versions/00000000000000000000.manifest"),
    ],
)
def test_manifests_in_both_namings(branch: str, number: int, v2: bool, path: str) -> None:
    """V1 is the plain number, V2 counts down from 2^64-1 in twenty digits."""
    assert layout.manifest_path(branch, number, v2=v2) == path
    assert layout.manifest_number(path) == number
    assert layout.is_v2_manifest(path) is v2


@given(st.just("main") | branch_names, version_numbers, st.booleans())
def test_manifest_names_give_back_their_number(branch: str, number: int, v2: bool) -> None:
    """In either naming, every version's path is read back as that version."""
    path = layout.manifest_path(branch, number, v2=v2)
    assert layout.manifest_number(path) == number
    assert layout.is_v2_manifest(path) is v2
    assert path.startswith(layout.versions_folder(branch))
    assert layout.tree_of(path) == (None if branch == "main" else branch)


@given(version_numbers, version_numbers)
def test_v2_names_sort_newest_first(one: int, other: int) -> None:
    """The newer of two versions has the name that sorts first."""
    first, second = (layout.manifest_path("main", number) for number in (one, other))
    assert (first < second) == (one > other)


@pytest.mark.parametrize(
    "name",
    [
        "latest_version_hint.json",
        "1.manifest.tmp",
        "18446744073709551614.manifest#1",
        ".tmpWzC1Ca",
        "d12345.manifest",
        "x.manifest",
        "-1.manifest",
        "+1.manifest",
        "1.5.manifest",
        "1_0.manifest",
        "².manifest",
        "٣.manifest",
        "1.MANIFEST",
        "1",
        ".manifest",
        "manifest",
        "",
    ],
)
def test_other_files_are_no_manifests(name: str) -> None:
    """What stands beside the manifests, and what pylance is just writing there, is none."""
    assert layout.manifest_number(f"_versions/{name}") is None
    assert not layout.is_v2_manifest(f"_versions/{name}")


@pytest.mark.parametrize(
    "stem", ["99999999999999999999", "18446744073709551616", "18446744073709551615", "0", "0000"]
)
def test_a_number_that_no_version_has_names_no_manifest(stem: str) -> None:
    """Versions are from 1 to 2^64-1: a name that would mean another number is no manifest's."""
    assert layout.manifest_number(f"_versions/{stem}.manifest") is None


@given(st.text(), st.sampled_from(["", "_versions/", "tree/a/_versions/"]))
def test_any_file_name_is_a_version_or_none(name: str, folder: str) -> None:
    """A name of any kind is a version of at least 1, or no manifest's name."""
    for path in (f"{folder}{name}", f"{folder}{name}.manifest"):
        number = layout.manifest_number(path)
        assert number is None or number >= 1


@pytest.mark.parametrize("v2", [True, False])
def test_manifests_lie_where_pylance_puts_them(tmp_path: Path, v2: bool) -> None:
    """pylance's manifests have our names, in either naming, on main and below a branch."""
    place = Place(str(tmp_path)).create(enable_v2_manifest_paths=v2).append(4).append(5)
    place.open().create_branch("a/b", 2)
    expected = {layout.manifest_path("main", number, v2=v2) for number in (1, 2, 3)}
    expected |= {layout.manifest_path("a/b", 2)}
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.manifest")}
    assert found == expected


def test_deletion_names() -> None:
    """A deletion file is named after fragment, version read, a number of its own, and its kind."""
    assert layout.deletion_name(42, 10, 77, bitmap=False) == "42-10-77.arrow"
    assert layout.deletion_name(42, 10, 77, bitmap=True) == "42-10-77.bin"


@pytest.mark.parametrize("rows", [1, 5_000])
def test_deletion_files_lie_where_pylance_puts_them(tmp_path: Path, rows: int) -> None:
    """pylance's deletion files, sparse and dense, have our names."""
    place = Place(str(tmp_path)).create(range(10_000))
    place.delete(f"n < {rows}")
    [fragment] = place.open().get_fragments()
    deletion = fragment.metadata.deletion_file
    [file] = (tmp_path / layout.DELETIONS).iterdir()
    assert deletion is not None
    assert file.name == layout.deletion_name(
        0, deletion.read_version, deletion.id, bitmap=deletion.file_type == "bitmap"
    )


@given(branch_names)
def test_ref_paths_give_back_branches(name: str) -> None:
    """A branch's ref file is one file of the branches folder, and gives the name back."""
    path = layout.branch_ref(name)
    assert posixpath.dirname(path) + "/" == layout.BRANCH_REFS
    assert layout.ref_name(path) == name


@given(tag_names)
def test_ref_paths_give_back_tags(name: str) -> None:
    """A tag's file is one file of the tags folder at the root, and gives the name back."""
    path = layout.tag_ref(name)
    assert posixpath.dirname(path) + "/" == layout.TAG_REFS
    assert layout.ref_name(path) == name


@pytest.mark.parametrize("path", ["_refs/branches/x.tmp", "_refs/tags/.json#1", layout.LOCK])
def test_other_files_are_no_refs(path: str) -> None:
    """Files that stand beside the refs are none."""
    assert layout.ref_name(path) is None


@pytest.mark.parametrize(
    ("base_id", "folder", "path", "place"),
    [
        (None, "data", "f.lance", f"{HOME}/data/f.lance"),
        (None, "_deletions", "0-1-2.arrow", f"{HOME}/_deletions/0-1-2.arrow"),
        (None, "_indices", "uuid/index.idx", f"{HOME}/_indices/uuid/index.idx"),
        (0, "data", "fragment-0.lance", "s3://hot-bucket/dataset/data/fragment-0.lance"),
        (
            1,
            "data",
            "fragment-100.lance",
            "s3://cold-bucket/dataset-archive/data/fragment-100.lance",
        ),
        (1, "_deletions", "0-1-2.bin", "s3://cold-bucket/dataset-archive/_deletions/0-1-2.bin"),
        (1, "_indices", "u/i.idx", "s3://cold-bucket/dataset-archive/_indices/u/i.idx"),
        (2, "data", "f.lance", "s3://landing/files/f.lance"),
        (2, "data", "day/f.lance", "s3://landing/files/day/f.lance"),
        (2, "_deletions", "0-1-2.arrow", "s3://landing/files/0-1-2.arrow"),
        (2, "_indices", "uuid/i.idx", "s3://landing/files/uuid/i.idx"),
        (3, "data", "f.lance", "/data/other/data/f.lance"),
        (4, "data", "f.lance", "/flat/f.lance"),
    ],
)
def test_files_are_resolved_in_two_steps(
    base_id: int | None, folder: str, path: str, place: str
) -> None:
    """First the base: home, or by its id; then below its folder, or directly in a plain one."""
    assert MANIFEST.resolve(FileRef(folder, path, base_id), HOME) == place


def test_base_zero_is_a_base() -> None:
    """A base id of 0 is an id, and no way to say that there is none."""
    without = replace(MANIFEST, bases={})
    assert without.resolve(FileRef("data", "f.lance", None), HOME) == f"{HOME}/data/f.lance"
    with pytest.raises(FormatError, match="names base path 0, which its manifest lacks"):
        without.resolve(FileRef("data", "f.lance", 0), HOME)


@pytest.mark.parametrize(
    ("path", "branches", "owner"),
    [
        ("tree/a/_versions/1.manifest", ["a"], "a"),
        ("tree/a/data/f.lance", ["a", "b"], "a"),
        ("tree/a/_indices/uuid/i.idx", ["a"], "a"),
        ("tree/a/b/_versions/1.manifest", ["a", "a/b"], "a/b"),
        ("tree/a/b/_versions/1.manifest", ["a"], None),
        ("tree/a/b/c/data/f.lance", ["a", "a/b", "a/b/c"], "a/b/c"),
        ("tree/a/b/c/data/f.lance", ["a", "a/b"], None),
        ("tree/ab/data/f.lance", ["a"], None),
        ("tree/a/data/f.lance", [], None),
        ("tree/a/notes.txt", ["a"], None),
        ("tree/a/mine/f.lance", ["a"], None),
        ("tree/a/data/day/f.lance", ["a"], None),
        ("tree/a/_versions/_versions/1.manifest", ["a"], None),
        ("tree/a/_versions/_versions/1.manifest", ["a", "a/_versions"], "a/_versions"),
        ("tree/a/_versions/1.manifest", ["a", "a/_versions"], "a"),
        ("tree/a/_indices/data/f.lance", ["a", "a/_indices"], "a/_indices"),
        ("tree/a/_indices/data/f.lance", ["a"], "a"),
        ("tree/data/data/f.lance", ["data"], "data"),
        ("_versions/1.manifest", ["a"], None),
        ("data/f.lance", ["a"], None),
        ("tree/a", ["a"], None),
        ("tree/a/data", ["a"], None),
        ("tree/a/data/", ["a"], None),
    ],
)
def test_who_owns_a_file_below_tree(path: str, branches: list[str], owner: str | None) -> None:
    """A file belongs to the longest-named branch in whose layout it stands, or to nobody."""
    assert layout.owner(path, branches) == owner
    assert layout.owner(path, reversed(branches)) == owner


@settings(max_examples=50)
@given(st.lists(branch_names, min_size=1, max_size=3, unique=True), st.data())
def test_a_branch_owns_its_own_files(names: list[str], data: st.DataObject) -> None:
    """Every manifest belongs to its branch, and no other branch's path is a part of it."""
    name = data.draw(st.sampled_from(names))
    assert layout.owner(layout.manifest_path(name, 1), names) == name


@pytest.mark.parametrize(
    ("path", "branch"),
    [
        ("tree/a/_versions/1.manifest", "a"),
        ("tree/a/b/_versions/18446744073709551614.manifest", "a/b"),
        ("tree/a/_versions/_versions/1.manifest", "a/_versions"),
        ("tree/_versions/1.manifest", None),
        ("tree/_versions/_versions/1.manifest", "_versions"),
        ("tree/a/_versions/latest_version_hint.json", "a"),
        ("tree/a/data/1.manifest", "a"),
        ("tree/a/_versions/x/1.manifest", None),
        ("_versions/1.manifest", None),
        ("tree/a/_versions", None),
        ("", None),
    ],
)
def test_which_branch_a_file_is_of(path: str, branch: str | None) -> None:
    """A file's place below `tree/` says whose it is, even where no ref says so."""
    assert layout.tree_of(path) == branch


@pytest.mark.parametrize("name", ["data", "_versions", "_indices", "_transactions", "_deletions"])
def test_branches_called_like_a_folder_of_the_layout(tmp_path: Path, name: str) -> None:
    """A branch that pylance made under such a name is told apart from its neighbour's files."""
    place = Place(str(tmp_path)).create()
    place.open().create_branch("a")
    place.open().create_branch(f"a/{name}")
    names = ["a", f"a/{name}"]
    files = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.manifest")]
    assert sorted(filter(None, map(layout.tree_of, files))) == names
    for file in filter(layout.tree_of, files):
        assert layout.owner(file, names) == layout.tree_of(file)


@pytest.mark.parametrize(
    ("path", "is_file"),
    [
        ("data/f.lance", True),
        ("_versions/1.manifest", True),
        ("_transactions/1-u.txn", True),
        ("_deletions/0-1-2.arrow", True),
        ("_indices/uuid/i.idx", True),
        ("_indices/i.idx", False),
        ("_indices/uuid/deep/i.idx", False),
        ("data/day/f.lance", False),
        ("data", False),
        ("data/", False),
        ("_refs/tags/t.json", False),
        ("tree/a/data/f.lance", False),
        ("notes.txt", False),
        ("", False),
    ],
)
def test_where_the_format_puts_a_datasets_files(path: str, is_file: bool) -> None:
    """Only files in the folders of the layout, at their depth, are a dataset's."""
    assert layout.is_dataset_file(path) is is_file


def test_content_is_data_deletions_and_indices() -> None:
    """Manifests and transactions are no content: content is what versions name."""
    paths = ["data/f", "_deletions/f", "_indices/u/f", "_versions/1", "_transactions/f", "x/data/f"]
    assert [layout.is_content(path) for path in paths] == [True] * 3 + [False] * 3


@pytest.mark.parametrize(
    ("base", "branch", "root"),
    [
        ("s3://b/table", None, "s3://b/table"),
        ("s3://b/table/tree/a", "a", "s3://b/table"),
        ("s3://b/table/tree/a/b", "a/b", "s3://b/table"),
        ("s3://b/tree/a", None, "s3://b/tree/a"),
        ("s3://b/table/tree/a", "b", "s3://b/table/tree/a"),
    ],
)
def test_the_dataset_of_a_base_path(base: str, branch: str | None, root: str) -> None:
    """A base that is a branch's folder belongs to the dataset above its `tree/`."""
    assert layout.dataset_root(base, branch) == root


def test_base_paths_of_branches_are_named_as_dataset_root_expects(tmp_path: Path) -> None:
    """pylance names the base path of a branch's folder after the branch."""
    place = Place(str(tmp_path / "tree" / "a")).create()
    place.open().create_branch("b/c")
    lance.dataset(place.branch("b/c").uri).shallow_clone(str(tmp_path / "clone"), 1)
    bases = lance.dataset(tmp_path / "clone").base_paths().values()
    roots = {layout.dataset_root(base.path, base.name) for base in bases}
    assert roots == {place.uri}
