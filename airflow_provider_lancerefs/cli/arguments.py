"""What people write on a command line, as values."""

from __future__ import annotations

import argparse
import json
import os
from datetime import timedelta
from pathlib import Path

from airflow_provider_lancerefs.refstore import InvalidInputError
from airflow_provider_lancerefs.refstore.ages import parse_age

_VARIABLES = {
    "AWS_ACCESS_KEY_ID": "aws_access_key_id",
    "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key",
    "AWS_SESSION_TOKEN": "aws_session_token",
    "AWS_DEFAULT_REGION": "aws_region",
    "AWS_REGION": "aws_region",
    "AWS_ENDPOINT_URL": "aws_endpoint",
    "AWS_ENDPOINT_URL_S3": "aws_endpoint",
}


def duration(text: str) -> timedelta:
    """'90s', '30m', '12h' or '7d'; a plain 0 is no time at all."""
    try:
        return parse_age(text)
    except InvalidInputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def metadata_pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def base_move(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals or not old or not new:
        raise argparse.ArgumentTypeError(f"{text!r} is not OLD=NEW")
    return old, new


def storage_options(uri: str, file: str | None) -> dict[str, str]:
    """pylance's options from a JSON file, else from the AWS_* variables for a dataset on S3."""
    if file is not None:
        return _from_file(Path(file))
    if not uri.lower().startswith(("s3://", "s3a://")):
        return {}
    options = {
        key: os.environ[variable]
        for variable, key in _VARIABLES.items()
        if os.environ.get(variable)
    }
    if options.get("aws_endpoint", "").startswith("http://"):
        options["allow_http"] = "true"
    return options


def _from_file(path: Path) -> dict[str, str]:
    try:
        options = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"The storage options in {path} cannot be read: write a JSON object of strings."
        ) from error
    if not isinstance(options, dict) or not all(isinstance(v, str) for v in options.values()):
        raise InvalidInputError(f"The storage options in {path} are not a JSON object of strings.")
    return options
