"""Manifests: what pylance writes is read as pylance reads it, and nothing else gets through."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as st
from lance import DatasetBasePath

from airflow_provider_lancerefs.refstore import ErrorKind, FormatError, layout
from airflow_provider_lancerefs.refstore._proto import lance_table_pb2 as pb
from airflow_provider_lancerefs.refstore.manifest import (
    Feature,
    FileRef,
    Manifest,
    parse_manifest,
    rewrite_base_paths,
)
from tests.tables import Place

ROWS = 4_000
KNOWN_BITS = range(8)
RELOCATABLE_BITS = range(6)


def table(*, first: int = 0, rows: int = ROWS) -> pa.Table:
    numbers = range(first, first + rows)
    vectors = pa.array([float(number % 7) for number in range(rows * 4)], pa.float32())
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "text": [f"word{number % 50}" for number in numbers],
            "vector": pa.FixedSizeListArray.from_arrays(vectors, 4),
        }
    )


def plain(uri: str) -> str:
    lance.write_dataset(table(), uri, max_rows_per_file=ROWS // 4)
    return uri


def v1(uri: str) -> str:
    lance.write_dataset(table(), uri, enable_v2_manifest_paths=False)
    lance.write_dataset(table(), uri, mode="append")
    return uri


def deletions(uri: str) -> str:
    """One fragment with a sparse deletion file, one with a dense one, one with none."""
    lance.write_dataset(table(rows=30_000), uri, max_rows_per_file=10_000)
    lance.dataset(uri).delete("n = 7")
    lance.dataset(uri).delete("n >= 10000 and n < 20000 and n % 2 = 0")
    return uri


def indices(uri: str) -> str:
    plain(uri)
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("n", "BTREE", name="tree")
    dataset.create_scalar_index("text", "INVERTED", name="words")
    dataset.create_scalar_index("text", "BITMAP", name="bits")
    dataset.create_index("vector", "IVF_FLAT", name="near", num_partitions=2)
    lance.write_dataset(table(first=ROWS), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    return uri


def stable_row_ids(uri: str) -> str:
    lance.write_dataset(table(), uri, enable_stable_row_ids=True, max_rows_per_file=ROWS // 2)
    lance.dataset(uri).update({"text": "'new'"}, "n < 3")
    return uri


def bases(uri: str) -> str:
    """Files in another root, in a plain folder and at home, each with a deletion file."""
    lance.write_dataset(
        table(rows=100),
        uri,
        initial_bases=[
            DatasetBasePath(path=f"{uri}-hot", name="hot", is_dataset_root=True),
            DatasetBasePath(path=f"{uri}-flat", is_dataset_root=False),
        ],
        target_bases=["hot"],
    )
    lance.write_dataset(
        table(first=100, rows=100), uri, mode="append", target_bases=[f"{uri}-flat"]
    )
    lance.write_dataset(table(first=200, rows=100), uri, mode="append")
    lance.dataset(uri).delete("n % 100 = 3")
    return uri


def branch_of_branch(uri: str) -> str:
    """A fork of a fork, with files of all three, an inherited index and two deletion files."""
    plain(uri)
    lance.dataset(uri).create_scalar_index("n", "BTREE", name="tree")
    lance.dataset(uri).delete("n = 7")
    lance.dataset(uri).create_branch("a")
    lance.write_dataset(table(first=ROWS), f"{uri}/tree/a", mode="append")
    lance.dataset(uri).create_branch("a/b", ("a", None))
    lance.write_dataset(table(first=2 * ROWS), f"{uri}/tree/a/b", mode="append")
    lance.dataset(f"{uri}/tree/a/b").delete(f"n = {ROWS} or n = 9")
    return f"{uri}/tree/a/b"


def clone(uri: str) -> str:
    deletions(f"{uri}-source")
    lance.dataset(f"{uri}-source").tags.create("v1.0", 3)
    lance.dataset(f"{uri}-source").shallow_clone(uri, "v1.0")
    lance.write_dataset(table(first=ROWS), uri, mode="append")
    return uri


def added_columns(uri: str) -> str:
    """Fragments of several data files each, one of a column that is no longer there."""
    plain(uri)
    lance.dataset(uri).add_columns({"twice": "n * 2"})
    lance.dataset(uri).drop_columns(["text"])
    lance.dataset(uri).update_config({"owner": "é"})
    lance.dataset(uri).update_schema_metadata({"k": "v"})
    return uri


def emptied(uri: str) -> str:
    plain(uri)
    lance.dataset(uri).delete("true")
    return uri


TABLES: dict[str, Callable[[str], str]] = {
    made.__name__: made
    for made in (
        plain,
        v1,
        deletions,
        indices,
        stable_row_ids,
        bases,
        branch_of_branch,
        clone,
        added_columns,
        emptied,
    )
}


@pytest.fixture(scope="module")
def uris(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where each of the tables stands, written once."""
    folder = tmp_path_factory.mktemp("manifests")
    return {name: made(str(folder / name)) for name, made in TABLES.items()}


