"""Whatever anybody may write is a ref or a FormatError that says what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_lancerefs.refstore import Branch, FormatError, Tag
from airflow_provider_lancerefs.refstore.codec import (
    decode_branch,
    decode_tag,
    encode_branch,
    encode_tag,
)
from tests.refstore.ref_files import BRANCH, LIFE, TAG, branch_of, tag_of, text, without
from tests.refstore.strategies import odd_ref_files


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
