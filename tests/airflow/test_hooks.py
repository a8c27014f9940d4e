"""The hook: where a connection puts a dataset, how it gets in, and that its secrets stay inside."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowNotFoundException

from airflow_provider_lancerefs.hooks.refs import LanceRefsHook
from airflow_provider_lancerefs.refstore.errors import InvalidInputError, LanceRefsError
from airflow_provider_lancerefs.refstore.store import RefStore
from tests.airflow.connecting import Connect, keys_of, s3_connection
from tests.airflow.secrecy import Marks
from tests.services.seaweed import BUCKET, S3Server
from tests.tables import Place

pytestmark = pytest.mark.airflow

NAMES = [
    ("orders", "s3://bucket/prefix/orders"),
    ("orders.lance", "s3://bucket/prefix/orders.lance"),
    ("a/b.lance/", "s3://bucket/prefix/a/b.lance"),
    ("s3://other/x.lance", "s3://other/x.lance"),
    ("/a/folder/x.lance", "/a/folder/x.lance"),
    ("file:///a/folder/x.lance", "file:///a/folder/x.lance"),
]


@pytest.mark.parametrize(("dataset", "uri"), NAMES)
def test_names_and_uris(connect: Connect, dataset: str, uri: str) -> None:
    """A name is below the root; what is a full URI, or an absolute path, is itself."""
    hook = LanceRefsHook(connect(host="s3://bucket/prefix/"))
    assert hook.dataset_uri(dataset) == uri


@pytest.mark.parametrize("root", ["/a/root", "file:///a/root", "/a/./root/", "/a/b/../root"])
def test_roots_have_one_spelling(connect: Connect, root: str) -> None:
    """However a local root is written, a name is below the same folder."""
    assert LanceRefsHook(connect(host=root)).dataset_uri("x") == "/a/root/x"


@pytest.mark.parametrize("root", ["s3://bucket/prefix", "/a/root", "file:///a/root"])
@pytest.mark.parametrize("name", ["../x", "a/../../x", "..", "%2e%2e/x", "%2E%2E/%2e%2e/x"])
def test_no_name_leads_out_of_the_root(connect: Connect, root: str, name: str) -> None:
    """A name with a way up is refused, and one that is only spelt like it is a plain name."""
    hook = LanceRefsHook(connect(host=root))
    if "%" in name:
        assert hook.get_store(name).uri == f"{root.removeprefix('file://')}/{name}"
    else:
        with pytest.raises(InvalidInputError, match="does not lie below"):
            hook.get_store(name)


@pytest.mark.parametrize("name", ["", "/", " ", "a//b", "./a", None, 3])
def test_what_names_no_dataset(connect: Connect, name: Any) -> None:
    """What cannot be a dataset's name is refused before anything is contacted."""
    with pytest.raises(InvalidInputError):
        LanceRefsHook(connect(host="s3://bucket/prefix")).get_store(name)


