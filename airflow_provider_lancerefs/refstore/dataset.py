"""One dataset as the operations see it: where it is, and how to get in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from airflow_provider_lancerefs.refstore.storage import Storage, open_storage

RESIDUE_GRACE = timedelta(minutes=10)
CREATION_LEASE = timedelta(seconds=15)


@dataclass(frozen=True)
class Dataset:
    """A dataset's storage, pylance's options for it, and how much time others are given.

    `grace` is how long residue is left in peace, `creation_lease` how long a deleter waits for the
    head of a branch that somebody may be creating.
    """

    storage: Storage
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    grace: timedelta = RESIDUE_GRACE
    creation_lease: timedelta = CREATION_LEASE

    @property
    def uri(self) -> str:
        return self.storage.uri

    def at(self, path: str) -> str:
        """The absolute spelling of a path below the dataset root; '' is the root itself."""
        return f"{self.uri}/{path}" if path else self.uri

    def elsewhere(self, uri: str) -> Dataset:
        """Another dataset, reached with the same options."""
        return replace(self, storage=open_storage(uri, self.storage_options))


def now() -> datetime:
    return datetime.now(UTC)
