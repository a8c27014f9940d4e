"""Tables made by pylance, and their files as they are."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import lance
import pyarrow as pa
from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet
from lance import LanceDataset, LanceOperation
from lance.fragment import FragmentMetadata, write_fragments

SCHEMA = pa.schema([("a", pa.int64())])
TAG = {"branch": None, "version": 1, "manifestSize": 400}
OLD_BRANCH = {"parentBranch": None, "parentVersion": 1, "createAt": 17 * 10**8, "manifestSize": 400}
BRANCH = {**OLD_BRANCH, "identifier": {"version_mapping": [[1, "1" * 32]]}, "metadata": {}}
NIL_IDENTIFIER = {"version_mapping": [[0, "0" * 32]]}
SNAKE_BRANCH = {"parent_branch": None, "parent_version": 1, "create_at": 1, "manifest_size": 400}
SNAKE_TAG = {"branch": None, "version": 1, "manifest_size": 400}


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
