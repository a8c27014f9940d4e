"""Where a watcher of tags is: what it has seen, kept over a restart where Airflow can."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
from collections import deque
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from airflow.triggers.base import BaseEventTrigger

from airflow_provider_lancerefs.refstore import Tag
from airflow_provider_lancerefs.triggers.snapshots import Listing, Snapshot, in_thread

HANDED_OVER_SECONDS = 5.0
_DIGEST_BYTES = 6

log = logging.getLogger(__name__)


class Cursor:
    """Tells the tags that are new or moved; one watcher's, for its life.

    What is kept lags behind by as long as Airflow may take to store an event: killed in between,
    it hands the event over a second time, rather than never.
    """

    def __init__(self, trigger: BaseEventTrigger, names: Mapping[str, Any]) -> None:
        self._keeper = Keeper(trigger, names)
        self._pattern = str(names["pattern"])
        self._listing: Listing | None = None
        self._tags: dict[str, Tag] = {}
        self._to_keep: deque[tuple[float, str]] = deque()

    async def news(self, seen: Snapshot[Tag]) -> list[Tag]:
        """The tags that are new or moved since the last call, or since the run before this one."""
        changed = seen.listing is not self._listing
        fresh = await self._changes(seen) if changed else []
        await self._keep()
        return fresh

    async def _changes(self, seen: Snapshot[Tag]) -> list[Tag]:
        names = [name for name in seen.listing.since(self._listing) if self._fits(name)]
        tags = await seen.read(names)
        if self._listing is None:
            kept = await self._keeper.load()
            fresh = [] if kept is None else [tag for tag in tags if digest(tag) not in kept]
            delay = HANDED_OVER_SECONDS if fresh else 0.0
        else:
            fresh = [tag for tag in tags if self._is_news(tag)]
            delay = HANDED_OVER_SECONDS
        kept_on = {name: tag for name, tag in self._tags.items() if name in seen.listing.tokens}
        self._tags = {**kept_on, **{tag.name: tag for tag in tags}}
        self._listing = seen.listing
        self._to_keep.append((asyncio.get_running_loop().time() + delay, digests(self._tags)))
        return fresh

    def _is_news(self, tag: Tag) -> bool:
        before = self._tags.get(tag.name)
        return before is None or (before.branch, before.version) != (tag.branch, tag.version)

    def _fits(self, name: str) -> bool:
        return fnmatchcase(name, self._pattern)

    async def _keep(self) -> None:
        """Keep the newest state whose events are stored by now."""
        due = None
        while self._to_keep and self._to_keep[0][0] <= asyncio.get_running_loop().time():
            due = self._to_keep.popleft()
        if due is not None and not await self._keeper.save(due[1]):
            self._to_keep.appendleft(due)


class Keeper:
    """Keeps a watcher's state beside its asset, from Airflow 3.3 on; before that, not at all."""

    def __init__(self, trigger: BaseEventTrigger, names: Mapping[str, Any]) -> None:
        self._store = getattr(trigger, "asset_state_store", None)
        watched = [names["lancerefs_conn_id"], names["dataset"], names["pattern"]]
        mark = hashlib.sha256(json.dumps(watched).encode()).hexdigest()[:16]
        self._key = f"lancerefs.tags.{mark}"
        self._failing = False

    async def load(self) -> set[str] | None:
        """The digests of the tags that were seen; None where none ever was kept."""
        if self._store is None:
            return None
        try:
            kept = await self._call("get", self._key, None)
        except ValueError as error:
            log.warning("What was seen is not kept over a restart: %s", error)
            self._store = None
            return None
        return split(kept["tags"]) if kept else None

    async def save(self, kept: str) -> bool:
        """Whether that came off; if not, it is worth another try."""
        if self._store is None:
            return True
        try:
            await self._call("set", self._key, {"tags": kept})
        except Exception as error:  # the watcher goes on, and keeps the next state as well
            if not self._failing:
                log.warning("Cannot keep which tags were seen: %s", type(error).__name__)
            self._failing = True
            return False
        self._failing = False
        return True

    async def _call(self, verb: str, *arguments: object) -> Any:
        """Airflow 3.3.0 and 3.3.1 have the blocking calls only."""
        if hasattr(self._store, f"a{verb}"):
            return await getattr(self._store, f"a{verb}")(*arguments)
        return await in_thread(getattr(self._store, verb), *arguments)


def digest(tag: Tag) -> str:
    """A tag at its version, in eight characters: a thousand tags have to fit beside an asset."""
    said = f"{tag.name}\0{tag.branch}\0{tag.version}".encode()
    return base64.urlsafe_b64encode(
        hashlib.blake2b(said, digest_size=_DIGEST_BYTES).digest()
    ).decode()


def digests(tags: Mapping[str, Tag]) -> str:
    return "".join(sorted(digest(tag) for tag in tags.values()))


def split(kept: str) -> set[str]:
    length = len(base64.b64encode(bytes(_DIGEST_BYTES)))
    return {kept[start : start + length] for start in range(0, len(kept), length)}
