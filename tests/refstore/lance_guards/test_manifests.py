"""What pylance writes into manifests, and what it takes."""

from __future__ import annotations

import json
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import lance
import pytest
from google.protobuf.wrappers_pb2 import UInt64Value
from lance import LanceDataset, LanceOperation

from tests.refstore.lance_guards.looking import (
    OLD_BRANCH,
    branch_in_root,
    clone,
    edit_manifest,
    files,
    fragments,
    manifest,
    manifest_file,
    message,
    new_fragments,
    rebased,
    rows,
    sized,
    update,
    write,
)

READER_FLAGS, WRITER_FLAGS = b"\x48", b"\x50"
FLAG_BITS_UNDERSTOOD = {0, 1, 2, 3, 4, 5, 7, 8, 10, 11, 14, 15}


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


def test_transaction_properties_are_readable(parent: LanceDataset) -> None:
    """The properties of a transaction committed by hand are read back by version."""
    operation = LanceOperation.Update(new_fragments=new_fragments(parent.uri, 100))
    transaction = lance.Transaction(2, operation, transaction_properties={"lancerefs": "b@7"})
    write(LanceDataset.commit(parent.uri, transaction).uri, 9)
    found = lance.dataset(parent.uri).read_transaction(3)
    assert found.transaction_properties == {"lancerefs": "b@7"}
