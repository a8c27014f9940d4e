"""No secret in any error, log or representation."""

from __future__ import annotations

import logging
import traceback

import pytest

from airflow_provider_lancerefs.refstore import (
    RefStore,
)
from tests.refstore.bad_input.expecting import (
    Table,
    error_of,
    errors_of,
)


@pytest.mark.s3
def test_secrets_are_nowhere(s3_table: Table, caplog: pytest.LogCaptureFixture) -> None:
    """No repr, no message, no traceback and no log line shows a secret, whatever goes wrong."""
    marked = "MARKED-SECRET-0123456789"
    options = {
        **s3_table.place.options,
        "aws_secret_access_key": marked,
        "aws_session_token": "MARKED-TOKEN-0123456789",
    }
    store = RefStore.open(s3_table.place.uri, options)
    good = s3_table.place.store()
    secrets = [marked, s3_table.place.options["aws_secret_access_key"]]
    with caplog.at_level(logging.DEBUG):
        errors = list(errors_of(s3_table.calls(store)).values())
        unreachable = RefStore.open(
            s3_table.place.uri, {**options, "aws_endpoint": "http://127.0.0.1:9"}
        )
        errors.append(error_of(lambda: unreachable.resolve("main")))
        for call in s3_table.reads(good).values():
            call()
        good.create_tag("new", "main")
    shown = []
    for one in (store, good):
        dataset = one._dataset
        shown += [f"{part!r} {part}" for part in (one, dataset, dataset.storage)]
        shown += [repr(dataset.elsewhere(s3_table.elsewhere))]
    for error in errors:
        shown += [repr(error), str(error), repr(vars(error)), *traceback.format_exception(error)]
    for secret in (*secrets, "MARKED-TOKEN"):
        assert [text for text in shown if secret in text] == []
    logged = [record.getMessage() for record in caplog.records]  # botocore's own shows the token
    for secret in secrets:
        assert [text for text in logged if secret in text] == []


def test_secrets_are_not_in_refused_options() -> None:
    """An error about storage options names the key, and never shows a value."""
    for options in ({"aws_secret_access_key": ["MARKED-SECRET"]}, {1: "MARKED-SECRET"}):
        error = error_of(lambda options=options: RefStore.open("s3://b/x", options))
        assert "MARKED-SECRET" not in "".join(traceback.format_exception(error))
