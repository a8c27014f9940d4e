"""The hook: where datasets lie, and the ref store over one of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import (
    AirflowNotFoundException,
    BaseHook,
    conf,
    mask_secret,
)

from airflow_provider_lancerefs.refstore.errors import InvalidInputError, LanceRefsError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection

    from airflow_provider_lancerefs.refstore import RefStore

__all__ = ["DEFAULT_CONN_ID", "LanceRefsHook", "publish_lease"]

DEFAULT_CONN_ID = "lancerefs_default"
_OPTIONS = {
    "endpoint": "aws_endpoint",
    "region": "aws_region",
    "session_token": "aws_session_token",
    "allow_http": "allow_http",
    "virtual_hosted_style_request": "aws_virtual_hosted_style_request",
}


def publish_lease() -> timedelta:
    """How long a publisher that says nothing is taken to be alive."""
    return timedelta(seconds=conf.getint("lancerefs", "publish_lease", fallback=60))


class LanceRefsHook(BaseHook):
    """
    Open Lance datasets below the root that a connection names.

    The connection's host is the root (``s3://bucket/prefix`` or a local folder), login and
    password are the S3 keys, and its extra may hold ``endpoint``, ``region``, ``session_token``,
    ``allow_http``, ``virtual_hosted_style_request`` or ``aws_conn_id``, the AWS connection to
    borrow keys from; nothing else in it is used. Where the default connection is not defined,
    names lie in the folder ``lance`` of Airflow's home.

    :param lancerefs_conn_id: The connection.
    """

    conn_name_attr = "lancerefs_conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = "lancerefs"
    hook_name = "Lance Refs"

    def __init__(self, lancerefs_conn_id: str = DEFAULT_CONN_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lancerefs_conn_id = lancerefs_conn_id

    def get_conn(self) -> Connection | None:
        """Return the connection, or None where the default one is not defined."""
        try:
            return self.get_connection(self.lancerefs_conn_id)
        except AirflowNotFoundException:
            if self.lancerefs_conn_id == DEFAULT_CONN_ID:
                return None
            raise

    def dataset_uri(self, dataset: str) -> str:
        """Return a dataset's root: a name is below the connection's, a full URI is itself."""
        return self._place.uri_of(dataset)

    def storage_options(self, dataset: str = "") -> dict[str, str]:
        """Return what pylance and the ref store need to reach a dataset. Holds credentials."""
        return self._place.options_for(self.dataset_uri(dataset) if dataset else self._place.root)

    def get_store(self, dataset: str) -> RefStore:
        """Open the ref store of a dataset; contacts nothing yet."""
        return self._place.store_of(dataset)

    async def aget_store(self, dataset: str) -> RefStore:
        """Open the ref store of a dataset from a coroutine, as triggers do."""
        if "_place" not in self.__dict__:
            self.__dict__["_place"] = await self._find_place()
        return await asyncio.to_thread(self._place.store_of, dataset)  # imports the S3 client

    def test_connection(self) -> tuple[bool, str]:
        """Look below the root with one bounded read; writes nothing."""
        try:
            self._place.look()
        except (AirflowNotFoundException, LanceRefsError) as error:
            return False, str(error)
        return True, f"{self._place.root} can be read."

    @cached_property
    def _place(self) -> _Place:
        connection = self.get_conn()
        return _place_of(connection, connection.extra_dejson) if connection else _at_home()

    async def _find_place(self) -> _Place:
        from airflow.providers.common.compat.connection import (  # only triggers need it
            get_async_connection,
            get_async_extra_dejson,
        )

        try:
            connection = await get_async_connection(self.lancerefs_conn_id, hook=self)
        except AirflowNotFoundException:
            if self.lancerefs_conn_id == DEFAULT_CONN_ID:
                return _at_home()
            raise
        extra = await get_async_extra_dejson(connection)
        return await asyncio.to_thread(_place_of, connection, extra)


class _Place:
    """A root, and how to get in; its repr shows neither."""

    def __init__(self, root: str, options: Mapping[str, str]) -> None:
        self.root = root
        self._options = options

    def uri_of(self, dataset: str) -> str:
        if not isinstance(dataset, str) or not dataset.strip("/ "):
            raise InvalidInputError("A dataset is a name below the connection's root, or a URI.")
        if "://" in dataset or dataset.startswith("/") or not self.root:
            return dataset.rstrip("/")
        if ".." in dataset.split("/"):
            raise InvalidInputError(f"The dataset {dataset!r} does not lie below {self.root}.")
        return f"{self.root}/{dataset.strip('/')}"

    def options_for(self, uri: str) -> dict[str, str]:
        return dict(self._options) if uri.startswith(("s3://", "s3a://")) else {}

    def store_of(self, dataset: str) -> RefStore:
        from airflow_provider_lancerefs.refstore.store import RefStore

        uri = self.uri_of(dataset)
        return RefStore.open(uri, self.options_for(uri), publish_lease=publish_lease())

    def look(self) -> None:
        from airflow_provider_lancerefs.refstore.storage import open_storage

        if self.root.startswith("/") and not os.path.isdir(self.root):
            raise InvalidInputError(f"There is no folder {self.root}.")
        if self.root:
            open_storage(self.root, self.options_for(self.root)).list("", limit=1)


def _at_home() -> _Place:
    """Where a laptop keeps its tables: below Airflow's home, as every component finds it."""
    home = os.environ.get("AIRFLOW_HOME") or "~/airflow"
    return _Place(os.path.join(os.path.expanduser(home), "lance"), {})


