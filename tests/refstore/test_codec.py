"""Ref files as bytes and as models: everything pylance writes, and anything anybody may write."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_lancerefs.refstore import Branch, FormatError, Tag, layout
from airflow_provider_lancerefs.refstore.codec import (
    decode_branch,
    decode_tag,
    encode_branch,
    encode_tag,
)
from tests.refstore.strategies import branches, extra, odd_ref_files, tags
from tests.tables import Place

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
SNAKE = {
    "parentBranch": "parent_branch",
    "parentVersion": "parent_version",
    "createAt": "create_at",
    "manifestSize": "manifest_size",
    "createdAt": "created_at",
    "updatedAt": "updated_at",
}


def text(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def branch_of(**changes: object) -> Branch:
    return decode_branch("x", text(**{**BRANCH, **changes}))


def tag_of(**changes: object) -> Tag:
    return decode_tag("x", text(**{**TAG, **changes}))


def without(fields: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != key}


def decode_both(data: bytes) -> list[Branch | Tag]:
    """What the bytes are as a branch and as a tag; a FormatError is the only way out."""
    found: list[Branch | Tag] = []
    refusals: list[FormatError] = []
    for decode in (decode_branch, decode_tag):
        try:
            found.append(decode("x", data))
        except FormatError as error:
            refusals.append(error)
    assert all(str(error).startswith("The file of ") for error in refusals)
    assert all(str(error).endswith(": restore it, or delete the ref.") for error in refusals)
    assert all(error.ref == "x" for error in refusals)
    return found


def encode(ref: Branch | Tag) -> bytes:
    return encode_branch(ref) if isinstance(ref, Branch) else encode_tag(ref)


def decode_as(ref: Branch | Tag, data: bytes) -> Branch | Tag:
    return (decode_branch if isinstance(ref, Branch) else decode_tag)(ref.name, data)


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


@given(st.binary())
@example(b"")
@example(b"\xff\xfe")
@example(b"\xef\xbb\xbf{}")
@example(b"\x89PNG\r\n")
def test_any_bytes_are_decoded_or_a_format_error(data: bytes) -> None:
    """Bytes of any kind are a ref or a FormatError, never another exception."""
    for ref in decode_both(data):
        assert decode_as(ref, encode(ref)) == ref


@given(st.integers(0), st.binary(min_size=1, max_size=3))
def test_damaged_files_are_decoded_or_a_format_error(at: int, patch: bytes) -> None:
    """A good file with some bytes overwritten is a ref or a FormatError."""
    for good in (text(**BRANCH), text(**TAG)):
        start = at % len(good)
        for damaged in (good[:start], good[:start] + patch + good[start + len(patch) :]):
            for ref in decode_both(damaged):
                assert decode_as(ref, encode(ref)) == ref


@given(odd_ref_files)
@example(text(**BRANCH, k=float("nan")))
@example(text(**BRANCH, k="\ud800"))
@example(text(**{**BRANCH, "\ud800": "k"}))
@example(text(parentVersion=1, parentBranch="\ud800"))
@example(text(**{**BRANCH, "parentBranch": "\ud800"}))
@example(text(**{**BRANCH, "metadata": {"k": "\ud800"}}))
@example(text(**{**TAG, "createdAt": "0001-01-01T00:00:00+12:00"}))
@example(text(**{**TAG, "createdAt": "9999-12-31T23:59:59-12:00"}))
@example(b'{"parentVersion": 1, "version": 1, "manifestSize": 1, "k": "\xed\xa0\x80"}')
def test_whatever_is_read_can_be_written_again(data: bytes) -> None:
    """A file with odd values is a FormatError, or a ref that is written and read back the same."""
    for ref in decode_both(data):
        assert decode_as(ref, encode(ref)) == ref
        json.dumps(json.loads(encode(ref)), allow_nan=False)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_constants_that_are_no_json_are_refused(constant: str) -> None:
    """Python's own spellings of odd numbers are no JSON, as pylance sees it too."""
    for good in (BRANCH, TAG):
        data = json.dumps(good)[:-1] + f', "k": {constant}}}'
        assert decode_both(data.encode()) == []


def test_nesting_of_any_depth_is_written_again_or_a_format_error() -> None:
    """However deep a value is nested, no file that is read raises RecursionError when written."""
    for depth in [100, *range(800, 1_000, 10), 100_000]:
        nested = f"{'[' * depth}1{']' * depth}"
        for ref in decode_both(f'{json.dumps(BRANCH)[:-1]}, "deep": {nested}}}'.encode()):
            encode(ref)


