"""Branches, tags, clones and layout of one Lance dataset, on local disk, S3 or in memory.

Start at `RefStore.open(uri)`. Importing this package loads neither pylance nor a storage library.
"""

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
    Report,
    Tag,
    Version,
)
from airflow_provider_lancerefs.refstore.names import check_branch_name, check_tag_name
from airflow_provider_lancerefs.refstore.revision import Revision, parse_revision
from airflow_provider_lancerefs.refstore.store import RefStore

__all__ = [
    "AlreadyExistsError",
    "Branch",
    "BranchState",
    "BrokenRef",
    "ConflictError",
    "DatasetFile",
    "DatasetNotFoundError",
    "ErrorKind",
    "Expiry",
    "Finding",
    "FormatError",
    "InvalidInputError",
    "InvalidRefNameError",
    "LanceRefsError",
    "NotFoundError",
    "OutcomeUnknownError",
    "RefNotFoundError",
    "RefStore",
    "RefusedError",
    "Report",
    "Revision",
    "StorageError",
    "Tag",
    "UnsupportedStoreError",
    "Version",
    "VersionNotFoundError",
    "check_branch_name",
    "check_tag_name",
    "parse_revision",
]
