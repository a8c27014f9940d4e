"""Calls as their users make them, what may go wrong with one, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from airflow_provider_lancerefs.refstore import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    LanceRefsError,
    NotFoundError,
    OutcomeUnknownError,
    RefStore,
    RefusedError,
    StorageError,
)
from tests.refstore.faults import Fuse, Mode
from tests.refstore.model_values import (
    Call,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    DeleteTag,
    Expire,
    MoveTag,
    Outcome,
    Repair,
    SetMetadata,
    ShallowClone,
)

NOW = timedelta(0)


@dataclass(frozen=True)
class Held:
    """A ref as a caller read it, and the bytes that it was."""

    ref: Any
    data: bytes


@dataclass(frozen=True)
class Fault:
    """What goes wrong with a call, and what its caller does next."""

    nth: int
    mode: Mode
    error: type[LanceRefsError]
    then: str

    def fuse(self) -> Fuse:
        return Fuse(self.nth, self.mode, self.error)


FAULTS = st.one_of(
    st.none(),
    st.builds(
        Fault,
        st.sampled_from([1, 1, 1, 2, 2, 3, 3, 4, 5, 7, 10]),
        st.sampled_from(Mode),
        st.sampled_from([OutcomeUnknownError, StorageError]),
        st.sampled_from(["retry", "repair", "go on"]),
    ),
)
_OUTCOMES: tuple[tuple[type[LanceRefsError], Outcome], ...] = (
    (NotFoundError, Outcome.ABSENT),
    (AlreadyExistsError, Outcome.TAKEN),
    (ConflictError, Outcome.CONFLICT),
)


def outcome_of(error: LanceRefsError) -> Outcome:
    if isinstance(error, RefusedError):
        return Outcome.PROTECTED if error.kind is ErrorKind.PROTECTED else Outcome.NEEDED
    for kind, outcome in _OUTCOMES:
        if isinstance(error, kind):
            return outcome
    raise error


def perform(store: RefStore, call: Call) -> Any:
    """The call as a user makes it."""
    match call:
        case CreateBranch():
            return store.create_branch(call.name, str(call.source), call.metadata)
        case DeleteBranch():
            return store.delete_branch(call.name, call.missing_ok, call.force)
        case CreateTag():
            return store.create_tag(call.name, str(call.at), protected=call.protected)
        case MoveTag():
            return store.move_tag(call.held or store.tag(call.name), str(call.at), call.force)
        case DeleteTag():
            return store.delete_tag(call.name, call.missing_ok, call.force)
        case SetMetadata():
            held = call.held or getattr(store, call.kind)(call.name)
            return store.set_metadata(held, call.changes)
    return _perform_large(store, call)


def _perform_large(store: RefStore, call: Call) -> Any:
    match call:
        case Expire():
            return store.expire_branches(call.pattern, NOW, call.dry_run)
        case ShallowClone():
            return store.shallow_clone(call.target, str(call.at))
        case Repair(patient=False):
            return store.check(repair=True, orphan_age=NOW)
        case Repair():
            return store.check(repair=True)
    raise NotImplementedError(call)
