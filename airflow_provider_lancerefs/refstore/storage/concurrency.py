"""Doing what does not depend on one another at the same time, where that saves waiting."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from airflow_provider_lancerefs.refstore.errors import LanceRefsError
from airflow_provider_lancerefs.refstore.storage.base import Storage

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")
_PARALLEL = 8


@contextlib.contextmanager
def side_by_side(storage: Storage) -> Iterator[Executor]:
    """Calls given to this run at once if the storage is remote, else each when it is given.

    Once the block is left all have ended; what a call raised is raised by asking for its result.
    """
    if not storage.is_remote:
        yield _InTurn()
        return
    with ThreadPoolExecutor(_PARALLEL) as pool:
        yield pool


class _InTurn(Executor):
    """Runs a call before it takes the next: a thread costs more than a disk's answer."""

    def submit(
        self, fn: Callable[_Given, _Result], /, *args: _Given.args, **kwargs: _Given.kwargs
    ) -> Future[_Result]:
        future: Future[_Result] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except LanceRefsError as error:
            future.set_exception(error)
        return future
