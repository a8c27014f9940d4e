"""Lance datasets as Airflow assets: `lancerefs://<connection>/<dataset>`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from airflow.providers.common.compat.sdk import Asset, AssetAlias

if TYPE_CHECKING:
    from airflow_provider_lancerefs.hooks.refs import LanceRefsHook

__all__ = [
    "asset_uri",
    "convert_asset_to_openlineage",
    "create_asset",
    "lance_asset",
    "outlets_for",
    "sanitize_uri",
]

SCHEME = "lancerefs"
ALIAS = "lancerefs"
_DEFAULT_CONN_ID = "lancerefs_default"


def lance_asset(dataset: str, lancerefs_conn_id: str = _DEFAULT_CONN_ID, **kwargs: Any) -> Asset:
    """The asset that stands for a dataset; what publishes or tags it puts its events there."""
    return Asset(uri=asset_uri(dataset, lancerefs_conn_id), **kwargs)


def outlets_for(
    datasets: Sequence[Any], lancerefs_conn_id: str = _DEFAULT_CONN_ID
) -> list[Asset | AssetAlias]:
    """Each dataset's asset; an alias stands for those whose name is known in a run alone."""
    known = [one for one in datasets if _is_known(one) and _is_known(lancerefs_conn_id)]
    assets: list[Asset | AssetAlias] = [lance_asset(one, lancerefs_conn_id) for one in known]
    return assets if len(known) == len(datasets) else [*assets, AssetAlias(ALIAS)]


def _is_known(value: Any) -> bool:
    """Whether it is a plain name: no template, no argument of a mapped task group."""
    return isinstance(value, str) and "{{" not in value and "{%" not in value


def asset_uri(dataset: str, lancerefs_conn_id: str = _DEFAULT_CONN_ID) -> str:
    """A dataset's asset URI; a full URI or an absolute path is quoted into the path."""
    start = "%2F" if dataset.startswith("/") else ""
    name = start + quote(dataset.strip("/"), safe="/")
    return f"{SCHEME}://{quote(lancerefs_conn_id, safe='')}/{name}"


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Check an asset's URI when a DAG file is parsed; contacts nothing."""
    if not uri.netloc or not uri.path.strip("/"):
        raise ValueError(f"An asset of Lance Refs is {SCHEME}://<connection id>/<dataset>.")
    if uri.username or uri.password:
        raise ValueError("An asset's URI holds no credentials: they belong in the connection.")
    return uri._replace(query="", fragment="", path="/" + uri.path.strip("/"))


def create_asset(
    *,
    dataset: str,
    lancerefs_conn_id: str = _DEFAULT_CONN_ID,
    extra: Mapping[str, Any] | None = None,
) -> Asset:
    """The factory for lineage that hooks collect."""
    return Asset(uri=asset_uri(dataset, lancerefs_conn_id), extra=dict(extra or {}))


def convert_asset_to_openlineage(asset: Asset, lineage_context: Any) -> Any:
    """The dataset that an asset stands for, by its connection's root."""
    from airflow.providers.common.compat.openlineage.facet import Dataset  # optional

    from airflow_provider_lancerefs.hooks.refs import LanceRefsHook
    from airflow_provider_lancerefs.lineage import namespace_and_name

    parts = urlsplit(asset.uri)
    hook: LanceRefsHook = LanceRefsHook(unquote(parts.netloc))
    namespace, name = namespace_and_name(hook.dataset_uri(unquote(parts.path.strip("/"))))
    return Dataset(namespace=namespace, name=name)
