"""Datasets with a branch to publish, on the S3 server (made around the proxy) or on local disk."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import lance
import numpy as np
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments
from pyarrow.fs import LocalFileSystem, copy_files

from airflow_provider_lancerefs.refstore import RefStore
from tests.bench.publish_calls import BRANCH
from tests.bench.publish_results import Size, Way
from tests.bench.stage import files_of
from tests.services.seaweed import BUCKET, S3Server

OLD_ROWS = 1_000  # on main when the branch is made, and as many more afterwards


class Ground(Protocol):
    """Where datasets are made."""

    options: Mapping[str, str]

    def uri(self, name: str) -> str: ...

    def put(self, folder: Path, uri: str) -> None:
        """Copy a folder's files to another."""

    def remove(self, uri: str) -> None: ...


class OnDisk:
    def __init__(self, folder: Path) -> None:
        self.options: Mapping[str, str] = {}
        self._folder = folder

    def uri(self, name: str) -> str:
        return str(self._folder / name)

    def put(self, folder: Path, uri: str) -> None:
        Path(uri).mkdir(exist_ok=True)
        for file in folder.iterdir():
            os.link(file, Path(uri, file.name))

    def remove(self, uri: str) -> None:
        shutil.rmtree(uri)


class OnServer:
    def __init__(self, server: S3Server) -> None:
        self.options: Mapping[str, str] = server.storage_options()
        self._files = files_of(server)

    def uri(self, name: str) -> str:
        return f"s3://{BUCKET}/{name}"

    def put(self, folder: Path, uri: str) -> None:
        copy_files(
            str(folder),
            uri.removeprefix("s3://"),
            source_filesystem=LocalFileSystem(),
            destination_filesystem=self._files,
        )

    def remove(self, uri: str) -> None:
        self._files.delete_dir(uri.removeprefix("s3://"))


class NewRows:
    """The data files of a size, written once; every dataset gets them, and its own fragments."""

    def __init__(self, folder: Path, size: Size) -> None:
        self.size = size
        self.folder = folder / "data"
        self._fragments = write_fragments(
            _table(size.rows, size.columns, new=True),
            str(folder),
            mode="create",
            max_rows_per_file=size.rows // size.files,
        )
        if len(self._fragments) != size.files:
            raise RuntimeError(f"{size} came to {len(self._fragments)} files.")

    def fragments(self, base_id: int | None) -> list[FragmentMetadata]:
        found = copy.deepcopy(self._fragments)
        for file in (file for fragment in found for file in fragment.files):
            file.base_id = base_id
        return found


def build(ground: Ground, name: str, new: NewRows, way: Way) -> str:
    """A dataset whose branch has the new rows, and whose main has moved on; its URI.

    As a distributed writer does it: files first, through the write target or into the branch's
    folder, then one commit on the branch.
    """
    uri, options = ground.uri(name), dict(ground.options)
    old = _table(OLD_ROWS, new.size.columns, new=False)
    lance.write_dataset(old, uri, storage_options=options)
    store = RefStore.open(uri, options)
    store.create_branch(BRANCH)
    lance.write_dataset(old, uri, mode="append", storage_options=options)
    target = store.write_target(BRANCH)
    there = lance.dataset(f"{uri}/tree/{BRANCH}", storage_options=options)
    in_branch = way is Way.COPIES
    ground.put(new.folder, f"{there.uri if in_branch else target.uri}/data")
    lance.LanceDataset.commit(
        there.uri,
        lance.LanceOperation.Append(new.fragments(None if in_branch else target.base_id)),
        read_version=there.version,
        storage_options=options,
    )
    return uri


def check(ground: Ground, uri: str, size: Size) -> None:
    """The new rows are on main, once, beside both lots of old ones."""
    found = lance.dataset(uri, storage_options=dict(ground.options)).count_rows()
    if found != size.rows + 2 * OLD_ROWS:
        raise RuntimeError(f"{size}: main has {found:,} rows afterwards.")


def _table(rows: int, columns: int, *, new: bool) -> pa.Table:
    """Random numbers, of which new rows have one that is not negative in front."""
    random = np.random.default_rng(rows)
    lowest, highest = -(2**63), 2**63 - 1
    first = random.integers(0, highest, rows) if new else random.integers(lowest, 0, rows)
    others = (random.integers(lowest, highest, rows) for _ in range(1, columns))
    return pa.table({f"n{column}": values for column, values in enumerate([first, *others])})