def _place_of(connection: Connection, extra: Mapping[str, Any]) -> _Place:
    """What a connection says, by names that are known: whoever may edit one is not trusted more."""
    options = {name: extra.get(key) for key, name in _OPTIONS.items()}
    options["aws_access_key_id"] = connection.login
    options["aws_secret_access_key"] = connection.password
    given = {name: _text(value) for name, value in options.items() if value not in (None, "")}
    if extra.get("aws_conn_id"):
        given = {**_borrowed(extra["aws_conn_id"]), **given}
    return _Place(_root_of(connection.host or ""), given)


def _root_of(host: str) -> str:
    """A connection's root in its one spelling, so that what is added to it is taken as it is."""
    from airflow_provider_lancerefs.refstore.storage import normalise_uri

    if "@" in urlsplit(host).netloc:
        raise InvalidInputError("A root holds no keys: a connection has login and password.")
    return normalise_uri(host) if host else ""


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _borrowed(aws_conn_id: str) -> dict[str, str]:
    """An AWS connection's keys, as its own hook finds them: roles and profiles included."""
    try:
        from airflow.providers.amazon.aws.hooks.base_aws import (  # heavy, and an extra
            AwsGenericHook,
        )
    except ImportError as error:
        raise InvalidInputError(
            "To borrow an AWS connection's keys, install airflow-provider-lancerefs[aws]."
        ) from error
    BaseHook.get_connection(aws_conn_id)  # without it, the AWS hook takes the machine's own keys
    hook: Any = AwsGenericHook(aws_conn_id=aws_conn_id, client_type="s3")
    credentials = hook.get_session().get_credentials()
    if credentials is None:
        raise InvalidInputError(f"The AWS connection {aws_conn_id!r} gives no keys.")
    keys = credentials.get_frozen_credentials()
    for secret in (keys.secret_key, keys.token):
        if secret:
            mask_secret(secret)
    found = {
        "aws_access_key_id": keys.access_key,
        "aws_secret_access_key": keys.secret_key,
        "aws_session_token": keys.token,
        "aws_region": hook.region_name,
        "aws_endpoint": hook.conn_config.get_service_endpoint_url("s3"),
    }
    return {name: value for name, value in found.items() if value}
