"""Ref files are read and written as pylance does, and hold all that they held before."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from airflow_provider_lancerefs.refstore import Branch, Tag, layout
from airflow_provider_lancerefs.refstore.codec import (
    decode_branch,
    decode_tag,
    encode_branch,
    encode_tag,
)
from tests.refstore.ref_files import (
    BRANCH,
    READ_BRANCH,
    READ_TAG,
    TAG,
    branch_of,
    tag_of,
    text,
    without,
)
from tests.refstore.strategies import branches, extra, tags
from tests.tables import Place

SNAKE = {
    "parentBranch": "parent_branch",
    "parentVersion": "parent_version",
    "createAt": "create_at",
    "manifestSize": "manifest_size",
    "createdAt": "created_at",
    "updatedAt": "updated_at",
}


def test_a_branch_file_is_read_field_by_field() -> None:
    """Each key of a branch file stands in its field of the model."""
    assert branch_of() == READ_BRANCH


def test_a_tag_file_is_read_field_by_field() -> None:
    """Each key of a tag file stands in its field of the model."""
    assert tag_of() == READ_TAG


def test_what_is_written_is_what_pylance_reads() -> None:
    """Files are written in camelCase, as UTF-8, with exactly the keys that pylance writes."""
    assert json.loads(encode_branch(READ_BRANCH)) == BRANCH
    assert json.loads(encode_tag(READ_TAG)) == TAG
    assert "é".encode() in encode_tag(READ_TAG)


def test_snake_case_is_read() -> None:
    """The keys of the format's own table mean the same as pylance's camelCase ones."""
    branch = {SNAKE.get(key, key): value for key, value in BRANCH.items()}
    tag = {SNAKE.get(key, key): value for key, value in TAG.items()}
    assert "parent_version" in branch
    assert "manifest_size" in tag
    assert decode_branch("x", text(**branch)) == READ_BRANCH
    assert decode_tag("x", text(**tag)) == READ_TAG
    assert json.loads(encode_branch(decode_branch("x", text(**branch)))) == BRANCH


@pytest.mark.parametrize(("camel", "snake"), SNAKE.items(), ids=SNAKE)
def test_camel_case_wins_over_snake_case(camel: str, snake: str) -> None:
    """Where a file has both spellings of a key, in any order, the one that pylance reads counts."""
    body, decode, read = (
        (BRANCH, decode_branch, READ_BRANCH) if camel in BRANCH else (TAG, decode_tag, READ_TAG)
    )
    assert camel in body
    assert decode("x", text(**{**body, snake: None})) == read
    assert decode("x", text(**{snake: None, **body})) == read


def test_main_is_null_and_the_other_way_round() -> None:
    """A ref on main has a null branch; a missing key, an empty string and 'main' mean it too."""
    for body in (*({"parentBranch": value} for value in (None, "", "main")), {}):
        read = decode_branch("x", text(**{**without(BRANCH, "parentBranch"), **body}))
        assert read.parent == "main"
        assert json.loads(encode_branch(read))["parentBranch"] is None
    for body in (*({"branch": value} for value in (None, "", "main")), {}):
        read_tag = decode_tag("x", text(**{**without(TAG, "branch"), **body}))
        assert read_tag.branch == "main"
        assert json.loads(encode_tag(read_tag))["branch"] is None


@given(branches)
def test_branches_round_trip(branch: Branch) -> None:
    """A branch is read back as it was written, its unknown keys included."""
    assert decode_branch(branch.name, encode_branch(branch)) == branch


@given(tags)
def test_tags_round_trip(tag: Tag) -> None:
    """A tag is read back as it was written, its unknown keys included."""
    assert decode_tag(tag.name, encode_tag(tag)) == tag


@given(extra)
def test_unknown_keys_are_kept(unknown: dict[str, object]) -> None:
    """Keys of a newer format stand in `extra`, and are in the file again after a change."""
    branch, tag = branch_of(**unknown), tag_of(**unknown)
    assert branch.extra == tag.extra == unknown
    changed = json.loads(encode_branch(replace(branch, metadata={"new": "1"})))
    assert changed == {**BRANCH, **unknown, "metadata": {"new": "1"}}
    assert json.loads(encode_tag(replace(tag, version=8))) == {**TAG, **unknown, "version": 8}


def test_duplicate_keys_mean_the_last() -> None:
    """Of two equal keys the last one counts, and only it is written again."""
    data = json.dumps(BRANCH)[:-1] + ', "parentVersion": 9}'
    read = decode_branch("x", data.encode())
    assert read.parent_version == 9
    assert encode_branch(read).count(b"parentVersion") == 1


def test_the_least_that_is_read() -> None:
    """Whatever else is missing has a value that means unknown."""
    branch, tag = decode_branch("x", b'{"parentVersion": 3}'), decode_tag("x", b'{"version": 3}')
    assert (branch.parent, branch.parent_version, branch.manifest_size) == ("main", 3, 0)
    assert branch.created_at == datetime(1970, 1, 1, tzinfo=UTC)
    assert (dict(branch.metadata), dict(branch.extra)) == ({}, {})
    assert tag == Tag("x", "main", 3, 0)


def test_counts_go_as_far_as_the_format() -> None:
    """A count may have all the 64 bits that the format gives it."""
    assert branch_of(parentVersion=2**64 - 1).parent_version == 2**64 - 1
    assert tag_of(manifestSize=2**64 - 1).manifest_size == 2**64 - 1


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2026-11-18T10:00:00Z", datetime(2026, 11, 18, 10, tzinfo=UTC)),
        ("2026-11-18T12:00:00+02:00", datetime(2026, 11, 18, 10, tzinfo=UTC)),
        ("2026-11-18T10:00:00", datetime(2026, 11, 18, 10, tzinfo=UTC)),
        ("2026-11-18T10:00:00.123456789Z", datetime(2026, 11, 18, 10, 0, 0, 123456, UTC)),
    ],
)
def test_moments(written: str, moment: datetime) -> None:
    """Times are read with any offset, and with pylance's nanoseconds."""
    assert tag_of(createdAt=written).created_at == moment


