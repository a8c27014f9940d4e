"""What is no whole manifest is a FormatError, and nothing else gets out."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_lancerefs.refstore import ErrorKind, FormatError
from airflow_provider_lancerefs.refstore._proto import lance_table_pb2 as pb
from airflow_provider_lancerefs.refstore.manifest import parse_manifest, rewrite_base_paths
from tests.refstore.manifests.files import FOREIGN, file_of, head_file


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
