"""Bad input ends a task at once and in one sentence; what may pass by itself is left to a retry."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk.bases.operator import BaseOperator

from airflow_provider_lancerefs.failures import failing_for_good
from airflow_provider_lancerefs.hooks.refs import LanceRefsHook
from airflow_provider_lancerefs.operators.branch import (
    LanceCreateBranchOperator,
    LanceDeleteBranchOperator,
)
from airflow_provider_lancerefs.operators.clone import LanceShallowCloneOperator
from airflow_provider_lancerefs.operators.expire import LanceExpireBranchesOperator
from airflow_provider_lancerefs.operators.publish import LancePublishBranchOperator
from airflow_provider_lancerefs.operators.tag import LanceDeleteTagOperator, LanceTagOperator
from airflow_provider_lancerefs.refstore.errors import (
    ConflictError,
    ErrorKind,
    LanceRefsError,
    OutcomeUnknownError,
    RefusedError,
    StorageError,
)
from tests.airflow.connecting import Connect, keys_of, s3_connection
from tests.airflow.contexts import Run
from tests.permissions import as_nobody, set_modes
from tests.services.seaweed import S3Server
from tests.tables import Place

pytestmark = pytest.mark.airflow

Kind = type[BaseOperator]

# One call of each operator, as good as can be: a case below spoils one argument of it.
CALLS: dict[Kind, dict[str, Any]] = {
    LanceCreateBranchOperator: {"branch": "new"},
    LanceDeleteBranchOperator: {"branch": "work"},
    LancePublishBranchOperator: {"branch": "work"},
    LanceTagOperator: {"tag": "v2"},
    LanceDeleteTagOperator: {"tag": "v1"},
    LanceShallowCloneOperator: {"target": "copy"},
    LanceExpireBranchesOperator: {"older_than": "0s", "pattern": "work"},
}
SENTENCE = re.compile(r"[^\n]+\.")

SPOILT: list[tuple[Kind, dict[str, Any], str]] = [
    (LanceCreateBranchOperator, {"branch": "a b"}, "'a b' is not a branch name"),
    (LanceCreateBranchOperator, {"branch": "{{ '../x' }}"}, "'../x' is not a branch name"),
    (LanceCreateBranchOperator, {"branch": "main"}, "'main' is the default branch"),
    (LanceCreateBranchOperator, {"source": "branch:nowhere"}, "no branch 'nowhere'"),
    (LanceCreateBranchOperator, {"source": "tag:nowhere"}, "no tag 'nowhere'"),
    (LanceCreateBranchOperator, {"source": "main@77"}, "77"),
    (LanceCreateBranchOperator, {"source": "{{ 'a:b:c' }}"}, "a:b:c"),
    (LanceCreateBranchOperator, {"branch": "work", "source": "tag:v1"}, "'work'"),
    (LanceDeleteBranchOperator, {"branch": "main"}, "main"),
    (LanceDeleteBranchOperator, {"expect": "perfect"}, "'perfect'"),
    (LancePublishBranchOperator, {"branch": "nowhere"}, "no branch 'nowhere'"),
    (LancePublishBranchOperator, {"branch": "{{ none }}"}, "no branch 'None'"),
    (LancePublishBranchOperator, {"require_writers": ["one"]}, "one did not write"),
    (LanceTagOperator, {"tag": "a/b"}, "'a/b' is not a tag name"),
    (LanceTagOperator, {"tag": ""}, "tag name may not be empty"),
    (LanceTagOperator, {"tag": "{{ 'v 3' }}"}, "'v 3' is not a tag name"),
    (LanceTagOperator, {"revision": "branch:nowhere"}, "no branch 'nowhere'"),
    (LanceTagOperator, {"branch": "nowhere"}, "no branch 'nowhere'"),
    (LanceTagOperator, {"tag": "v1"}, "'v1'"),
    (LanceDeleteTagOperator, {"tag": "a b"}, "'a b' is not a tag name"),
    (LanceShallowCloneOperator, {"target": "../copy"}, "does not lie below"),
    (LanceShallowCloneOperator, {"target": "taken"}, "taken"),
    (LanceShallowCloneOperator, {"revision": "tag:nowhere"}, "no tag 'nowhere'"),
    (LanceExpireBranchesOperator, {"older_than": "soon"}, "'soon' is not an age"),
    (LanceExpireBranchesOperator, {"older_than": 3}, "timedelta"),
    (LanceExpireBranchesOperator, {"pattern": ""}, "glob"),
]

GONE = ("nowhere", "{{ none }}", "['orders', 'nowhere']")


def every_call() -> Any:
    return pytest.mark.parametrize("kind", CALLS, ids=lambda kind: kind.__name__)


def task_of(kind: Kind, conn_id: str, **arguments: Any) -> BaseOperator:
    given = {"task_id": "task", "dataset": "orders", "lancerefs_conn_id": conn_id}
    return kind(**{**given, **CALLS[kind], **arguments})


def failure(kind: Kind, conn_id: str, **arguments: Any) -> str:
    """The sentence with which the task fails for good."""
    with pytest.raises(AirflowFailException) as error:
        Run().execute(task_of(kind, conn_id, **arguments))
    sentence = str(error.value)
    assert SENTENCE.fullmatch(sentence), sentence
    return sentence


def passing(kind: Kind, conn_id: str, **arguments: Any) -> LanceRefsError:
    """The error for which Airflow tries the task again."""
    with pytest.raises(LanceRefsError) as error:
        Run().execute(task_of(kind, conn_id, **arguments))
    assert SENTENCE.fullmatch(str(error.value))
    return error.value


def furnish(root: Place) -> None:
    """A table with a branch of one new row and a tag, and another table."""
    orders = Place(f"{root.uri}/orders", root.options).create([1]).append(2)
    orders.store().create_branch("work")
    orders.branch("work").append(3)
    orders.store().create_tag("v1", "main@1")
    Place(f"{root.uri}/taken", root.options).create([1])


def content(folder: str) -> dict[str, bytes]:
    paths = Path(folder).rglob("*")
    return {
        str(path): path.read_bytes()
        for path in paths
        if path.is_file() and not path.name.startswith(".lancerefs.")
    }


@contextlib.contextmanager
def unchanged(folder: str) -> Iterator[None]:
    before = content(folder)
    yield
    assert content(folder) == before


@pytest.fixture
def conn_id(local_place: Place, connect: Connect) -> str:
    """A connection to a furnished root on local disk."""
    furnish(local_place)
    return connect(host=local_place.uri)


@every_call()
def test_the_calls_are_good(kind: Kind, conn_id: str) -> None:
    """As they are, they succeed: what is refused below is refused for what was spoilt."""
    Run().execute(task_of(kind, conn_id))


@pytest.mark.parametrize(("kind", "arguments", "said"), SPOILT)
def test_spoilt_arguments(
    local_place: Place, conn_id: str, kind: Kind, arguments: dict[str, Any], said: str
) -> None:
    """It is said what is wrong, and nothing was changed."""
    with unchanged(local_place.uri):
        assert said in failure(kind, conn_id, **arguments)


BAD_DATASETS: list[tuple[Any, str]] = [
    ("nowhere", "nowhere"),
    ("../orders", "does not lie below"),
    ("{{ '' }}", "A dataset is a name"),
    ("{{ none }}", "no dataset|no Lance dataset|None"),
    ([], "was given no dataset"),
    ("gs://bucket/x", "gs://"),
    (["orders", ""], "A dataset is a name|the clone of one"),
    (["orders", "nowhere"], "nowhere|the clone of one"),
]
# To these what is nowhere is gone, which is what they are for.
LENIENT = (LanceDeleteBranchOperator, LanceDeleteTagOperator, LanceExpireBranchesOperator)


@pytest.mark.parametrize(
    ("kind", "dataset", "said"),
    [
        pytest.param(kind, dataset, said, id=f"{kind.__name__}-{dataset}")
        for kind in CALLS
        for dataset, said in BAD_DATASETS
        if not (kind in LENIENT and str(dataset) in GONE)
    ],
)
def test_bad_datasets(
    local_place: Place, conn_id: str, kind: Kind, dataset: Any, said: str
) -> None:
    """Every operator says so of a dataset that cannot be or is not there."""
    with unchanged(local_place.uri):
        assert re.search(said, failure(kind, conn_id, dataset=dataset), re.IGNORECASE)


@every_call()
def test_unknown_connection(kind: Kind) -> None:
    """No retry brings a connection that is not there."""
    with pytest.raises(AirflowFailException, match="nowhere"):
        Run().execute(task_of(kind, "nowhere"))


@every_call()
def test_storage_that_is_down(kind: Kind, connect: Connect) -> None:
    """It may be up at the next try, so that one is left to Airflow."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and never listens
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        extra = {"endpoint": endpoint, "allow_http": True, "region": "us-east-1"}
        down = connect(host="s3://bucket", login="key", password="mark4711", extra=extra)
        error = passing(kind, down)
    assert isinstance(error, StorageError)
    assert error.kind is not ErrorKind.ACCESS_DENIED
    assert "mark4711" not in str(error)


