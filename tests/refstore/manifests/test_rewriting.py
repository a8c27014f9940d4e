"""A rewrite changes where the bases are, and nothing that it does not know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet

from airflow_provider_lancerefs.refstore import FormatError
from airflow_provider_lancerefs.refstore._proto import lance_table_pb2 as pb
from airflow_provider_lancerefs.refstore.manifest import rewrite_base_paths
from tests.refstore.manifests.files import FOREIGN, file_of, head_file, message_of
from tests.refstore.manifests.tables import bases


def top_fields(body: bytes) -> list[tuple[int, int, Any]]:
    return sorted(
        (field.field_number, field.wire_type, field.data)
        for field in UnknownFieldSet(Empty.FromString(body))
    )


def moved(base: str) -> str:
    return f"s3://elsewhere{base}"


def test_messages_are_equal_only_with_their_unknown_fields() -> None:
    """The comparison that the tests below stand on sees a field that only one side knows."""
    one, other = (
        pb.Manifest.FromString(unknown(200, value) + unknown(201, b"x")) for value in (b"a", b"b")
    )
    assert one != other
    assert one == pb.Manifest.FromString(unknown(201, b"x") + unknown(200, b"a"))


def test_a_rewrite_changes_base_paths_only(uri: str) -> None:
    """Every base path is re-pointed; every other field, known or not, is as it was."""
    data = head_file(uri).read_bytes()
    rewritten = rewrite_base_paths(data, "it", moved)
    (before, position), (after, new_position) = message_of(data), message_of(rewritten)
    assert [base.path for base in after.base_paths] == [
        moved(base.path) for base in before.base_paths
    ]
    assert rewritten[:position] == data[:position]
    assert new_position == position
    assert rewritten[-8:] == data[-8:]
    for base in (*before.base_paths, *after.base_paths):
        base.path = ""
    assert after == before
    assert top_fields(after.SerializeToString()) == top_fields(before.SerializeToString())


def test_a_rewrite_that_moves_nothing_changes_nothing(uri: str) -> None:
    """Where every base stays, a second rewrite yields the same bytes as the first."""
    once = rewrite_base_paths(head_file(uri).read_bytes(), "it", lambda base: base)
    assert message_of(once) == message_of(head_file(uri).read_bytes())
    assert rewrite_base_paths(once, "it", lambda base: base) == once


def unknown(number: int, value: bytes) -> bytes:
    """A field of bytes with a number that no message here has."""
    return bytes([number << 3 & 0x7F | 0x82, number >> 4, len(value)]) + value


def test_unknown_fields_are_kept_at_every_level() -> None:
    """What a newer Lance adds to any message of a manifest outlives a rewrite."""
    number = 200
    file = pb.DataFile.FromString(
        pb.DataFile(path="f").SerializeToString() + unknown(number, b"in the file")
    )
    fragment = pb.DataFragment.FromString(
        pb.DataFragment(id=1, files=[file]).SerializeToString() + unknown(number, b"in a fragment")
    )
    base = pb.BasePath.FromString(
        pb.BasePath(id=1, path="/a").SerializeToString() + unknown(number, b"in the base")
    )
    message = pb.Manifest.FromString(
        pb.Manifest(version=1, fragments=[fragment], base_paths=[base]).SerializeToString()
        + unknown(number, b"on top")
    )
    rewritten = rewrite_base_paths(file_of(message, b"before"), "it", moved)
    for kept in (b"in the file", b"in a fragment", b"in the base", b"on top", b"s3://elsewhere/a"):
        assert rewritten.count(kept) == 1
    found, position = message_of(rewritten)
    assert rewritten[:position] == b"before"
    [one] = found.fragments
    for part in (found, one, one.files[0], found.base_paths[0]):
        assert [field.field_number for field in UnknownFieldSet(part)] == [number]


def test_a_rewrite_as_root_forgets_the_branch_alone(uris: dict[str, str]) -> None:
    """`as_root` takes the branch's name out of the manifest, and nothing more."""
    data = head_file(uris["branch_of_branch"]).read_bytes()
    rewritten = rewrite_base_paths(data, "it", lambda base: base, as_root=True)
    (before, _), (after, _) = message_of(data), message_of(rewritten)
    assert before.branch == "a/b"
    assert not after.HasField("branch")
    before.ClearField("branch")
    assert after == before


def test_pylance_reads_a_rewritten_manifest(tmp_path: Path, uris: dict[str, str]) -> None:
    """Once the base is where the rewritten manifest says, pylance reads the same rows."""
    uri = str(tmp_path / "table")
    bases(uri)
    rows = lance.dataset(uri).to_table()
    path = head_file(uri)
    path.write_bytes(
        rewrite_base_paths(
            path.read_bytes(), "it", lambda base: f"{base}-moved" if base.endswith("hot") else base
        )
    )
    Path(f"{uri}-hot").rename(f"{uri}-hot-moved")
    assert lance.dataset(uri).to_table() == rows
    assert lance.dataset(uri).validate() is None


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_file_is_not_rewritten(data: bytes) -> None:
    """What is no manifest is refused before anything is made of it."""
    with pytest.raises(FormatError, match="the file is damaged or foreign"):
        rewrite_base_paths(data, "it", moved)