@pytest.fixture(params=TABLES)
def uri(request: pytest.FixtureRequest, uris: dict[str, str]) -> str:
    return uris[request.param]


def head_file(uri: str) -> Path:
    found = {layout.manifest_number(str(path)): path for path in Path(uri, "_versions").iterdir()}
    return found[lance.dataset(uri).version]


def read(uri: str) -> Manifest:
    return parse_manifest(head_file(uri).read_bytes(), "it")


def message_of(data: bytes) -> tuple[pb.Manifest, int]:
    [position] = struct.unpack_from("<q", data, len(data) - 16)
    [size] = struct.unpack_from("<I", data, position)
    return pb.Manifest.FromString(data[position + 4 : position + 4 + size]), position


def file_of(message: pb.Manifest, before: bytes = b"") -> bytes:
    """A manifest file that holds the message after some other bytes."""
    body = message.SerializeToString()
    trailer = struct.pack("<qHH4s", len(before), 0, 2, b"LANC")
    return before + struct.pack("<I", len(body)) + body + trailer


def edited(data: bytes, change: Callable[[pb.Manifest], object]) -> bytes:
    message, position = message_of(data)
    change(message)
    return file_of(message, data[:position])


def top_fields(body: bytes) -> list[tuple[int, int, Any]]:
    return sorted(
        (field.field_number, field.wire_type, field.data)
        for field in UnknownFieldSet(Empty.FromString(body))
    )


def test_versions_are_those_of_pylance(uri: str) -> None:
    """Number, branch, time and count of rows are what pylance reports."""
    dataset, manifest = lance.dataset(uri), read(uri)
    [said] = [one for one in dataset.versions() if one["version"] == dataset.version]
    assert manifest.version == dataset.version
    assert manifest.branch == (uri.partition("/tree/")[2] or "main")
    assert abs(manifest.created_at - said["timestamp"].astimezone(UTC)) < timedelta(microseconds=2)
    assert manifest.rows == dataset.count_rows()


def test_fragments_are_those_of_pylance(uri: str) -> None:
    """Each fragment's id, rows, data files and deletion file are what pylance reports."""
    dataset, manifest = lance.dataset(uri), read(uri)
    found = {fragment.identity: fragment for fragment in manifest.fragments}
    assert set(found) == {fragment.fragment_id for fragment in dataset.get_fragments()}
    for said in (fragment.metadata for fragment in dataset.get_fragments()):
        fragment = found[said.id]
        assert fragment.physical_rows == said.physical_rows
        assert fragment.rows == said.num_rows
        assert fragment.data == tuple(
            FileRef("data", file.path, file.base_id, file.file_size_bytes) for file in said.files
        )
        deletion = said.deletion_file
        assert (fragment.deletion is None) is (deletion is None)
        if deletion is not None:
            assert fragment.deletion == FileRef(
                "_deletions", Path(deletion.path(said.id)).name, deletion.base_id
            )


def test_base_paths_are_those_of_pylance(uri: str) -> None:
    """Each base path's id, place, kind and name are what pylance reports."""
    said = lance.dataset(uri).base_paths()
    found = read(uri).bases
    assert set(found) == set(said)
    for identity, base in said.items():
        assert found[identity].identity == base.id == identity
        assert found[identity].path == base.path
        assert found[identity].is_dataset_root == base.is_dataset_root
        assert found[identity].name == base.name


