"""Lance datasets as OpenLineage names them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_lancerefs.refstore.storage import normalise_uri

if TYPE_CHECKING:
    from airflow_provider_lancerefs.hooks.refs import LanceRefsHook

__all__ = ["lineage_of", "namespace_and_name"]


def lineage_of(hook: LanceRefsHook, outputs: Iterable[str], inputs: Iterable[str] = ()) -> Any:
    """What a task did its work on, as inputs and outputs. Contacts no storage."""
    from airflow.providers.common.compat.openlineage.facet import Dataset  # optional
    from airflow.providers.openlineage.extractors import OperatorLineage

    def named(datasets: Iterable[str]) -> list[Dataset]:
        pairs = [namespace_and_name(hook.dataset_uri(one)) for one in datasets]
        return [Dataset(namespace=namespace, name=name) for namespace, name in pairs]

    return OperatorLineage(inputs=named(inputs), outputs=named(outputs))


def namespace_and_name(uri: str) -> tuple[str, str]:
    """A dataset's namespace and name by OpenLineage's rules for object stores and files."""
    parts = urlsplit(normalise_uri(uri))
    if parts.scheme in ("", "file"):
        return "file", parts.path
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")