def test_no_connection(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the default connection, names lie below Airflow's home, and paths are themselves."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    hook = LanceRefsHook()
    assert hook.get_conn() is None
    assert hook.dataset_uri("orders") == str(tmp_path / "lance" / "orders")
    assert hook.dataset_uri("/a/x") == "/a/x"
    assert hook.storage_options("s3://bucket/x") == {}
    Place(hook.dataset_uri("orders")).create()
    assert hook.get_store("orders").resolve("main").number == 1


def test_an_unknown_connection() -> None:
    """Any other connection has to be there, and the error names it."""
    with pytest.raises(AirflowNotFoundException, match="nowhere"):
        LanceRefsHook("nowhere").get_store("x")
    good, message = LanceRefsHook("nowhere").test_connection()
    assert not good
    assert "nowhere" in message


def test_nothing_is_contacted_before_its_use() -> None:
    """Making a hook asks for nothing: an operator's argument may not be rendered yet."""
    assert LanceRefsHook("{{ not rendered }}").lancerefs_conn_id == "{{ not rendered }}"


def test_extras_are_taken_by_name(connect: Connect) -> None:
    """Of a connection's extra only what is known is used; the rest goes nowhere."""
    known = {
        "endpoint": "http://127.0.0.1:1",
        "region": "eu-west-1",
        "session_token": "a token",
        "allow_http": True,
        "virtual_hosted_style_request": False,
    }
    unknown = {
        "aws_endpoint": "http://evil",
        "aws_access_key_id": "evil",
        "client_kwargs": {"verify": False},
        "allow_invalid_certificates": True,
        "proxy_url": "http://evil",
    }
    conn_id = connect(host="s3://b", login="key", password="secret", extra={**known, **unknown})
    assert LanceRefsHook(conn_id).storage_options() == {
        "aws_endpoint": "http://127.0.0.1:1",
        "aws_region": "eu-west-1",
        "aws_session_token": "a token",
        "allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
    }


def test_empty_fields_are_no_options(connect: Connect) -> None:
    """What the form leaves empty is not handed on as an empty value."""
    conn_id = connect(host="s3://b", login="", extra={"endpoint": "", "region": None})
    assert LanceRefsHook(conn_id).storage_options() == {}


def test_keys_stay_with_s3(connect: Connect) -> None:
    """A local dataset gets none of the connection's keys."""
    hook = LanceRefsHook(connect(host="/a/root", login="key", password="secret"))
    assert hook.storage_options("x") == {}
    assert hook.storage_options() == {}
    assert hook.storage_options("s3a://bucket/x")["aws_access_key_id"] == "key"


def test_an_aws_connection_is_borrowed(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, region and endpoint come from the AWS connection; what is said here goes before."""
    extra = {"region_name": "eu-west-1", "endpoint_url": "http://127.0.0.1:1"}
    aws = {"conn_type": "aws", "login": "aws key", "password": "aws secret", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_AN_AWS", json.dumps(aws))
    conn_id = connect(host="s3://b", extra={"aws_conn_id": "an_aws", "region": "eu-north-1"})
    assert LanceRefsHook(conn_id).storage_options() == {
        "aws_access_key_id": "aws key",
        "aws_secret_access_key": "aws secret",
        "aws_region": "eu-north-1",
        "aws_endpoint": "http://127.0.0.1:1",
    }


def test_an_unknown_aws_connection(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error: the keys of the machine are not taken in its place."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the machine's")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the machine's")
    conn_id = connect(host="s3://b", extra={"aws_conn_id": "nowhere"})
    with pytest.raises(AirflowNotFoundException, match="nowhere"):
        LanceRefsHook(conn_id).storage_options()
    assert not LanceRefsHook(conn_id).test_connection()[0]


def test_an_aws_connection_without_keys(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, and which one it is."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AIRFLOW_CONN_AN_AWS", json.dumps({"conn_type": "aws"}))
    conn_id = connect(host="s3://b", extra={"aws_conn_id": "an_aws"})
    with pytest.raises(InvalidInputError, match="The AWS connection 'an_aws' gives no keys"):
        LanceRefsHook(conn_id).storage_options()


def test_borrowing_without_the_provider(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Amazon's provider is not installed, the error says what to install.

    It is hidden, for the other tests need it installed.
    """
    monkeypatch.setitem(sys.modules, "airflow.providers.amazon.aws.hooks.base_aws", None)
    conn_id = connect(host="s3://b", extra={"aws_conn_id": "an_aws"})
    with pytest.raises(InvalidInputError, match=r"airflow-provider-lancerefs\[aws\]"):
        LanceRefsHook(conn_id).storage_options()


def test_a_good_local_connection(connect: Connect, tmp_path: Path) -> None:
    """A folder that is there is good, and looking writes nothing to it."""
    assert LanceRefsHook(connect(host=str(tmp_path))).test_connection() == (
        True,
        f"{tmp_path} can be read.",
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("host", ["/nowhere/at/all", "gs://bucket/x", "s3://", "s3://a/../b"])
def test_bad_roots(connect: Connect, host: str) -> None:
    """What cannot be a root, or is not there, is told in one sentence."""
    good, message = LanceRefsHook(connect(host=host)).test_connection()
    assert not good
    assert message.endswith(".")


@pytest.mark.s3
def test_a_good_connection_to_s3(connect: Connect, s3: S3Server) -> None:
    """The keys of the connection let the test in; a bucket that is not there is told."""
    assert LanceRefsHook(s3_connection(connect, s3)).test_connection()[0]
    good, message = LanceRefsHook(
        s3_connection(connect, s3, root="s3://no-such-bucket/x")
    ).test_connection()
    assert not good
    assert "no-such-bucket" in message


@pytest.mark.s3
@pytest.mark.parametrize("wrong", ["password", "login", "endpoint"])
def test_secrets_stay_inside(
    connect: Connect, s3: S3Server, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither messages nor errors nor what anything looks like in a log show a secret."""
    secret, token = f"secret{uuid.uuid4().hex}", f"token{uuid.uuid4().hex}"
    given = {**keys_of(s3), "password": secret}
    if wrong == "login":
        given["login"] = "nobody"
    if wrong == "endpoint":
        given["extra"] = {"endpoint": "http://127.0.0.1:1", "session_token": token}
    hook = LanceRefsHook(connect(host=f"s3://{BUCKET}/x", **given))
    good, message = hook.test_connection()
    store = hook.get_store("x")
    with pytest.raises(LanceRefsError) as error:
        store.branches()
    assert not good
    shown = [message, repr(hook), str(hook), repr(store), repr(hook._place), repr(vars(hook))]
    shown += [repr(error.value), str(error.value), repr(vars(error.value)), caplog.text]
    assert not Marks(secret, token).within("\n".join(shown).encode())


def test_keys_in_the_root_are_refused(connect: Connect) -> None:
    """A root is shown in logs, so that keys in it are refused, and not shown by that either."""
    hook = LanceRefsHook(connect(host="s3://key:mark4711@bucket/x"))
    with pytest.raises(InvalidInputError) as error:
        hook.get_store("x")
    assert "mark4711" not in f"{error.value} {hook.test_connection()}"


def test_a_root_that_is_missing(connect: Connect, tmp_path: Path) -> None:
    """A connection without a root still has keys, for full URIs."""
    hook = LanceRefsHook(connect(login="key", password="secret"))
    assert hook.storage_options("s3://bucket/x")["aws_access_key_id"] == "key"
    assert hook.dataset_uri(str(tmp_path)) == str(tmp_path)


@pytest.mark.parametrize("kind", ["local", "none", "s3"])
def test_from_a_coroutine(
    connect: Connect, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coroutine gets the same stores, without blocking its loop on the connection."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    makes: dict[str, Callable[[], LanceRefsHook]] = {
        "local": lambda: LanceRefsHook(local),
        "none": LanceRefsHook,
        "s3": lambda: LanceRefsHook(remote),
    }
    local = connect(host=str(tmp_path))
    remote = connect(host="s3://b", login="key", extra={"endpoint": "http://127.0.0.1:1"})
    make = makes[kind]

    async def twice() -> list[RefStore]:
        hook = make()
        return [await hook.aget_store("x"), await hook.aget_store("x")]

    for store in asyncio.run(twice()):
        assert store.uri == make().get_store("x").uri
    hook = make()
    asyncio.run(hook.aget_store("x"))
    assert hook.storage_options("x") == make().storage_options("x")


def test_an_unknown_connection_from_a_coroutine() -> None:
    """It is the same error there."""
    with pytest.raises(AirflowNotFoundException, match="nowhere"):
        asyncio.run(LanceRefsHook("nowhere").aget_store("x"))