@pytest.mark.s3
@every_call()
def test_wrong_keys(kind: Kind, connect: Connect, s3: S3Server, s3_place: Place) -> None:
    """No retry makes them right."""
    furnish(s3_place)
    keys = {**keys_of(s3), "password": "mark4711"}
    sentence = failure(kind, connect(host=s3_place.uri, **keys))
    assert sentence.startswith("S3 denied access to ")
    assert "mark4711" not in sentence


@pytest.mark.s3
def test_a_bucket_that_is_not_there(connect: Connect, s3: S3Server) -> None:
    """It is as if the dataset were not."""
    there = s3_connection(connect, s3, "s3://no-such-bucket/x")
    assert "no-such-bucket" in failure(LancePublishBranchOperator, there)


def _become_reader(connection: str) -> None:
    """A user who may only read, once all is imported, which takes files of root's."""
    os.environ["AIRFLOW_CONN_READER"] = connection
    assert LanceRefsHook("reader").get_conn()
    as_nobody()


def _as_reader(kind: Kind) -> tuple[str, str]:
    try:
        Run().execute(task_of(kind, "reader"))
    except Exception as error:
        return type(error).__name__, str(error)
    return "", ""


@pytest.fixture
def readable_place() -> Iterator[Place]:
    """A place that another user can get to."""
    folder = Path(tempfile.mkdtemp(prefix="lancerefs-shared-"))
    folder.chmod(0o755)
    try:
        yield Place(str(folder / "table"))
    finally:
        set_modes(folder, folders=0o755, files=0o644)
        shutil.rmtree(folder)


