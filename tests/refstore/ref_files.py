"""Ref files as bytes and as models, of one branch and one tag."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from airflow_provider_lancerefs.refstore import Branch, Tag
from airflow_provider_lancerefs.refstore.codec import decode_branch, decode_tag

LIFE = "0123456789abcdef0123456789abcdef"
BRANCH = {
    "parentBranch": "dev",
    "identifier": {"version_mapping": [[3, LIFE[::-1]], [7, LIFE]]},
    "parentVersion": 7,
    "createAt": 1_700_000_000,
    "manifestSize": 412,
    "metadata": {"owner": "é"},
}
TAG = {
    "branch": "dev",
    "version": 7,
    "createdAt": "2026-11-18T10:00:00.123456Z",
    "updatedAt": "2026-11-18T11:00:00.000000Z",
    "manifestSize": 412,
    "metadata": {"owner": "é"},
}
READ_BRANCH = Branch(
    name="x",
    parent="dev",
    parent_version=7,
    created_at=datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
    manifest_size=412,
    identifier=((3, LIFE[::-1]), (7, LIFE)),
    metadata={"owner": "é"},
)
READ_TAG = Tag(
    name="x",
    branch="dev",
    version=7,
    manifest_size=412,
    created_at=datetime(2026, 11, 18, 10, 0, 0, 123456, UTC),
    updated_at=datetime(2026, 11, 18, 11, tzinfo=UTC),
    metadata={"owner": "é"},
)


def text(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def branch_of(**changes: object) -> Branch:
    return decode_branch("x", text(**{**BRANCH, **changes}))


def tag_of(**changes: object) -> Tag:
    return decode_tag("x", text(**{**TAG, **changes}))


def without(fields: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != key}