def test_indices_are_those_of_pylance(uri: str) -> None:
    """Each index segment's id, name, base and size are what pylance reports."""
    said = {
        segment.uuid: (index.name, segment.base_id, segment.size_bytes)
        for index in lance.dataset(uri).describe_indices()
        for segment in index.segments
    }
    found = {
        index.identity: (index.name, index.base_id, sum(file.size or 0 for file in index.files))
        for index in read(uri).indices
    }
    assert found == said


def test_every_file_is_where_pylance_says(uri: str) -> None:
    """Resolved through all base paths, data and deletion files are exactly those pylance tracks."""
    manifest = read(uri)
    said = {
        f"{file['base_uri']}/{file['path']}"
        for file in lance.dataset(uri).tracked_files().read_all().to_pylist()
        if file["version"] == manifest.version and file["type"] in ("data file", "deletion file")
    }
    assert {manifest.resolve(file, uri) for file in manifest.files} == said


def test_every_file_exists(uri: str) -> None:
    """Each file stands where it resolves to, an index's below a folder of the index's own."""
    manifest = read(uri)
    for file in manifest.files:
        assert Path(manifest.resolve(file, uri)).is_file()
    for index in manifest.indices:
        assert index.files
        for file in index.files:
            assert file.path.startswith(f"{index.identity}/")
            assert Path(manifest.resolve(file, uri)).stat().st_size == file.size


def test_data_files_have_the_size_that_is_recorded(uri: str) -> None:
    """The size of each data file is the one on disk."""
    manifest = read(uri)
    for file in manifest.files:
        if file.folder == layout.DATA:
            assert file.size == Path(manifest.resolve(file, uri)).stat().st_size


def test_the_transaction_file_is_named(uri: str) -> None:
    """The transaction that made a version is the file that pylance wrote for it."""
    assert Path(uri, layout.TRANSACTIONS, read(uri).transaction_file).is_file()


def test_the_tables_hold_what_they_are_for(uris: dict[str, str]) -> None:
    """The tables of this module do have the parts of the format that they are to show."""
    manifests = {name: read(uri) for name, uri in uris.items()}
    kinds = {Path(file.path).suffix for file in manifests["deletions"].files}
    assert kinds == {".lance", ".arrow", ".bin"}
    assert not layout.is_v2_manifest(str(head_file(uris["v1"])))
    assert {one.base_id for one in manifests["branch_of_branch"].files} == {None, 0, 1}
    assert {one.base_id for one in manifests["branch_of_branch"].indices} != {None}
    assert {one.is_dataset_root for one in manifests["bases"].bases.values()} == {True, False}
    assert len([one for one in manifests["indices"].indices if one.name == "tree"]) == 2
    assert manifests["stable_row_ids"].reader_flags & Feature.STABLE_ROW_IDS
    assert manifests["deletions"].reader_flags & Feature.DELETION_FILES
    assert manifests["clone"].reader_flags & Feature.BASE_PATHS
    assert any(len(one.data) > 1 for one in manifests["added_columns"].fragments)
    assert manifests["emptied"].rows == 0


def test_old_versions_are_read_too(uris: dict[str, str]) -> None:
    """Every version of a table, and not its head alone, is read as what pylance makes of it."""
    for path in Path(uris["deletions"], "_versions").glob("*.manifest"):
        manifest = parse_manifest(path.read_bytes(), "it")
        assert manifest.version == layout.manifest_number(str(path))
        assert manifest.rows == lance.dataset(uris["deletions"], manifest.version).count_rows()


def parses_or_format_error(data: bytes) -> None:
    """Read the bytes and all that hangs on them; a FormatError is the only way out."""
    for job in (parse_all, lambda data: rewrite_base_paths(data, "it", lambda base: base + "x")):
        try:
            job(data)
        except FormatError as error:
            text = str(error)
            if not text.endswith(".") or "\n" in text:
                raise


def parse_all(data: bytes) -> None:
    manifest = parse_manifest(data, "it")
    assert manifest.rows is not None
    for file in (*manifest.files, *(file for index in manifest.indices for file in index.files)):
        try:
            manifest.resolve(file, "/home")
        except FormatError:
            continue


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["plain", "branch_of_branch", "bases"])
def test_truncated_manifests(uris: dict[str, str], name: str) -> None:
    """A manifest cut off anywhere, at its end or at its start, is a FormatError."""
    data = head_file(uris[name]).read_bytes()
    for length in range(len(data)):
        with pytest.raises(FormatError):
            parse_manifest(data[:length], "it")
        parses_or_format_error(data[-length:])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["deletions", "branch_of_branch", "indices"])