def test_read_only_disk(readable_place: Place) -> None:
    """No retry makes it writable."""
    furnish(readable_place)
    set_modes(Path(readable_place.uri), folders=0o555, files=0o444)
    connection = json.dumps({"conn_type": "lancerefs", "host": readable_place.uri})
    spawn = get_context("spawn")
    with unchanged(readable_place.uri):
        with ProcessPoolExecutor(1, spawn, _become_reader, (connection,)) as pool:
            outcomes = {kind: pool.submit(_as_reader, kind).result() for kind in CALLS}
    for kind, (name, sentence) in outcomes.items():
        assert name == "AirflowFailException", kind
        assert sentence.startswith("Access denied at "), kind


ERRORS: list[tuple[LanceRefsError, bool]] = [
    (ConflictError("Somebody else did."), True),
    (StorageError("It is down."), True),
    (OutcomeUnknownError("Who knows."), True),
    (RefusedError("It is being published.", kind=ErrorKind.IN_USE), True),
    (RefusedError("A tag needs it.", kind=ErrorKind.IN_USE, blockers=("tag v1",)), False),
    (RefusedError("It is protected.", kind=ErrorKind.PROTECTED), False),
    (StorageError("Access denied.", kind=ErrorKind.ACCESS_DENIED), False),
]


@pytest.mark.parametrize(("error", "retried"), ERRORS, ids=[str(one) for one, _ in ERRORS])
def test_what_a_retry_can_help(error: LanceRefsError, retried: bool) -> None:
    """Conflicts, storage that is down and outcomes to be looked up again; nothing else."""
    expected = type(error) if retried else AirflowFailException
    with pytest.raises(expected, match=re.escape(str(error))), failing_for_good():
        raise error
