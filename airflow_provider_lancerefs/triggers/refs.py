"""Triggers that wait for tags and branches; those of one dataset share one listing per interval.

They hold names only. What is out of order for a while is logged and tried again ever less often;
what can never come true is an event whose status is 'error'.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from airflow_provider_lancerefs.refstore import (
    Branch,
    InvalidInputError,
    LanceRefsError,
    OutcomeUnknownError,
    RefNotFoundError,
    Tag,
    UnsupportedStoreError,
)
from airflow_provider_lancerefs.triggers.conditions import (
    BranchCondition,
    Found,
    TagCondition,
    Until,
    branch_of,
    by_time,
    life_of,
    tag_found,
)
from airflow_provider_lancerefs.triggers.cursor import Cursor
from airflow_provider_lancerefs.triggers.polling import Failure, Subscription
from airflow_provider_lancerefs.triggers.snapshots import (
    BRANCHES,
    TAGS,
    Snapshot,
    in_thread,
    snapshots,
)

if TYPE_CHECKING:
    from airflow_provider_lancerefs.refstore import RefStore

__all__ = [
    "LanceBranchTrigger",
    "LanceTagTrigger",
    "LanceTagWatchTrigger",
    "find_published",
]

# What no waiting mends: in getting at a dataset, and in what is waited for.
_HOPELESS = (AirflowNotFoundException, InvalidInputError, UnsupportedStoreError)
_FINAL = (*_HOPELESS, OutcomeUnknownError, RefNotFoundError)
_MODULE = "airflow_provider_lancerefs.triggers.refs"


class LanceTagTrigger(BaseTrigger):
    """
    Fire once when a tag is there.

    :param dataset: A name below the connection's root, or a full URI.
    :param tag: The tag's name.
    :param pattern: Instead of a name, a glob that any tag may match.
    :param min_version: The least version that the tag may name.
    :param lancerefs_conn_id: The connection.
    :param poke_interval: Seconds between two looks.
    """

    def __init__(
        self,
        *,
        dataset: str,
        tag: str | None = None,
        pattern: str | None = None,
        min_version: int | None = None,
        lancerefs_conn_id: str = "lancerefs_default",
        poke_interval: float = 60.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dataset = dataset
        self.tag = tag
        self.pattern = pattern
        self.min_version = min_version
        self.lancerefs_conn_id = lancerefs_conn_id
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{_MODULE}.LanceTagTrigger", {
            "dataset": self.dataset,
            "tag": self.tag,
            "pattern": self.pattern,
            "min_version": self.min_version,
            "lancerefs_conn_id": self.lancerefs_conn_id,
            "poke_interval": self.poke_interval,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        yield await _event(self._wait())

    async def _wait(self) -> Found:
        wanted = TagCondition.of(self.tag, self.pattern, self.min_version)

        async def look(seen: Snapshot[Tag]) -> Found | None:
            tag = wanted.best(await seen.read(wanted.names(seen.listing.tokens)))
            return tag_found(self.dataset, tag) if tag else None

        with snapshots(TAGS, self.lancerefs_conn_id, self.dataset, self.poke_interval) as shown:
            return await _first(self, shown, look)


class LanceBranchTrigger(BaseTrigger):
    """
    Fire once when a branch exists, has advanced, or was published.

    :param dataset: A name below the connection's root, or a full URI.
    :param branch: The branch's name.
    :param until: 'exists', 'advanced' or 'published'.
    :param after_version: For 'advanced': the version to be passed; else that of the fork.
    :param seen: For 'published': the life of the branch that was seen, so that its publication is
        found in the parent's history when the branch itself is gone.
    :param lancerefs_conn_id: The connection.
    :param poke_interval: Seconds between two looks.
    """

    def __init__(
        self,
        *,
        dataset: str,
        branch: str,
        until: str = Until.EXISTS.value,
        after_version: int | None = None,
        seen: Mapping[str, Any] | None = None,
        lancerefs_conn_id: str = "lancerefs_default",
        poke_interval: float = 60.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dataset = dataset
        self.branch = branch
        self.until = until
        self.after_version = after_version
        self.seen = seen
        self.lancerefs_conn_id = lancerefs_conn_id
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{_MODULE}.LanceBranchTrigger", {
            "dataset": self.dataset,
            "branch": self.branch,
            "until": self.until,
            "after_version": self.after_version,
            "seen": self.seen,
            "lancerefs_conn_id": self.lancerefs_conn_id,
            "poke_interval": self.poke_interval,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        yield await _event(self._wait())

    async def _wait(self) -> Found:
        wanted = BranchCondition.of(self.branch, self.until, self.after_version)
        place = (self.lancerefs_conn_id, self.dataset, self.poke_interval)
        with snapshots(BRANCHES, *place) as shown:
            return await _first(self, shown, lambda seen: self._look(wanted, seen))

    async def _look(self, wanted: BranchCondition, seen: Snapshot[Branch]) -> Found | None:
        branch = next(iter(await seen.read([self.branch])), None)
        if wanted.until is Until.PUBLISHED:
            gone = await in_thread(
                find_published, seen.store, self.dataset, wanted, self.seen, branch
            )
            if gone is not None:
                return gone
            self.seen = life_of(branch) if branch else self.seen
        needs_head = wanted.needs_head and (branch is not None or wanted.of_main)
        head = await seen.head(self.branch) if needs_head else None
        return wanted.found(self.dataset, branch, head)


class LanceTagWatchTrigger(BaseEventTrigger):
    """
    Fire whenever a tag is made or moved: for an ``AssetWatcher``.

    Tags that stand when it first looks are where it starts. From Airflow 3.3 on it takes up after
    a restart where it was, so that nothing is missed; an event may come twice then, with one
    ``key``. Before, what happened while no triggerer ran is missed.

    :param dataset: A name below the connection's root, or a full URI.
    :param pattern: A glob that the tags match.
    :param lancerefs_conn_id: The connection.
    :param poke_interval: Seconds between two looks.
    """

    def __init__(
        self,
        *,
        dataset: str,
        pattern: str = "*",
        lancerefs_conn_id: str = "lancerefs_default",
        poke_interval: float = 60.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dataset = dataset
        self.pattern = pattern
        self.lancerefs_conn_id = lancerefs_conn_id
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{_MODULE}.LanceTagWatchTrigger", {
            "dataset": self.dataset,
            "pattern": self.pattern,
            "lancerefs_conn_id": self.lancerefs_conn_id,
            "poke_interval": self.poke_interval,
        }

    def shared_stream_key(self) -> Hashable | None:
        return (_MODULE, self.lancerefs_conn_id, self.dataset, self.poke_interval)

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Any]:
        """Each look that came to something; the same listing that deferred sensors wait for."""
        place = (kwargs["lancerefs_conn_id"], kwargs["dataset"], kwargs["poke_interval"])
        with snapshots(TAGS, *place) as shown:
            async for seen in shown:
                if not isinstance(seen, Failure):
                    yield seen

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[Snapshot[Tag]]
    ) -> AsyncIterator[TriggerEvent]:
        """The tags that are new or moved since this watcher last looked."""
        cursor = Cursor(self, self.serialize()[1])
        async for seen in shared_stream:
            for tag in sorted(await self._news(cursor, seen), key=by_time):
                yield TriggerEvent(tag_found(self.dataset, tag))

    async def run(self) -> AsyncIterator[TriggerEvent]:
        async with (
            aclosing(self.open_shared_stream(self.serialize()[1])) as stream,  # type: ignore[type-var]
            aclosing(self.filter_shared_stream(stream)) as events,  # type: ignore[type-var]
        ):
            async for event in events:
                yield event

    async def _news(self, cursor: Cursor, seen: Snapshot[Tag]) -> list[Tag]:
        try:
            return await cursor.news(seen)
        except Exception as error:  # raised, it would restart this every two seconds
            self.log.warning(
                "Cannot tell which tags of %s are new, and try again: %s",
                self.dataset,
                _said(error),
            )
            return []


def find_published(
    store: RefStore,
    dataset: str,
    wanted: BranchCondition,
    seen: Mapping[str, Any] | None,
    branch: Branch | None,
) -> Found | None:
    """What became of the life of a branch that was seen, if another stands there now, or none.

    Raises RefNotFoundError where it was deleted without being published.
    """
    before = branch_of(wanted.branch, seen) if seen else None
    if before is None or (branch and branch.identifier == before.identifier):
        return None
    version = store.find_publication(before)
    if version is None:
        raise RefNotFoundError(
            f"The branch {before.name!r} of {dataset} was deleted without being published: it "
            "never will be.",
            ref=before.name,
        )
    return wanted.shown(dataset, before, version)


async def _event(waiting: Coroutine[Any, Any, Found]) -> TriggerEvent:
    """The event that a wait ends with."""
    try:
        return TriggerEvent({"status": "success", **await waiting})
    except _FINAL as error:
        return TriggerEvent({"status": "error", "message": str(error)})


async def _first(
    trigger: BaseTrigger,
    shown: Subscription[Any],
    look: Callable[[Any], Coroutine[Any, Any, Found | None]],
) -> Found:
    """What the first look finds that finds anything."""
    troubled = False
    async for seen in shown:
        try:
            found = None if isinstance(seen, Failure) else await look(seen)
            trouble = seen.error if isinstance(seen, Failure) else None
        except _FINAL:
            raise
        except LanceRefsError as error:
            found, trouble = None, error
        if isinstance(trouble, _HOPELESS):
            raise trouble
        if trouble and not troubled:
            trigger.log.warning("Cannot look, and try again ever less often: %s", _said(trouble))
        if found:
            return found
        troubled = trouble is not None
    raise RuntimeError("The loop that looks has no end.")


def _said(error: Exception) -> str:
    """What may be shown of an error: others' may quote a connection."""
    return str(error) if isinstance(error, LanceRefsError) else type(error).__name__
