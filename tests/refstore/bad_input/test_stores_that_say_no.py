"""Storage that refuses: wrong keys, no bucket, no server, nothing but reading."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import s3fs

from airflow_provider_lancerefs.refstore import (
    Branch,
    ConflictError,
    DatasetNotFoundError,
    ErrorKind,
    RefStore,
    StorageError,
    Tag,
    Version,
    layout,
)
from airflow_provider_lancerefs.refstore.storage.options import s3fs_arguments
from tests.permissions import as_nobody, set_modes
from tests.refstore.bad_input.expecting import (
    Table,
    error_of,
    errors_of,
    unchanged,
)
from tests.services.seaweed import BUCKET, S3Server
from tests.tables import Place

READ_ONLY_BUCKET = "readonly"


@pytest.mark.s3
@pytest.mark.parametrize(
    "wrong",
    [
        {"aws_access_key_id": "nobody"},
        {"aws_secret_access_key": "not-the-secret"},
        {"aws_session_token": "expired"},
        {"aws_skip_signature": "true"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_wrong_credentials(s3_table: Table, wrong: dict[str, str]) -> None:
    """Whom the server does not know is denied, by every call, in one sentence."""
    options = {**s3_table.place.options, **wrong}
    if "aws_session_token" in wrong:
        options["aws_access_key_id"] = "temporary"
    store = RefStore.open(s3_table.place.uri, options)
    with unchanged(s3_table.place):
        for error in errors_of(s3_table.calls(store)).values():
            assert isinstance(error, StorageError)
            assert error.kind is ErrorKind.ACCESS_DENIED
            assert "check the credentials" in str(error)


@pytest.mark.s3
def test_no_credentials(s3_table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any credentials, given or in the environment, access is denied at once."""
    for key in [key for key in os.environ if key.startswith("AWS_")]:
        monkeypatch.delenv(key)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    options = {key: s3_table.place.options[key] for key in ("aws_endpoint", "aws_region")}
    store = RefStore.open(s3_table.place.uri, options)
    with unchanged(s3_table.place):
        for error in errors_of(s3_table.calls(store)).values():
            assert error.kind is ErrorKind.ACCESS_DENIED


@pytest.mark.s3
def test_a_missing_bucket(s3_table: Table, s3: S3Server) -> None:
    """A bucket that is not there holds no dataset, is named, and is not made."""
    place = Place("s3://nobucket/table", s3.storage_options())
    for name, error in errors_of(s3_table.calls(place.store())).items():
        assert isinstance(error, DatasetNotFoundError | ConflictError), name
        assert "nobucket" in str(error), name
    store = s3_table.place.store()
    with unchanged(s3_table.place):
        for call in (store.shallow_clone, store.relocate):
            error = error_of(lambda call=call: call(place.uri))
            assert isinstance(error, DatasetNotFoundError)
            assert "nobucket" in str(error)
    files = s3fs.S3FileSystem(**s3fs_arguments(s3.storage_options()), skip_instance_cache=True)
    assert "nobucket" not in files.ls("", refresh=True)


@pytest.mark.s3
def test_an_unreachable_endpoint(s3_table: Table) -> None:
    """Where nothing listens, a call ends within seconds."""
    options = {**s3_table.place.options, "aws_endpoint": "http://127.0.0.1:9"}
    store = RefStore.open(s3_table.place.uri, options)
    with unchanged(s3_table.place):
        for call in (
            store.branches,
            lambda: store.create_branch("new"),
            lambda: store.move_tag(s3_table.tag, Version("main", 2, 400)),
            lambda: store.set_metadata(s3_table.branch, {"k": "v"}),
        ):
            began = time.monotonic()
            error = error_of(call)
            assert isinstance(error, StorageError)
            assert error.kind is ErrorKind.STORAGE
            assert time.monotonic() - began < 10