@pytest.mark.parametrize(
    ("name", "changes", "life"),
    [
        ("old", {}, "a04512096bed5ee91b674366368a0130"),
        ("other", {}, "0930a031e3e544087f803214bbc250a5"),
        ("old", {"parentBranch": "x"}, "3678bb87430b63537d32bef724fba7d8"),
        ("old", {"parentVersion": 2}, "d348cd7aed822fb6ad872d58b4c2c61f"),
        ("old", {"createAt": 1_700_000_001}, "a04511096bed5d361b674466368a02e3"),
        ("old", {"manifestSize": 1, "metadata": {"k": "v"}}, "a04512096bed5ee91b674366368a0130"),
        (
            "old",
            {"identifier": {"version_mapping": [[0, "0" * 32]]}},
            "a04512096bed5ee91b674366368a0130",
        ),
    ],
)
def test_a_missing_identifier_is_what_pylance_takes_for_it(
    tmp_path: Path, name: str, changes: dict[str, Any], life: str
) -> None:
    """A file of an older Lance gets the identifier that pylance takes for it."""
    body = {"parentBranch": None, "parentVersion": 1, "createAt": 17 * 10**8, "manifestSize": 400}
    data = text(**{**body, **changes})
    assert decode_branch(name, data).identifier == ((0, life),)
    dataset = Place(str(tmp_path)).create().open()
    path = tmp_path / layout.branch_ref(name)
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    assert dataset.branches.list()[name]["branch_identifier"] == [(0, life)]


def test_files_that_pylance_wrote(tmp_path: Path) -> None:
    """Each field of pylance's branches and tags is what pylance itself says of them."""
    place = Place(str(tmp_path)).create().append(4)
    dataset = place.open()
    dataset.create_branch("a/b", 1)
    place.branch("a/b").append(5)
    place.open().create_branch("a/b/c", ("a/b", 2))
    dataset.tags.create("v1", ("a/b", 2))
    dataset.tags.create("v2", 1)
    dataset.tags.replace_metadata("v2", {"k": "v"})
    files = {path: path.read_bytes() for path in (tmp_path / "_refs").rglob("*.json")}
    found = {
        name: decode_branch(name, files[tmp_path / layout.branch_ref(name)])
        for name in ("a/b", "a/b/c")
    }
    for name, said in place.open().branches.list().items():
        branch = found[name]
        assert branch.parent == (said["parent_branch"] or "main")
        assert branch.parent_version == said["parent_version"]
        assert int(branch.created_at.timestamp()) == said["create_at"]
        assert branch.manifest_size == said["manifest_size"]
        assert list(branch.identifier) == [tuple(pair) for pair in said["branch_identifier"]]
        assert dict(branch.extra) == {}
    for name, said_of_tag in place.open().tags.list().items():
        tag = decode_tag(name, files[tmp_path / layout.tag_ref(name)])
        assert tag.branch == (said_of_tag["branch"] or "main")
        assert tag.version == said_of_tag["version"]
        assert tag.manifest_size == said_of_tag["manifest_size"]
        assert dict(tag.metadata) == said_of_tag["metadata"]
        assert tag.created_at is not None
        assert tag.created_at <= (tag.updated_at or tag.created_at)
        assert dict(tag.extra) == {}
    assert found["a/b/c"].is_child_of(found["a/b"])


def test_tokens_are_handed_through() -> None:
    """The token under which a file was read is kept with the ref, and is no part of its value."""
    assert decode_branch("x", text(**BRANCH), "t").token == "t"
    assert decode_tag("x", text(**TAG), "t").token == "t"
    assert decode_tag("x", text(**TAG), "t") == READ_TAG
