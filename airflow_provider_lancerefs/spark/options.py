"""The options of a read or write, parsed once; whatever is no option of ours must be pylance's."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Storages = Mapping[str, Mapping[str, str]]

FORMAT = "lancerefs"
STORAGE_CONF = "spark.lancerefs.secret."

_READ = (
    "path",
    "dataset",
    "branch",
    "tag",
    "version",
    "columns",
    "batch_size",
    "rows_per_partition",
    "row_marks",
)
_WRITE = ("path", "dataset", "branch", "life", "max_rows_per_file", "write_id", "merge")

_STORAGE_PREFIX = re.compile(
    r"(aws|azure|google|gcs|goog|oss|hf|huggingface|lance|proxy|client|download)_|headers\."
)
_STORAGE_NAMES = frozenset(
    {
        "access_key_id",
        "account_key",
        "account_name",
        "allow_http",
        "allow_invalid_certificates",
        "bearer_token",
        "connect_timeout",
        "default_region",
        "endpoint",
        "endpoint_url",
        "expires_at_millis",
        "object_store_cache_max_size",
        "region",
        "request_timeout",
        "sas_key",
        "sas_token",
        "secret_access_key",
        "service_account",
        "service_account_key",
        "service_account_path",
        "session_token",
        "skip_signature",
        "timeout",
        "token",
        "user_agent",
        "virtual_hosted_style_request",
    }
)


@dataclass(frozen=True, slots=True)
class Place:
    """A dataset on a branch, and how to get in."""

    uri: str
    branch: str | None
    storage_options: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What to read, in batches and partitions of how many rows; of partitions 0 leaves it open."""

    place: Place
    tag: str | None = None
    version: int | None = None
    columns: tuple[str, ...] | None = None
    batch_size: int = 16_384
    rows_per_partition: int = 0
    row_marks: bool = False


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where to write, in files of how many rows, and what the write is called.

    `life`, where given, is that of the branch; `merge` is the version of which rows say, by
    address, which ones they replace.
    """

    place: Place
    life: str | None = None
    max_rows_per_file: int = 1_048_576
    write_id: str | None = None
    merge: int | None = None


def read_options(given: Mapping[str, str], storages: Storages) -> ReadOptions:
    """Parse a read's options; raises InvalidInputError naming the one that is wrong."""
    said = {key.lower(): value for key, value in given.items()}
    branch, tag, version = said.get("branch"), said.get("tag"), said.get("version")
    if tag is not None and (branch is not None or version is not None):
        _refuse("A tag names a branch and a version: give 'tag', or 'branch' and 'version'.")
    usual = ReadOptions(_place(said, _READ, storages))
    return ReadOptions(
        usual.place,
        tag,
        None if version is None else _positive(said, "version", 0),
        _names(said.get("columns")),
        _positive(said, "batch_size", usual.batch_size),
        _positive(said, "rows_per_partition", usual.rows_per_partition),
        _is_true(said, "row_marks"),
    )


def write_options(given: Mapping[str, str], storages: Storages) -> WriteOptions:
    """Parse a write's options; raises InvalidInputError naming the one that is wrong."""
    said = {key.lower(): value for key, value in given.items()}
    usual = WriteOptions(_place(said, _WRITE, storages))
    return WriteOptions(
        usual.place,
        said.get("life") or None,
        _positive(said, "max_rows_per_file", usual.max_rows_per_file),
        said.get("write_id") or None,
        None if said.get("merge") is None else _positive(said, "merge", 0),
    )


def configured_storage(spark: SparkSession) -> dict[str, str]:
    """The storage options that stand in Spark's configuration."""
    found = getattr(spark.conf, "getAll", None)
    if found is None:  # before Spark 4
        found = dict(spark.sparkContext.getConf().getAll())
    said = found() if callable(found) else found
    return {
        key.removeprefix(STORAGE_CONF): value
        for key, value in said.items()
        if key.startswith(STORAGE_CONF)
    }


def storage_of(uri: str, storages: Storages) -> Mapping[str, str]:
    """The options registered for a dataset, or for the nearest folder above it."""
    place = uri.rstrip("/")
    fitting = [one for one in storages if f"{place}/".startswith(f"{one.rstrip('/')}/") or not one]
    return storages[max(fitting, key=len)] if fitting else {}


def _place(said: Mapping[str, str], known: tuple[str, ...], storages: Storages) -> Place:
    from airflow_provider_lancerefs.refstore.storage import normalise_uri

    uri = said.get("dataset") or said.get("path")
    if not uri:
        _refuse("Say which dataset: .load(uri) or .save(uri), or .option('dataset', uri).")
    own = {key: value for key, value in said.items() if key not in known}
    for key in own:
        if key not in _STORAGE_NAMES and not _STORAGE_PREFIX.match(key):
            _refuse_unknown(key, known)
    root = normalise_uri(uri)
    return Place(root, said.get("branch") or None, {**storage_of(root, storages), **own})


def _positive(said: Mapping[str, str], name: str, usual: int) -> int:
    value = said.get(name)
    if value is None:
        return usual
    if not (value.isascii() and value.isdigit() and int(value) > 0):
        _refuse(f"The option {name!r} is a whole number above 0, not {value!r}.")
    return int(value)


def _is_true(said: Mapping[str, str], name: str) -> bool:
    value = said.get(name, "false").lower()
    if value not in ("true", "false"):
        _refuse(f"The option {name!r} is 'true' or 'false', not {value!r}.")
    return value == "true"


def _names(value: str | None) -> tuple[str, ...] | None:
    """Names between commas, or a JSON list of them where a name has a comma."""
    if value is None:
        return None
    if not value.startswith("["):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    import json

    try:
        names = json.loads(value)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        _refuse(f"The option 'columns' is names between commas, or a JSON list, not {value!r}.")
    return tuple(names)


def _refuse_unknown(key: str, known: tuple[str, ...]) -> NoReturn:
    near = difflib.get_close_matches(key, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"ours are {', '.join(known)}."
    _refuse(f"{key!r} is neither an option of ours nor a storage option of pylance: {hint}")


def _refuse(sentence: str) -> NoReturn:
    from airflow_provider_lancerefs.refstore.errors import InvalidInputError

    raise InvalidInputError(sentence)
