"""Revisions: what a person writes, and what is written back."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_lancerefs.refstore import (
    ErrorKind,
    InvalidInputError,
    InvalidRefNameError,
    Revision,
    Version,
    parse_revision,
)
from tests.refstore.strategies import HOSTILE_NAMES, any_text, revisions

GRAMMAR = "write 'main', 'main@3', 'branch:NAME', 'branch:NAME@7' or 'tag:NAME'"
PARSED = {
    "main": Revision(),
    "main@3": Revision("main", 3),
    "branch:x": Revision("x"),
    "branch:x@7": Revision("x", 7),
    "branch:a/b.c@12": Revision("a/b.c", 12),
    "branch:tag": Revision("tag"),
    "branch:main/x": Revision("main/x"),
    "tag:v1": Revision(None, None, "v1"),
    "tag:main": Revision(None, None, "main"),
    f"main@{2**63 - 1}": Revision("main", 2**63 - 1),
}
REFUSED = {
    "": f"'' is not a revision: {GRAMMAR}.",
    "Main": f"'Main' is not a revision: {GRAMMAR}.",
    "x": f"'x' is not a revision: {GRAMMAR}.",
    "x@1": f"'x@1' is not a revision: {GRAMMAR}.",
    "3": f"'3' is not a revision: {GRAMMAR}.",
    "@3": f"'@3' is not a revision: {GRAMMAR}.",
    " main": f"' main' is not a revision: {GRAMMAR}.",
    "main ": f"'main ' is not a revision: {GRAMMAR}.",
    "Branch:x": f"'Branch:x' is not a revision: {GRAMMAR}.",
    "a\0b": rf"'a\x00b' is not a revision: {GRAMMAR}.",
    "main@": "'main@' is not a revision: after '@' comes a version number.",
    "main@x": "'main@x' is not a revision: after '@' comes a version number.",
    "main@-1": "'main@-1' is not a revision: after '@' comes a version number.",
    "main@+1": "'main@+1' is not a revision: after '@' comes a version number.",
    "main@1.0": "'main@1.0' is not a revision: after '@' comes a version number.",
    "main@1_0": "'main@1_0' is not a revision: after '@' comes a version number.",
    "main@ 1": "'main@ 1' is not a revision: after '@' comes a version number.",
    "main@1@2": "'main@1@2' is not a revision: after '@' comes a version number.",
    "main@²": "'main@²' is not a revision: after '@' comes a version number.",
    "main@٣": "'main@٣' is not a revision: after '@' comes a version number.",
    "main@0": "'main@0' is not a revision: versions start at 1.",
    "main@00": "'main@00' is not a revision: versions start at 1.",
}
BAD_NAMES = {
    "branch:": "A branch name may not be empty.",
    "branch:@1": "A branch name may not be empty.",
    "tag:": "A tag name may not be empty.",
    "branch:/a": "'/a' is not a branch name: it may not start or end with '/'.",
    "branch:branch:x": "'branch:x' is not a branch name: ':' is not a letter, a digit, '.', '-' or "
    "'_' (and '/' between parts).",
    "tag:v1@3": "'v1@3' is not a tag name: '@' is not a letter, a digit, '.', '-' or '_'.",
    "tag:a/b": "'a/b' is not a tag name: '/' is not a letter, a digit, '.', '-' or '_'.",
}


@pytest.mark.parametrize(("text", "revision"), PARSED.items(), ids=PARSED)
def test_the_grammar_both_ways(text: str, revision: Revision) -> None:
    """Each form is read as what it says, and printed as it was read."""
    assert parse_revision(text) == revision
    assert str(revision) == text


def test_main_is_no_other_branch() -> None:
    """'branch:main' is main, and is printed in its short form."""
    assert parse_revision("branch:main") == Revision()
    assert parse_revision("branch:main@2") == Revision("main", 2)
    assert str(parse_revision("branch:main@2")) == "main@2"


def test_leading_zeros_do_not_matter() -> None:
    """A number is a number however it is padded."""
    assert parse_revision("main@007") == Revision("main", 7)


@pytest.mark.parametrize(("text", "message"), REFUSED.items(), ids=ascii)
def test_what_is_no_revision_is_told_the_grammar(text: str, message: str) -> None:
    """Anything else is refused with what was written and how to write it."""
    with pytest.raises(InvalidInputError) as caught:
        parse_revision(text)
    assert str(caught.value) == message
    assert caught.value.kind is ErrorKind.INVALID_INPUT


@pytest.mark.parametrize("number", [str(2**63), str(2**64), "9" * 5_000], ids=len)
def test_versions_have_an_end(number: str) -> None:
    """A number that no version can have is refused, however long it is."""
    with pytest.raises(InvalidInputError, match="is not a revision") as caught:
        parse_revision(f"main@{number}")
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(("text", "message"), BAD_NAMES.items(), ids=BAD_NAMES)
def test_names_in_revisions_keep_the_rules_of_names(text: str, message: str) -> None:
    """A revision that names no possible branch or tag is refused with the rule of the name."""
    with pytest.raises(InvalidRefNameError) as caught:
        parse_revision(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES)
@pytest.mark.parametrize("form", ["{}", "branch:{}", "branch:{}@1", "tag:{}"])
def test_hostile_revisions_are_refused_in_one_line(form: str, name: str) -> None:
    """Whatever is written, the refusal is one short printable line."""
    if form == "branch:{}" and name == "a@1":
        assert parse_revision("branch:a@1") == Revision("a", 1)
    elif form == "{}" and name == "tag:a":
        assert parse_revision("tag:a") == Revision(None, None, "a")
    else:
        with pytest.raises(InvalidInputError) as caught:
            parse_revision(form.format(name))
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 250


@pytest.mark.parametrize("value", [None, 3, b"main", ["main"], Revision(), Version("main", 1, 0)])
def test_a_revision_is_written_as_a_string(value: object) -> None:
    """Anything but a string is refused with the type it is of."""
    with pytest.raises(InvalidInputError) as caught:
        parse_revision(value)  # type: ignore[arg-type]
    assert str(caught.value) == f"A revision is a string, not {type(value).__name__}: {GRAMMAR}."


@given(revisions)
def test_print_then_parse_is_identity(revision: Revision) -> None:
    """Every revision is read back from what it prints as."""
    assert parse_revision(str(revision)) == revision


@given(
    st.one_of(any_text, st.tuples(st.sampled_from(["main@", "branch:", "tag:"]), any_text)).map(
        lambda parts: parts if isinstance(parts, str) else "".join(parts)
    )
)
def test_any_text_is_a_revision_or_invalid_input(text: str) -> None:
    """Any text is read, and then means what it prints as, or is refused as InvalidInputError."""
    try:
        revision = parse_revision(text)
    except InvalidInputError:
        return
    assert parse_revision(str(revision)) == revision


def test_pinned() -> None:
    """A version number or a tag pins a revision; a branch's name alone means its head."""
    assert [parse_revision(text).pinned for text in ("main", "branch:x")] == [False, False]
    assert [parse_revision(text).pinned for text in ("main@1", "branch:x@1", "tag:t")] == [True] * 3


def test_a_version_prints_as_a_revision_that_means_it() -> None:
    """What an exact version prints as is read as a revision of that number."""
    assert parse_revision(str(Version("main", 3, 400))) == Revision("main", 3)
    assert parse_revision(str(Version("a/b", 3, 400))) == Revision("a/b", 3)


def test_revisions_are_plain_values() -> None:
    """Revisions compare, hash and pickle by what they say."""
    revision = parse_revision("branch:x@7")
    assert pickle.loads(pickle.dumps(revision)) == revision
    assert len({revision, parse_revision("branch:x@007")}) == 1
