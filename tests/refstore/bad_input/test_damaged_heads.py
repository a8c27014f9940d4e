"""Manifests that cannot be read, or lead elsewhere."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_lancerefs.refstore import (
    ErrorKind,
    FormatError,
    layout,
)
from airflow_provider_lancerefs.refstore._proto import lance_table_pb2 as pb
from tests.refstore.bad_input.expecting import (
    Table,
    error_of,
    put,
    unchanged,
)
from tests.tables import Place


def edited(change: Callable[[pb.Manifest], object]) -> Callable[[bytes], bytes]:
    def edit(data: bytes) -> bytes:
        [position] = struct.unpack_from("<q", data, len(data) - 16)
        [size] = struct.unpack_from("<I", data, position)
        message = pb.Manifest.FromString(data[position + 4 : position + 4 + size])
        change(message)
        body = message.SerializeToString()
        return data[:position] + struct.pack("<I", len(body)) + body + data[-16:]

    return edit


def flag(reader: int, writer: int) -> Callable[[bytes], bytes]:
    def change(message: pb.Manifest) -> None:
        message.reader_feature_flags |= reader
        message.writer_feature_flags |= writer

    return edited(change)


UNREADABLE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "without its end": lambda data: data[:-1],
    "foreign": lambda data: b"\x89PNG\r\n\x1a\n" * 50,
    "text": lambda data: b"this is no manifest\n" * 20,
    "newer for readers": flag(1 << 40, 0),
    "newer for all": flag(1 << 40, 1 << 40),
}
NEWER = {"newer for readers", "newer for all"}


def head_path(place: Place) -> Path:
    return min(Path(place.uri, "_versions").glob("*.manifest"))


def damage(place: Place, how: Callable[[bytes], bytes]) -> None:
    path = head_path(place)
    path.write_bytes(how(path.read_bytes()))


@pytest.fixture(params=UNREADABLE)
def unreadable(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.parametrize("branch", ["main", "b"])
def test_an_unreadable_head_changes_nothing(
    local_table: Table, unreadable: str, branch: str
) -> None:
    """What needs a head that cannot be read says so of the version, and leaves no trace."""
    place = local_table.place
    damage(place if branch == "main" else place.branch(branch), UNREADABLE[unreadable])
    revision = "main" if branch == "main" else f"branch:{branch}"
    store = place.store()
    with unchanged(place):
        for call in (
            lambda: store.files(revision),
            lambda: store.manifest(revision),
            lambda: store.relocate(local_table.elsewhere, revision),
            lambda: store.create_branch("new", revision),
            lambda: store.shallow_clone(local_table.elsewhere, revision),
        ):
            error = error_of(call)
            assert isinstance(error, FormatError)
            assert f"{revision}@2" in str(error)
            assert (error.kind is ErrorKind.UNSUPPORTED_FEATURE) is (unreadable in NEWER)


@pytest.mark.parametrize("branch", ["main", "b"])
def test_an_unreadable_head_does_not_stop_fsck(
    local_table: Table, unreadable: str, branch: str
) -> None:
    """fsck names a version that cannot be read among its findings, and looks at all the rest."""
    place = local_table.place
    damage(place if branch == "main" else place.branch(branch), UNREADABLE[unreadable])
    put(place, layout.tag_ref("bad"), b"{")
    version = "main@2" if branch == "main" else f"branch:{branch}@2"
    for repair in (False, True):
        found = {(one.code, one.subject) for one in place.store().check(repair=repair).findings}
        assert ("unreadable-version", version) in found
        assert ("unreadable-ref", "tag bad") in found


def test_an_unreadable_head_stops_no_other_ref(local_table: Table, unreadable: str) -> None:
    """Refs are listed, read, tagged, moved and deleted without a look into a damaged head."""
    damage(local_table.place, UNREADABLE[unreadable])
    store = local_table.place.store()
    assert store.resolve("main").number == 2
    assert [one.name for one in store.branches() if not one.broken] == ["b", "b/c"]
    assert store.create_tag("new", "main@1").version == 1
    assert store.move_tag(store.tag("new"), "branch:b").branch == "b"
    assert store.delete_tag("new")
    assert store.delete_tag("kept")
    assert store.delete_branch("b/c")
    assert store.create_branch("old", "main@1").parent_version == 1
    assert store.delete_branch("b")


def test_a_head_that_only_newer_writers_touch(local_table: Table) -> None:
    """A head with an unknown writer flag is read, but neither forked, cloned nor relocated."""
    place = local_table.place
    damage(place, flag(0, 1 << 40))
    store = place.store()
    assert len(store.files()) == 2
    with unchanged(place):
        for call in (
            lambda: store.create_branch("new"),
            lambda: store.shallow_clone(local_table.elsewhere),
            lambda: store.relocate(local_table.elsewhere),
        ):
            error = error_of(call)
            assert isinstance(error, FormatError)
            assert error.kind is ErrorKind.UNSUPPORTED_FEATURE


def test_a_head_that_names_a_base_it_lacks(local_table: Table) -> None:
    """A version whose files cannot be found by its own manifest is damaged, and fsck says so."""
    place = local_table.place
    damage(place, edited(lambda head: setattr(head.fragments[0].files[0], "base_id", 77)))
    store = place.store()
    with unchanged(place):
        for call in (store.files, lambda: store.relocate(local_table.elsewhere)):
            error = error_of(call)
            assert isinstance(error, FormatError)
            assert "names base path 77, which its manifest lacks" in str(error)
        found = {(one.code, one.subject) for one in store.check().findings}
        assert ("unreadable-version", "main@2") in found


def test_a_base_that_cannot_be_reached_does_not_stop_fsck(local_table: Table) -> None:
    """A base path on a store that this library does not know is a finding, and no end of fsck."""
    place = local_table.place
    damage(
        place,
        edited(lambda head: head.base_paths.add(id=7, path="gs://b/x", is_dataset_root=True)),
    )
    put(place, layout.tag_ref("bad"), b"{")
    found = place.store().check().findings
    assert ("unreadable-ref", "tag bad") in {(one.code, one.subject) for one in found}


@pytest.mark.parametrize("path", ["../../outside", "../../../deep/outside", "/tmp/outside"])
def test_a_manifest_with_paths_that_lead_out(local_table: Table, path: str) -> None:
    """A version whose files lie outside its folders is not copied, to nowhere."""
    place = local_table.place
    put(place, "outside", b"secret")
    put(place, "../outside", b"secret")
    damage(place, edited(lambda head: setattr(head.fragments[0].files[0], "path", path)))
    deep = f"{local_table.elsewhere}/a/b"
    with unchanged(place):
        assert isinstance(error_of(lambda: place.store().relocate(deep)), FormatError)


@pytest.mark.parametrize(
    "name",
    [
        f"{2**64 - 1 - 3:020d}.manifest#1",
        f"{2**64 - 1 - 3:020d}.manifest#17",
        f"{2**64 - 1 - 3:020d}.manifest.tmp",
        f"{2**64 - 1 - 3:020d}",
        ".tmpWzC1Ca",
        "99999999999999999999.manifest",
        "00000000000000000000.txt",
        "d123.manifest",
    ],
)
def test_what_a_killed_writer_left_beside_the_manifests(local_table: Table, name: str) -> None:
    """A half-written manifest, as pylance stages one on disk, hides no version and is none."""
    for folder in ("_versions", "tree/b/_versions"):
        put(local_table.place, f"{folder}/{name}", b"")
    store = local_table.place.store()
    assert local_table.place.values() == [1, 2, 3, 4]
    assert store.resolve("main") == replace(
        store.resolve("main@2"), manifest_size=head_path_size(local_table.place)
    )
    assert store.resolve("branch:b").number == 2
    assert store.create_branch("new").parent_version == 2
    assert {one.code for one in store.check().findings} == set()


def head_path_size(place: Place) -> int:
    return Path(place.uri, layout.manifest_path("main", 2)).stat().st_size