def test_flipped_bytes(uris: dict[str, str], name: str) -> None:
    """A manifest with a damaged byte is read or a FormatError, whichever byte and damage it is."""
    data = head_file(uris[name]).read_bytes()
    for at in range(0, len(data), 1 + len(data) // 2_000):
        for damage in (0x01, 0x80, 0xFF):
            parses_or_format_error(data[:at] + bytes([data[at] ^ damage]) + data[at + 1 :])


@pytest.mark.timeout(60)
def test_many_flipped_bytes(uris: dict[str, str]) -> None:
    """A manifest with several damaged bytes is read or a FormatError."""
    chance = random.Random(1)
    data = head_file(uris["indices"]).read_bytes()
    for _ in range(2_000):
        damaged = bytearray(data)
        for at in chance.sample(range(len(data)), 5):
            damaged[at] = chance.randrange(256)
        parses_or_format_error(bytes(damaged))


FOREIGN = {
    "empty": b"",
    "short": b"LANC",
    "zeros": bytes(100),
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(200),
    "json": b'{"version": 1}' * 10,
    "page": b"<!DOCTYPE html><html>" + b" " * 100 + b"</html>",
    "magic alone": bytes(12) + b"LANC",
    "position before": struct.pack("<qHH4s", -1, 0, 2, b"LANC") * 2,
    "position far off": bytes(8) + struct.pack("<qHH4s", 2**63 - 1, 0, 2, b"LANC"),
    "position is the end": bytes(8) + struct.pack("<qHH4s", 8, 0, 2, b"LANC"),
    "length too long": b"\xff" * 8 + struct.pack("<qHH4s", 0, 0, 2, b"LANC"),
    "no message": struct.pack("<I", 8) + b"\xff" * 8 + struct.pack("<qHH4s", 0, 0, 2, b"LANC"),
}


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN)
def test_foreign_files(data: bytes) -> None:
    """A file of another kind is a FormatError that names the version and says what to think."""
    with pytest.raises(FormatError, match="the file is damaged or foreign") as caught:
        parse_manifest(data, "main@3")
    assert str(caught.value).startswith("The manifest of main@3 ")
    assert caught.value.kind is ErrorKind.FORMAT


def test_a_data_file_is_no_manifest(uris: dict[str, str]) -> None:
    """Lance's data files end with the same magic, and are no manifests all the same."""
    [file, *_] = Path(uris["plain"], "data").iterdir()
    assert file.read_bytes().endswith(b"LANC")
    with pytest.raises(FormatError):
        parse_manifest(file.read_bytes(), "it")


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    """Any bytes are a FormatError or, where they happen to be one, a manifest."""
    parses_or_format_error(data)
    parses_or_format_error(data + struct.pack("<qHH4s", 0, 0, 2, b"LANC"))
    sized = struct.pack("<I", len(data)) + data
    parses_or_format_error(sized + struct.pack("<qHH4s", 0, 0, 2, b"LANC"))


@pytest.mark.parametrize("seconds", [2**63 - 1, -(2**63), 10**12, -(10**12)])
def test_impossible_times(seconds: int) -> None:
    """A time that no clock shows is a FormatError."""
    message = pb.Manifest(version=1, timestamp=pb.Timestamp(seconds=seconds))
    with pytest.raises(FormatError, match="has an impossible time"):
        parse_manifest(file_of(message), "it")


@pytest.mark.parametrize("section", [2**64 - 1, 2**63, 10**6, 99])
def test_an_index_section_outside_the_file(section: int) -> None:
    """An index section that lies nowhere is a FormatError."""
    message = pb.Manifest(version=1, index_section=section)
    with pytest.raises(FormatError, match=r"points outside itself|is cut short"):
        parse_manifest(file_of(message), "it")


def index_of(**fields: Any) -> bytes:
    body = pb.IndexSection(indices=[pb.IndexMetadata(name="i", **fields)]).SerializeToString()
    section = struct.pack("<I", len(body)) + body
    return file_of(pb.Manifest(version=1, index_section=0), section)


