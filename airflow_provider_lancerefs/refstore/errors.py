"""Errors, sorted by what the caller does next.

    LanceRefsError
    |- NotFoundError (LookupError)      create it, wait for it, or treat it as absent
    |  |- DatasetNotFoundError
    |  |- RefNotFoundError
    |  `- VersionNotFoundError
    |- AlreadyExistsError               pick another name, or use what is there
    |- ConflictError                    re-read, decide, try again
    |- RefusedError                     change what stands in the way first
    |  `- PublishRefusedError            the plan says what it is
    |- OutcomeUnknownError              re-read before anything else: the write may have landed
    |- InvalidInputError (ValueError)   correct the call
    |  `- InvalidRefNameError
    |- FormatError                      corrupt bytes, or written by something newer
    |- UnsupportedStoreError            use a store that has conditional writes
    `- StorageError                     mend the environment; `__cause__` says what it said

`str()` of each is one sentence for a person; what a program needs is in the attributes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from airflow_provider_lancerefs.refstore.plans import PublishPlan, RefusalCode

__all__ = [
    "AlreadyExistsError",
    "ConflictError",
    "DatasetNotFoundError",
    "ErrorKind",
    "FormatError",
    "InvalidInputError",
    "InvalidRefNameError",
    "LanceRefsError",
    "NotFoundError",
    "OutcomeUnknownError",
    "PublishRefusedError",
    "RefNotFoundError",
    "RefusedError",
    "StorageError",
    "UnsupportedStoreError",
    "VersionNotFoundError",
]


class ErrorKind(StrEnum):
    """A stable code for programs; values are only ever added."""

    NOT_FOUND = "not-found"
    DATASET_NOT_FOUND = "dataset-not-found"
    REF_NOT_FOUND = "ref-not-found"
    VERSION_NOT_FOUND = "version-not-found"
    ALREADY_EXISTS = "already-exists"
    CONFLICT = "conflict"
    REFUSED = "refused"
    PROTECTED = "protected"
    IN_USE = "in-use"
    OUTCOME_UNKNOWN = "outcome-unknown"
    INVALID_INPUT = "invalid-input"
    INVALID_REF_NAME = "invalid-ref-name"
    FORMAT = "format"
    UNSUPPORTED_FEATURE = "unsupported-feature"
    UNSUPPORTED_STORE = "unsupported-store"
    STORAGE = "storage"
    ACCESS_DENIED = "access-denied"
    PUBLISH_REFUSED = "publish-refused"


class LanceRefsError(Exception):
    """Root of everything this library raises on purpose."""

    default_kind: ClassVar[ErrorKind] = ErrorKind.STORAGE

    def __init__(
        self, message: str, *, kind: ErrorKind | None = None, ref: str | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind or self.default_kind
        self.ref = ref


class NotFoundError(LanceRefsError, LookupError):
    """What was named is not there."""

    default_kind = ErrorKind.NOT_FOUND


class DatasetNotFoundError(NotFoundError):
    """No Lance dataset stands at the URI."""

    default_kind = ErrorKind.DATASET_NOT_FOUND


class RefNotFoundError(NotFoundError):
    """No branch or tag of that name."""

    default_kind = ErrorKind.REF_NOT_FOUND


class VersionNotFoundError(NotFoundError):
    """The branch has no such version, or it was cleaned up."""

    default_kind = ErrorKind.VERSION_NOT_FOUND


class AlreadyExistsError(LanceRefsError):
    """The name is taken, by something other than what was asked for."""

    default_kind = ErrorKind.ALREADY_EXISTS


class ConflictError(LanceRefsError):
    """Somebody else changed the ref since it was read."""

    default_kind = ErrorKind.CONFLICT


class RefusedError(LanceRefsError):
    """The store will not do this in the present state: a ref is protected, or another needs it.

    `blockers` names the refs that stand in the way.
    """

    default_kind = ErrorKind.REFUSED

    def __init__(
        self,
        message: str,
        *,
        kind: ErrorKind | None = None,
        ref: str | None = None,
        blockers: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, kind=kind, ref=ref)
        self.blockers = blockers


class PublishRefusedError(RefusedError):
    """A branch cannot be published as things stand, and nothing was; `plan` says why."""

    default_kind = ErrorKind.PUBLISH_REFUSED

    def __init__(
        self,
        message: str,
        *,
        kind: ErrorKind | None = None,
        ref: str | None = None,
        blockers: tuple[str, ...] = (),
        plan: PublishPlan | None = None,
    ) -> None:
        super().__init__(message, kind=kind, ref=ref, blockers=blockers)
        self.plan = plan

    @classmethod
    def of(cls, plan: PublishPlan) -> PublishRefusedError:
        """The error that a plan's refusal is."""
        return cls(str(plan.refusal), ref=plan.branch, plan=plan)

    @property
    def code(self) -> RefusalCode | None:
        """Why, for programs."""
        refusal = self.plan.refusal if self.plan else None
        return refusal.code if refusal else None


class OutcomeUnknownError(LanceRefsError):
    """The reply to a write was lost, and reading back did not settle whether it landed."""

    default_kind = ErrorKind.OUTCOME_UNKNOWN


class InvalidInputError(LanceRefsError, ValueError):
    """The call cannot be right whatever the store holds."""

    default_kind = ErrorKind.INVALID_INPUT


class InvalidRefNameError(InvalidInputError):
    """A branch or tag name breaks a rule of the format."""

    default_kind = ErrorKind.INVALID_REF_NAME


class FormatError(LanceRefsError):
    """A file is corrupt, or needs features that this version does not know."""

    default_kind = ErrorKind.FORMAT


class UnsupportedStoreError(LanceRefsError):
    """The store cannot create or replace an object conditionally, so it is not raced."""

    default_kind = ErrorKind.UNSUPPORTED_STORE


class StorageError(LanceRefsError):
    """The store failed or denied access; `__cause__` holds its own error."""

    default_kind = ErrorKind.STORAGE
