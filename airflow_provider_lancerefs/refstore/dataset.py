"""One dataset as the operations see it: where it is, and how to get in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from airflow_provider_lancerefs.refstore.storage import Storage, open_storage

RESIDUE_GRACE = timedelta(minutes=10)
CREATION_LEASE = timedelta(seconds=15)
PUBLISH_LEASE = timedelta(minutes=5)


@dataclass(frozen=True)
class Dataset:
    """A dataset's storage, pylance's options for it, and how much time others are given.

    `grace` is how long residue is left in peace, `creation_lease` how long a deleter waits for the
    head of a branch that somebody may be creating, `publish_lease` how long a publisher that says
    nothing is taken to be alive.
    """

    storage: Storage
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    grace: timedelta = RESIDUE_GRACE
    creation_lease: timedelta = CREATION_LEASE
    publish_lease: timedelta = PUBLISH_LEASE

    @property
    def uri(self) -> str:
        return self.storage.uri

    def at(self, path: str) -> str:
        """The absolute spelling of a path below the dataset root; '' is the root itself."""
        return f"{self.uri}/{path}" if path else self.uri

    def reach(self, uri: str) -> tuple[Storage, str]:
        """The storage in which an absolute file URI lies, and its path there."""
        if uri.startswith(f"{self.uri}/"):
            return self.storage, uri[len(self.uri) + 1 :]
        folder, _, name = uri.rpartition("/")
        return self.elsewhere(folder).storage, name

    def elsewhere(self, uri: str) -> Dataset:
        """Another dataset, reached with the same options."""
        return replace(self, storage=open_storage(uri, self.storage_options))


def now() -> datetime:
    return datetime.now(UTC)
