"""What a dataset's refs are, seen by one listing for all who wait for any of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from airflow_provider_lancerefs.hooks.refs import LanceRefsHook
from airflow_provider_lancerefs.refstore import (
    Branch,
    BrokenRef,
    LanceRefsError,
    ListedRef,
    NotFoundError,
    Tag,
)
from airflow_provider_lancerefs.triggers.polling import Subscription, subscribed

if TYPE_CHECKING:
    from airflow_provider_lancerefs.refstore import RefStore

_Ref = TypeVar("_Ref", Branch, Tag)
_Result = TypeVar("_Result")
CONNECTION_SECONDS = 300.0
_THREADS = ThreadPoolExecutor(4, thread_name_prefix="lancerefs-look")

log = logging.getLogger(__name__)


async def in_thread(call: Callable[..., _Result], *arguments: object) -> _Result:
    """Run a call that blocks in one of few threads, which no other trigger waits for."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, call, *arguments)


@dataclass(frozen=True)
class Kind(Generic[_Ref]):
    """How refs of a kind are listed, and read by name."""

    name: str
    enumerate: Callable[[RefStore], list[ListedRef]]
    find: Callable[[RefStore, Iterable[str]], list[_Ref | BrokenRef]]


BRANCHES: Kind[Branch] = Kind(
    "branch", lambda store: store.list_branches(), lambda store, names: store.find_branches(names)
)
TAGS: Kind[Tag] = Kind(
    "tag", lambda store: store.list_tags(), lambda store, names: store.find_tags(names)
)


@dataclass(frozen=True, eq=False)
class Listing:
    """Names and tokens; the same object as long as none changes."""

    tokens: Mapping[str, str]
    before: Mapping[str, str] | None
    changed: tuple[str, ...]

    @classmethod
    def of(cls, listed: Iterable[ListedRef], last: Listing | None) -> Listing:
        tokens = {one.name: one.token for one in listed}
        if last is None:
            return cls(tokens, None, tuple(tokens))
        return last if tokens == last.tokens else cls(tokens, last.tokens, _differ(tokens, last))

    def since(self, last: Listing | None) -> Iterable[str]:
        """The names that are new or changed since an earlier listing, or ever."""
        if last is self:
            return ()
        if last is None:
            return self.tokens
        return self.changed if last.tokens is self.before else _differ(self.tokens, last)


class Snapshot(Generic[_Ref]):
    """The refs of one kind at one time. What they say is read when it is first asked for.

    A ref that has not changed since an earlier snapshot is not read again.
    """

    def __init__(
        self,
        source: RefSource[_Ref],
        store: RefStore,
        listing: Listing,
        last: Snapshot[_Ref] | None,
    ) -> None:
        self.store = store
        self.listing = listing
        self._source: RefSource[_Ref] = source
        self._failure: LanceRefsError | None = None
        self._heads: dict[str, int | None] = {}
        self._refs: dict[str, _Ref | None] = {}
        if last is not None:
            self._refs = last._refs if last.listing is listing else last._kept(listing)

    async def read(self, names: Iterable[str]) -> list[_Ref]:
        """Those of these refs that can be read."""
        listed = [name for name in names if name in self.listing.tokens]
        if any(name not in self._refs for name in listed):
            async with self._source.reading:
                await self._read([name for name in listed if name not in self._refs])
        found = (self._refs[name] for name in listed)
        return [ref for ref in found if ref is not None]

    async def head(self, branch: str) -> int | None:
        """A branch's newest version, asked for once in each snapshot."""
        async with self._source.reading:
            if branch not in self._heads:
                self._check()
                self._heads[branch] = await self._attempt(find_head, self.store, branch)
        return self._heads[branch]

    def _kept(self, listing: Listing) -> dict[str, _Ref | None]:
        tokens = self.listing.tokens
        return {
            name: ref
            for name, ref in self._refs.items()
            if name in tokens and listing.tokens.get(name) == tokens[name]
        }

    async def _read(self, names: list[str]) -> None:
        if not names:
            return
        self._check()
        found: dict[str, _Ref | None] = dict.fromkeys(names)
        for ref in await self._attempt(self._source.kind.find, self.store, names):
            if isinstance(ref, BrokenRef):
                log.warning("The %s %r cannot be read: %s", ref.kind, ref.name, ref.broken)
            else:
                found[ref.name] = ref
        self._refs.update(found)

    def _check(self) -> None:
        """Of many that ask for what cannot be read, one only waits for the server."""
        if self._failure is not None:
            raise self._failure

    async def _attempt(self, call: Callable[..., _Result], *arguments: object) -> _Result:
        try:
            return await in_thread(call, *arguments)
        except LanceRefsError as error:
            self._failure = error
            raise


class RefSource(Generic[_Ref]):
    """Lists a dataset's refs of one kind: one request per thousand."""

    def __init__(self, kind: Kind[_Ref], conn_id: str, dataset: str) -> None:
        self.kind: Kind[_Ref] = kind
        self.reading = asyncio.Lock()
        self._conn_id = conn_id
        self._dataset = dataset
        self._store: RefStore | None = None
        self._stale = 0.0
        self._last: Snapshot[_Ref] | None = None

    async def look(self) -> Snapshot[_Ref]:
        store = await self._open()
        try:
            listed = await in_thread(self.kind.enumerate, store)
        except LanceRefsError:
            self._store = None  # its connection may have been changed
            raise
        listing = Listing.of(listed, self._last.listing if self._last else None)
        self._last = Snapshot(self, store, listing, self._last)
        return self._last

    async def _open(self) -> RefStore:
        if self._store is None or time.monotonic() >= self._stale:
            hook = LanceRefsHook(lancerefs_conn_id=self._conn_id)
            self._store = await hook.aget_store(self._dataset)
            self._stale = time.monotonic() + CONNECTION_SECONDS
        return self._store


def snapshots(
    kind: Kind[_Ref], conn_id: str, dataset: str, interval: float
) -> AbstractContextManager[Subscription[Snapshot[_Ref]]]:
    """Subscribe to a dataset's refs of one kind."""
    key = (kind.name, conn_id, dataset, interval)
    return subscribed(key, partial(RefSource, kind, conn_id, dataset), interval)


def find_head(store: RefStore, branch: str) -> int | None:
    """A branch's newest version, or None where it has none yet."""
    try:
        return store.resolve("main" if branch == "main" else f"branch:{branch}").number
    except NotFoundError:
        return None


def _differ(tokens: Mapping[str, str], last: Listing) -> tuple[str, ...]:
    return tuple(name for name, token in tokens.items() if last.tokens.get(name) != token)
