"""Small Lance tables of one whole-number column, written and read with pylance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

import lance
import pyarrow as pa

from airflow_provider_lancerefs.refstore import RefStore


@dataclass(frozen=True)
class Place:
    """Where a test's dataset is, and how both libraries get in."""

    uri: str
    options: dict[str, str] = field(default_factory=dict)

    def store(self, **arguments: object) -> RefStore:
        return RefStore.open(self.uri, self.options, **arguments)  # type: ignore[arg-type]

    def branch(self, name: str) -> Place:
        """A branch's folder is a dataset like any other to pylance."""
        return Place(f"{self.uri}/tree/{name}", self.options)

    def beside(self, name: str) -> Place:
        return Place(f"{self.uri}-{name}", self.options)

    def create(self, values: Iterable[int] = (1, 2, 3), **arguments: object) -> Place:
        self._write(values, mode="create", **arguments)
        return self

    def append(self, *values: int) -> Place:
        self._write(values, mode="append")
        return self

    def overwrite(self, *values: int) -> Place:
        self._write(values, mode="overwrite")
        return self

    def delete(self, predicate: str) -> None:
        self.open().delete(predicate)

    def open(self) -> lance.LanceDataset:
        return lance.dataset(self.uri, storage_options=self.options or None)

    def values(self, version: int | None = None) -> list[int]:
        dataset = lance.dataset(self.uri, version=version, storage_options=self.options or None)
        return sorted(dataset.to_table().column("n").to_pylist())

    def clean_up(self) -> None:
        """Have pylance remove all versions that nothing names, and all files of no version."""
        self.open().cleanup_old_versions(
            older_than=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
        )

    def files_below(self, prefix: str) -> list[str]:
        return [entry.path for entry in self.store()._dataset.storage.list(prefix)]

    def _write(self, values: Iterable[int], mode: str, **arguments: object) -> None:
        lance.write_dataset(
            pa.table({"n": pa.array(list(values), pa.int64())}),
            self.uri,
            mode=mode,
            storage_options=self.options or None,
            **arguments,
        )
