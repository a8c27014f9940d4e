"""A trigger that finds out how late the triggerer's event loop is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

TICK = 0.01
TICKS = 100


class LoopProbe(BaseTrigger):
    """Sleeps for a hundredth of a second, again and again, and says how much longer it took."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.LoopProbe", {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        loop = asyncio.get_running_loop()
        while True:
            late = []
            for _ in range(TICKS):
                began = loop.time()
                await asyncio.sleep(TICK)
                late.append(loop.time() - began - TICK)
            yield TriggerEvent({"late": late})
