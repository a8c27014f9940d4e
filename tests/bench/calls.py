"""The calls that are compared: the ref store's, and pylance's own for the same thing.

Both classes have the same names. Each call takes the dataset's site and the name that it makes,
reads or removes; importing this module loads all that the calls need.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import lance
import s3fs  # noqa: F401  # so that no call's time holds its import

from airflow_provider_lancerefs.refstore import Branch, RefStore, Tag
from tests.services.seaweed import S3Server

SOURCE = "source"


@dataclass(frozen=True)
class Site:
    """A dataset, and the port by which its server is reached: its own, or the proxy's."""

    uri: str
    server: S3Server
    port: int

    @property
    def options(self) -> dict[str, str]:
        return self.server.storage_options(self.port)

    def clone_uri(self, name: str) -> str:
        return f"{self.uri}-clones/{name}"


@cache
def store(site: Site) -> RefStore:
    return RefStore.open(site.uri, site.options)


@cache
def dataset(site: Site) -> lance.LanceDataset:
    return lance.dataset(site.uri, storage_options=site.options)


class Ours:
    """Through RefStore, which holds no state: each call finds the newest version by itself."""

    @staticmethod
    def open(site: Site, _: str) -> None:
        RefStore.open(site.uri, site.options)

    @staticmethod
    def read_tag(site: Site, name: str) -> None:
        store(site).tag(name)

    @staticmethod
    def create_tag(site: Site, name: str) -> None:
        store(site).create_tag(name, "main")

    @staticmethod
    def create_tag_on_branch(site: Site, name: str) -> None:
        store(site).create_tag(name, f"branch:{SOURCE}")

    @staticmethod
    def move_tag(site: Site, name: str) -> None:
        store(site).move_tag(store(site).tag(name), "main")

    @staticmethod
    def tag_names(site: Site, _: str) -> int:
        return len(store(site).tag_names())

    @staticmethod
    def tags(site: Site, _: str) -> int:
        return sum(isinstance(tag, Tag) for tag in store(site).tags())

    @staticmethod
    def branch_names(site: Site, _: str) -> int:
        return len(store(site).branch_names())

    @staticmethod
    def branches(site: Site, _: str) -> int:
        return sum(isinstance(branch, Branch) for branch in store(site).branches())

    @staticmethod
    def create_branch(site: Site, name: str) -> None:
        store(site).create_branch(name)

    @staticmethod
    def create_branch_from_branch(site: Site, name: str) -> None:
        store(site).create_branch(name, f"branch:{SOURCE}")

    @staticmethod
    def delete_branch(site: Site, name: str) -> None:
        store(site).delete_branch(name)

    @staticmethod
    def clone(site: Site, name: str) -> None:
        store(site).shallow_clone(site.clone_uri(name))


class Theirs:
    """Through a LanceDataset that is open already, on the version that it was opened at."""

    @staticmethod
    def open(site: Site, _: str) -> None:
        lance.dataset(site.uri, storage_options=site.options)

    @staticmethod
    def read_tag(site: Site, name: str) -> None:
        dataset(site).tags.get_version(name)

    @staticmethod
    def create_tag(site: Site, name: str) -> None:
        dataset(site).tags.create(name)

    @staticmethod
    def create_tag_on_branch(site: Site, name: str) -> None:
        dataset(site).tags.create(name, (SOURCE, None))

    @staticmethod
    def move_tag(site: Site, name: str) -> None:
        dataset(site).tags.update(name)

    @staticmethod
    def tags(site: Site, _: str) -> int:
        return len(dataset(site).tags.list())

    @staticmethod
    def branches(site: Site, _: str) -> int:
        return len(dataset(site).branches.list())

    # It has no call for the names alone.
    tag_names = tags
    branch_names = branches

    @staticmethod
    def create_branch(site: Site, name: str) -> None:
        dataset(site).create_branch(name)

    @staticmethod
    def create_branch_from_branch(site: Site, name: str) -> None:
        dataset(site).create_branch(name, (SOURCE, None))

    @staticmethod
    def delete_branch(site: Site, name: str) -> None:
        dataset(site).branches.delete(name)

    @staticmethod
    def clone(site: Site, name: str) -> None:
        dataset(site).shallow_clone(site.clone_uri(name), dataset(site).version)


Library: TypeAlias = type[Ours] | type[Theirs]