class Page(BaseHTTPRequestHandler):
    """A web page, whatever is asked: what a wrong port or a captive portal answers."""

    protocol_version = "HTTP/1.1"
    status = 200

    def answer(self) -> None:
        page = b"<html><body>Welcome</body></html>"
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.send_response(self.status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture(params=[200, 301, 404])
def page_port(request: pytest.FixtureRequest) -> Iterator[int]:
    handler = type("Handler", (Page,), {"status": request.param})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.mark.s3
def test_a_server_that_speaks_no_s3(s3_table: Table, page_port: int) -> None:
    """A web server that answers with a page is no dataset, and no write to it is believed."""
    options = {**s3_table.place.options, "aws_endpoint": f"http://127.0.0.1:{page_port}"}
    store = RefStore.open(s3_table.place.uri, options)
    with unchanged(s3_table.place):
        for call in s3_table.writes(store).values():
            error_of(call)
        error_of(lambda: store.resolve("main"))
        error_of(lambda: store.tag("t"))


@pytest.fixture(scope="session")
def read_only_bucket(s3: S3Server) -> str:
    """A bucket that everybody may read and list, and only the owner may write to."""
    files = s3fs.S3FileSystem(**s3fs_arguments(s3.storage_options()))
    arn = f"arn:aws:s3:::{READ_ONLY_BUCKET}"
    allow = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": ["s3:GetObject", "s3:ListBucket"],
        "Resource": [arn, f"{arn}/*"],
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
    files.call_s3("create_bucket", Bucket=READ_ONLY_BUCKET)
    files.call_s3("put_bucket_policy", Bucket=READ_ONLY_BUCKET, Policy=policy)
    return READ_ONLY_BUCKET


@pytest.mark.s3
def test_read_only_s3(s3: S3Server, s3_place: Place, read_only_bucket: str) -> None:
    """Who may only read does read, and is denied every write in one sentence."""
    uri = s3_place.uri.replace(BUCKET, read_only_bucket)
    table = Table.make(Place(uri, s3.storage_options()))
    reader = {"aws_endpoint": s3.storage_options()["aws_endpoint"], "aws_skip_signature": "true"}
    store = RefStore.open(uri, reader)
    with unchanged(table.place):
        for call in table.reads(store).values():
            call()
        for error in errors_of(table.writes(store)).values():
            assert isinstance(error, StorageError)
            assert error.kind is ErrorKind.ACCESS_DENIED
        assert store.check(repair=True).clean


def _become_nobody() -> None:
    """As a function of this module, which so is imported while it may be read."""
    as_nobody()


def _outcomes(uri: str, branch: Branch, tag: Tag) -> dict[str, Exception | None]:
    table = Table(Place(uri), branch, tag)
    store = table.place.store()
    outcomes: dict[str, Exception | None] = {}
    for name, call in {**table.reads(store), **table.writes(store)}.items():
        try:
            call()
        except Exception as error:
            outcomes[name] = error
        else:
            outcomes[name] = None
    return outcomes


@pytest.fixture
def shared_table() -> Iterator[Table]:
    """A dataset in a folder that another user can get to."""
    folder = Path(tempfile.mkdtemp(prefix="lancerefs-shared-"))
    folder.chmod(0o755)
    try:
        yield Table.make(Place(str(folder / "table")))
    finally:
        set_modes(folder, folders=0o755, files=0o644)
        shutil.rmtree(folder)


def outcomes_of(table: Table) -> dict[str, Exception | None]:
    """What the calls come to in a process that has no more rights than anybody."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=_become_nobody) as pool:
        return pool.submit(_outcomes, table.place.uri, table.branch, table.tag).result()


def test_read_only_disk(shared_table: Table) -> None:
    """On a disk that may only be read, reads work, and every write is denied in one sentence."""
    set_modes(Path(shared_table.place.uri).parent, folders=0o555, files=0o444)
    with unchanged(shared_table.place):
        outcomes = outcomes_of(shared_table)
    for name in shared_table.reads(shared_table.place.store()):
        assert outcomes.pop(name) is None, name
    for name, error in outcomes.items():
        assert isinstance(error, StorageError), name
        assert error.kind is ErrorKind.ACCESS_DENIED, name
        assert str(error).startswith("Access denied at "), name


@pytest.mark.parametrize(
    ("folders", "files"),
    [(0o000, 0o000), (0o555, 0o000), (0o444, 0o444)],
    ids=["closed", "files closed", "names only"],
)
def test_unreadable_disk(shared_table: Table, folders: int, files: int) -> None:
    """On a disk that may not be read, no call takes what it cannot see for absent."""
    set_modes(Path(shared_table.place.uri), folders=folders, files=files)
    outcomes = outcomes_of(shared_table)
    if folders == 0o555:  # these need no more than the names of files
        for name in ("branch_names", "tag_names", "resolve head", "resolve number"):
            assert outcomes.pop(name) is None, name
    for name, error in outcomes.items():
        assert isinstance(error, StorageError), f"{name}: {error!r}"
        assert error.kind is ErrorKind.ACCESS_DENIED, name


def test_folders_that_show_names_only(shared_table: Table) -> None:
    """A folder whose files may be listed, and not looked at, is one to which access is denied."""
    for folder in (layout.VERSIONS, layout.BRANCH_REFS, layout.TAG_REFS):
        Path(shared_table.place.uri, folder).chmod(0o444)
    for name, error in outcomes_of(shared_table).items():
        assert isinstance(error, StorageError), f"{name}: {error!r}"
        assert error.kind is ErrorKind.ACCESS_DENIED, name
