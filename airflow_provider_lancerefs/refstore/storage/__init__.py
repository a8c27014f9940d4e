"""Places that keep a dataset's objects: memory, local disk and S3."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from airflow_provider_lancerefs.refstore.errors import InvalidInputError, UnsupportedStoreError
from airflow_provider_lancerefs.refstore.storage.base import Blob, Entry, Storage

__all__ = ["Blob", "Entry", "Storage", "checked_options", "normalise_uri", "open_storage"]


def normalise_uri(uri: str | os.PathLike[str]) -> str:
    """The one spelling of a dataset's place: an absolute path, or a URI without a closing '/'."""
    text = os.fspath(uri) if isinstance(uri, str | os.PathLike) else uri
    if not isinstance(text, str) or not _is_plain(text):
        raise InvalidInputError("A dataset's URI is a path or a URI, and not empty.")
    scheme, separator, rest = text.partition("://")
    if not separator:
        return os.path.abspath(text)
    scheme = scheme.lower()
    if scheme == "file":
        path = unquote(urlsplit(text).path)
        if not path.startswith("/") or not _is_plain(path):
            raise InvalidInputError(f"{text!r} does not name a dataset: write file:///path.")
        return os.path.abspath(path)
    rest = rest.rstrip("/")
    if not all(part not in ("", ".", "..") for part in rest.split("/")):
        raise InvalidInputError(f"{text!r} does not name a dataset.")
    return f"{'s3' if scheme == 's3a' else scheme}://{rest}"


def checked_options(storage_options: Mapping[str, str]) -> dict[str, str]:
    """pylance's options as they may be given; the error shows no value, which may be a secret."""
    if not isinstance(storage_options, Mapping) or not all(
        isinstance(part, str) for pair in storage_options.items() for part in pair
    ):
        raise InvalidInputError("Storage options are a map of strings to strings.")
    return dict(storage_options)


def _is_plain(text: str) -> bool:
    """Neither empty nor with what no file system can spell."""
    return bool(text) and "\0" not in text and text.encode(errors="replace").decode() == text


def open_storage(uri: str, storage_options: Mapping[str, str] | None = None) -> Storage:
    """The storage at a normalised URI. Nothing is contacted before the first call.

    Raises UnsupportedStoreError for a scheme without proven conditional writes.
    """
    scheme = uri.partition("://")[0] if "://" in uri else "file"
    if scheme == "file":
        from airflow_provider_lancerefs.refstore.storage.local import LocalStorage

        return LocalStorage(uri)
    if scheme == "memory":
        from airflow_provider_lancerefs.refstore.storage.memory import MemoryStorage

        return MemoryStorage(uri)
    if scheme == "s3":
        try:
            from airflow_provider_lancerefs.refstore.storage.s3 import S3Storage
        except ImportError as error:
            raise UnsupportedStoreError(
                "Datasets on S3 need s3fs: install airflow-provider-lancerefs[s3]."
            ) from error
        return S3Storage(uri, storage_options or {})
    raise UnsupportedStoreError(
        f"{scheme}:// has no conditional writes that this library has proven: "
        "use a local path, s3:// or memory://."
    )