def test_duplicate_keys_mean_the_last() -> None:
    """Of two equal keys the last one counts, and only it is written again."""
    data = json.dumps(BRANCH)[:-1] + ', "parentVersion": 9}'
    read = decode_branch("x", data.encode())
    assert read.parent_version == 9
    assert encode_branch(read).count(b"parentVersion") == 1


@pytest.mark.parametrize("data", [b"[]", b"null", b"1", b'"text"', b"true"], ids=repr)
def test_only_an_object_is_a_ref(data: bytes) -> None:
    """JSON that is no object is said to be none."""
    with pytest.raises(FormatError) as caught:
        decode_tag("v1", data)
    assert str(caught.value) == (
        "The file of tag 'v1' is not a JSON object: restore it, or delete the ref."
    )


def test_the_message_names_ref_and_key() -> None:
    """A refusal says which ref, which key, and what the key should hold."""
    with pytest.raises(FormatError) as caught:
        decode_branch("a/b", text(**{**BRANCH, "parentVersion": "7"}))
    assert str(caught.value) == (
        "The file of branch 'a/b' has no usable 'parentVersion' (it should be a whole number): "
        "restore it, or delete the ref."
    )


NOT_COUNTS = [None, True, "7", 7.0, -1, 2**64, 10**400, [7], {}]
NOT_TEXTS = [True, 7, ["a"], {"a": "b"}]
NOT_NAMES = ["../x", "/", "a//b", ".", "a/.", "a\0b"]
NOT_MOMENTS = ["", "yesterday", "2026-13-01T00:00:00Z", "2026-11-18T25:00:00Z", 5, True, {}]
NOT_METADATA = ["k", 7, ["k"], {"k": 1}, {"k": None}, {"k": {}}, [], 0, False, ""]
NOT_IDENTIFIERS = [
    7,
    "a",
    [],
    {},
    {"version_mapping": None},
    {"version_mapping": {}},
    {"version_mapping": [1, LIFE]},
    {"version_mapping": [[1]]},
    {"version_mapping": [[1, LIFE, 2]]},
    {"version_mapping": [["1", LIFE]]},
    {"version_mapping": [[True, LIFE]]},
    {"version_mapping": [[1, 2]]},
    {"version_mapping": [[1, None]]},
    {"version_mapping": [[-1, LIFE]]},
    {"version_mapping": [[2**64, LIFE]]},
]
WRONG_BRANCHES = {
    "parentVersion": NOT_COUNTS,
    "createAt": [*NOT_COUNTS, 253_402_300_800],
    "manifestSize": NOT_COUNTS,
    "parentBranch": [*NOT_TEXTS, *NOT_NAMES],
    "metadata": NOT_METADATA,
    "identifier": NOT_IDENTIFIERS,
}
WRONG_TAGS = {
    "version": NOT_COUNTS,
    "manifestSize": NOT_COUNTS,
    "branch": [*NOT_TEXTS, *NOT_NAMES],
    "createdAt": NOT_MOMENTS,
    "updatedAt": NOT_MOMENTS,
    "metadata": NOT_METADATA,
}


def cases(wrong: dict[str, list[Any]]) -> list[Any]:
    return [
        pytest.param(key, value, id=f"{key}={ascii(value)[:40]}")
        for key, values in wrong.items()
        for value in values
    ]


@pytest.mark.parametrize(("key", "value"), cases(WRONG_BRANCHES))
def test_wrong_types_in_a_branch(key: str, value: object) -> None:
    """A value that its key cannot have makes the file broken, and the message names the key."""
    with pytest.raises(FormatError, match=key):
        branch_of(**{key: value})


@pytest.mark.parametrize(("key", "value"), cases(WRONG_TAGS))
def test_wrong_types_in_a_tag(key: str, value: object) -> None:
    """A value that its key cannot have makes the file broken, and the message names the key."""
    with pytest.raises(FormatError, match=key):
        tag_of(**{key: value})


@pytest.mark.parametrize("key", ["parentVersion"])
def test_keys_a_branch_cannot_do_without(key: str) -> None:
    """Without the version it was forked from, a file says nothing of a branch."""
    with pytest.raises(FormatError, match=key):
        decode_branch("x", text(**without(BRANCH, key)))


def test_keys_a_tag_cannot_do_without() -> None:
    """Without a version a file is no tag."""
    with pytest.raises(FormatError, match="version"):
        decode_tag("x", text(**without(TAG, "version")))


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
