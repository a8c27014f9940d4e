"""Branches, tags, clones and layout of one Lance dataset, on local disk, S3 or in memory.

Start at `RefStore.open(uri)`. Importing this package is cheap, for DAG files do it: the store and
what it stands on are loaded at their first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from airflow_provider_lancerefs.refstore.errors import (
    AlreadyExistsError,
    ConflictError,
    DatasetNotFoundError,
    ErrorKind,
    FormatError,
    InvalidInputError,
    InvalidRefNameError,
    LanceRefsError,
    NotFoundError,
    OutcomeUnknownError,
    PublishRefusedError,
    RefNotFoundError,
    RefusedError,
    StorageError,
    UnsupportedStoreError,
    VersionNotFoundError,
)
from airflow_provider_lancerefs.refstore.models import (
    Branch,
    BranchState,
    BrokenRef,
    DatasetFile,
    Expiry,
    Finding,
    ListedRef,
    LogEntry,
    PublishResult,
    Report,
    Tag,
    Version,
    WriteTarget,
)
from airflow_provider_lancerefs.refstore.names import check_branch_name, check_tag_name
from airflow_provider_lancerefs.refstore.plans import (
    Difference,
    PublishPlan,
    PublishStep,
    Refusal,
    RefusalCode,
    SchemaChange,
)
from airflow_provider_lancerefs.refstore.progress import Progress
from airflow_provider_lancerefs.refstore.revision import Revision, parse_revision

if TYPE_CHECKING:
    from airflow_provider_lancerefs.refstore.manifest import Manifest
    from airflow_provider_lancerefs.refstore.store import RefStore

__all__ = [
    "AlreadyExistsError",
    "Branch",
    "BranchState",
    "BrokenRef",
    "ConflictError",
    "DatasetFile",
    "DatasetNotFoundError",
    "Difference",
    "ErrorKind",
    "Expiry",
    "Finding",
    "FormatError",
    "InvalidInputError",
    "InvalidRefNameError",
    "LanceRefsError",
    "ListedRef",
    "LogEntry",
    "Manifest",
    "NotFoundError",
    "OutcomeUnknownError",
    "Progress",
    "PublishPlan",
    "PublishRefusedError",
    "PublishResult",
    "PublishStep",
    "RefNotFoundError",
    "RefStore",
    "Refusal",
    "RefusalCode",
    "RefusedError",
    "Report",
    "Revision",
    "SchemaChange",
    "StorageError",
    "Tag",
    "UnsupportedStoreError",
    "Version",
    "VersionNotFoundError",
    "WriteTarget",
    "check_branch_name",
    "check_tag_name",
    "parse_revision",
]

_LOADED_AT_FIRST_USE = {"Manifest": "manifest", "RefStore": "store"}


def __getattr__(name: str) -> object:
    if name not in _LOADED_AT_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LOADED_AT_FIRST_USE[name]}"), name)
