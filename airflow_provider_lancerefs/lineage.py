"""Lance datasets as OpenLineage names them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from airflow_provider_lancerefs.hooks.refs import LanceRefsHook

__all__ = ["lineage_of", "namespace_and_name"]


def lineage_of(hook: LanceRefsHook, datasets: Iterable[str]) -> Any:
    """What a task did its work on, as inputs and outputs. Contacts no storage."""
    from airflow.providers.common.compat.openlineage.facet import Dataset  # optional
    from airflow.providers.openlineage.extractors import OperatorLineage

    named = [namespace_and_name(hook.dataset_uri(one)) for one in datasets]
    return OperatorLineage(outputs=[Dataset(namespace=space, name=name) for space, name in named])


def namespace_and_name(uri: str) -> tuple[str, str]:
    """A dataset's namespace and name by OpenLineage's rules for object stores and files."""
    parts = urlsplit(uri)
    if parts.scheme in ("", "file"):
        return "file", parts.path
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")
