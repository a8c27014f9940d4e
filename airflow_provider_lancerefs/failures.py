"""Which errors of the ref store a retry can help, for Airflow to know."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowNotFoundException

from airflow_provider_lancerefs.refstore.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FormatError,
    InvalidInputError,
    LanceRefsError,
    NotFoundError,
    PublishRefusedError,
    RefusedError,
    UnsupportedStoreError,
)
from airflow_provider_lancerefs.refstore.plans import RefusalCode

__all__ = ["can_pass", "failing_for_good", "patiently"]

_HOPELESS = (
    AlreadyExistsError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    RefusedError,
    UnsupportedStoreError,
)
_PASSING = (RefusalCode.PARENT_TOO_BUSY, RefusalCode.LANCE_REFUSED)
_PAUSE = 2.0
_Result = TypeVar("_Result")


@contextmanager
def failing_for_good() -> Iterator[None]:
    """Fail the task at once where a retry cannot help; other errors pass, and are retried."""
    try:
        yield
    except AirflowNotFoundException as error:
        raise AirflowFailException(str(error)) from error
    except LanceRefsError as error:
        if can_pass(error):
            raise
        raise AirflowFailException(str(error)) from error


def can_pass(error: LanceRefsError) -> bool:
    """Whether what is in the way may be gone at the next try."""
    if isinstance(error, PublishRefusedError):
        return error.code in _PASSING
    if _is_busy(error):
        return True
    return not isinstance(error, _HOPELESS) and error.kind is not ErrorKind.ACCESS_DENIED


def patiently(seconds: float, call: Callable[[], _Result]) -> _Result:
    """Make a call again while somebody else is busy with the branch, for so long at most."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except (ConflictError, RefusedError) as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(min(_PAUSE, seconds / 4))


def _is_busy(error: LanceRefsError) -> bool:
    if isinstance(error, RefusedError):
        return error.kind is ErrorKind.IN_USE and not error.blockers
    return isinstance(error, ConflictError)
