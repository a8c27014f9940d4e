"""Killing who writes a version of a table, at the moment when the server is asked for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_provider_lancerefs.refstore import layout
from tests.services.proxy import Fault, Request


@dataclass
class ManifestKiller:
    """Kills, once, whoever writes one version's manifest, and lets that be done, or not.

    It is for a proxy, as `fault` and `passes`.
    """

    kill: Callable[[], None]
    version: int
    done: bool
    killed: threading.Event = field(default_factory=threading.Event)

    def fault(self, request: Request) -> Fault | None:
        return "drop request" if not self.done and self._strikes(request) else None

    def passes(self, request: Request, status: int) -> bool:
        return not (self.done and status < 300 and self._strikes(request))

    def _strikes(self, request: Request) -> bool:
        if (
            self.killed.is_set()
            or request.method != "PUT"
            or layout.manifest_number(request.path) != self.version
        ):
            return False
        self.kill()
        self.killed.set()
        return True