@pytest.mark.parametrize("uuid", [b"", b"short", b"x" * 17])
def test_an_index_without_identity(uuid: bytes) -> None:
    """An index whose files would have no folder of their own is a FormatError."""
    data = index_of(uuid=pb.Uuid(uuid=uuid), files=[pb.IndexFile(path="i.idx")])
    with pytest.raises(FormatError):
        parse_manifest(data, "it")


HOSTILE_PATHS = ["../../outside", "/etc/passwd", "a/../../../b", ".."]


@pytest.mark.parametrize("path", HOSTILE_PATHS, ids=ascii)
def test_a_data_file_outside_its_folder(path: str) -> None:
    """A data file's path leads nowhere but below the folder that it is relative to."""
    fragment = pb.DataFragment(files=[pb.DataFile(path=path)])
    with pytest.raises(FormatError):
        parse_manifest(file_of(pb.Manifest(version=1, fragments=[fragment])), "it")


@pytest.mark.parametrize("path", HOSTILE_PATHS, ids=ascii)
def test_an_index_file_outside_its_folder(path: str) -> None:
    """An index file's path leads nowhere but below the folder of its index."""
    with pytest.raises(FormatError):
        parse_manifest(
            index_of(uuid=pb.Uuid(uuid=b"x" * 16), files=[pb.IndexFile(path=path)]), "it"
        )


def set_flags(reader: int = 0, writer: int = 0) -> Callable[[pb.Manifest], None]:
    def change(message: pb.Manifest) -> None:
        message.reader_feature_flags |= reader
        message.writer_feature_flags |= writer

    return change


def refusal(call: Callable[[], object]) -> FormatError | None:
    try:
        call()
    except FormatError as error:
        return error
    return None


def test_unknown_reader_flags_are_refused(uris: dict[str, str]) -> None:
    """A manifest is read if its reader flags are known; writer flags are no matter to readers."""
    data = head_file(uris["plain"]).read_bytes()
    for bit in range(64):
        assert parse_manifest(edited(data, set_flags(writer=1 << bit)), "it").writer_flags >> bit
        flagged = edited(data, set_flags(reader=1 << bit))
        error = refusal(partial(parse_manifest, flagged, "main@1"))
        if bit in KNOWN_BITS:
            assert error is None
            continue
        assert error is not None
        assert error.kind is ErrorKind.UNSUPPORTED_FEATURE
        assert str(error) == (
            f"main@1 uses features (flags {1 << bit}) that this version cannot read: "
            "upgrade airflow-provider-lancerefs."
        )


@pytest.mark.parametrize("side", ["reader", "writer"])
def test_what_is_not_proven_movable_is_refused(uris: dict[str, str], side: str) -> None:
    """Relocation refuses each flag, reader's or writer's, whose files may name their own bases."""
    data = head_file(uris["bases"]).read_bytes()
    errors = {}
    for bit in range(64):
        flagged = edited(data, set_flags(**{side: 1 << bit}))
        errors[bit] = refusal(partial(rewrite_base_paths, flagged, "main@1", str.upper))
    assert {bit for bit, error in errors.items() if error is None} == {*RELOCATABLE_BITS}
    for bit, error in errors.items():
        if error is not None:
            assert error.kind is ErrorKind.UNSUPPORTED_FEATURE
            assert str(error) == (
                f"main@1 uses features (flags {1 << bit}) that this version cannot relocate: "
                "upgrade airflow-provider-lancerefs."
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


def test_manifests_are_plain_values(uris: dict[str, str]) -> None:
    """Two readings of one file are equal, and times are in UTC."""
    assert read(uris["indices"]) == read(uris["indices"])
    assert read(uris["indices"]).created_at.tzinfo is UTC
    assert read(uris["indices"]).created_at <= datetime.now(UTC)


def test_place_and_manifest_agree(tmp_path: Path) -> None:
    """The store's own way to a manifest gives the same as its bytes."""
    place = Place(str(tmp_path)).create().append(4)
    assert place.store().manifest("main@1") == parse_manifest(
        (tmp_path / layout.manifest_path("main", 1)).read_bytes(), "it"
    )
