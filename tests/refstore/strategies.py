"""Hypothesis strategies for names, revisions and ref files, and the names that must never pass."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from airflow_provider_lancerefs.refstore import Branch, Revision, Tag
from airflow_provider_lancerefs.refstore.names import (
    LAYOUT_FOLDERS,
    LONGEST_FILE_NAME,
    file_name,
)

PUNCTUATION = ".-_"
LARGEST_VERSION = 2**63 - 1
KNOWN_KEYS = {
    "branch",
    "createAt",
    "create_at",
    "createdAt",
    "created_at",
    "identifier",
    "manifestSize",
    "manifest_size",
    "metadata",
    "parentBranch",
    "parentVersion",
    "parent_branch",
    "parent_version",
    "updatedAt",
    "updated_at",
    "version",
}

# What no method that takes a branch name or a tag name may let through.
HOSTILE_NAMES = {
    "empty": "",
    "dot": ".",
    "parent folder": "..",
    "up": "../x",
    "up and up": "../../etc/passwd",
    "up in the middle": "a/../b",
    "dot part": "a/.",
    "dot part first": "./a",
    "absolute": "/etc/passwd",
    "closing slash": "a/",
    "two slashes": "a//b",
    "backslash": "a\\b",
    "NUL": "a\0b",
    "newline": "a\nb",
    "blank": "a b",
    "encoded slash": "a%2Fb",
    "at sign": "a@1",
    "colon": "tag:a",
    "shell": "$(reboot)",
    "emoji": "🙂",
    "combining accent": "e\u0301",
    "lone surrogate": "a\ud800",
    "lock": "a.lock",
    "10,000 characters": "a" * 10_000,
    "10,000 parts": "a/" * 9_999 + "a",
}
NOT_TEXT = {"none": None, "number": 7, "bytes": b"a", "list": ["a"]}

# Pieces that names are made of and broken with: joined at random they come near every rule.
_PIECES = ["a", "b1", "main", "é", "日本", "①", ".", "..", "-", "_", "/", "//", "\\", ".lock"]
_FOREIGN = [" ", "%", "@", ":", "+", "\0", "\n", "🙂", "\u0301"]

_LETTERS_AND_DIGITS = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl", "No")
alphabet = st.characters(categories=_LETTERS_AND_DIGITS, include_characters=PUNCTUATION)
near_names = st.lists(st.sampled_from(_PIECES + _FOREIGN), max_size=8).map("".join)
any_text = st.one_of(st.text(), near_names)

_segments = st.text(alphabet, min_size=1, max_size=12).filter(lambda part: part != ".")


def _is_fit(name: str) -> bool:
    return (
        ".." not in name
        and not name.endswith(".lock")
        and len(file_name(name)) <= LONGEST_FILE_NAME
    )


branch_names = (
    st.lists(_segments, min_size=1, max_size=4)
    .map("/".join)
    .filter(lambda name: _is_fit(name) and name != "main")
    .filter(lambda name: not {*LAYOUT_FOLDERS} & {*name.split("/")[1:]})
)
tag_names = _segments.filter(
    lambda name: _is_fit(name) and not name.startswith(".") and not name.endswith(".")
)
versions = st.integers(1, LARGEST_VERSION)

revisions = st.one_of(
    st.builds(Revision, st.one_of(st.just("main"), branch_names), st.none() | versions),
    st.builds(Revision, st.none(), st.none(), tag_names),
)

metadata = st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=4)
json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=10),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=4,
)
extra = st.dictionaries(
    st.text(max_size=10).filter(lambda key: key not in KNOWN_KEYS), json_values, max_size=3
)
_counts = st.integers(0, 2**64 - 1)
_lives = st.lists(
    st.tuples(versions, st.uuids().map(lambda one: one.hex)), min_size=1, max_size=4
).map(tuple)
_seconds = st.integers(0, 253_402_300_799).map(lambda second: datetime.fromtimestamp(second, UTC))
_moments = st.none() | st.datetimes(
    datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)
)

branches = st.builds(
    Branch,
    name=branch_names,
    parent=st.one_of(st.just("main"), branch_names),
    parent_version=_counts,
    created_at=_seconds,
    manifest_size=_counts,
    identifier=_lives,
    metadata=metadata,
    extra=extra,
)
tags = st.builds(
    Tag,
    name=tag_names,
    branch=st.one_of(st.just("main"), branch_names),
    version=_counts,
    manifest_size=_counts,
    created_at=_moments,
    updated_at=_moments,
    metadata=metadata,
    extra=extra,
)

# Ref files that are nearly right: the known keys with any JSON value, now and then the right one.
_odd_values = st.one_of(
    json_values,
    st.sampled_from([1, 400, "main", "a", "2026-11-18T10:00:00Z", {}, {"k": "v"}]),
    st.sampled_from([-1, 2**64, 10**400, 1.5, float("nan"), float("inf"), "\ud800", "../x"]),
    st.just({"version_mapping": [[1, "a" * 32]]}),
    st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(
        lambda offset: f"0001-01-01T00:00:00{'-' if offset < timedelta(0) else '+'}12:00"
    ),
)
_right = {"parentVersion": 1, "version": 1, "createAt": 1, "manifestSize": 400}
odd_ref_files = st.dictionaries(
    st.one_of(st.sampled_from(sorted(KNOWN_KEYS)), st.text(max_size=5)), _odd_values, max_size=6
).map(lambda odd: json.dumps({**_right, **odd}).encode())
