"""Names of branches and tags: each rule of the format, one by one, and what follows from them."""

from __future__ import annotations

import json
import posixpath
import sys
from pathlib import Path
from typing import Any

import lance
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_lancerefs.refstore import (
    BrokenRef,
    ErrorKind,
    InvalidRefNameError,
    check_branch_name,
    check_tag_name,
    layout,
)
from airflow_provider_lancerefs.refstore.names import (
    LAYOUT_FOLDERS,
    LONGEST_FILE_NAME,
    check_new_branch_name,
    check_new_tag_name,
    file_name,
    name_of_file,
    shown,
)
from tests.refstore.strategies import (
    HOSTILE_NAMES,
    NOT_TEXT,
    any_text,
    branch_names,
    near_names,
    tag_names,
)
from tests.tables import Place

NOT_BRANCHES = {
    "": "may not be empty",
    "/a": "it may not start or end with '/'",
    "a/": "it may not start or end with '/'",
    "/": "it may not start or end with '/'",
    "a//b": "it may not contain '//'",
    "a..b": r"it may not contain '..' or '\'",
    "..": r"it may not contain '..' or '\'",
    "a/../b": r"it may not contain '..' or '\'",
    "a\\b": r"it may not contain '..' or '\'",
    "a b": "' ' is not a letter, a digit, '.', '-' or '_' (and '/' between parts)",
    "a%2Fb": "'%' is not a letter, a digit, '.', '-' or '_' (and '/' between parts)",
    "a\0b": r"'\x00' is not a letter, a digit, '.', '-' or '_' (and '/' between parts)",
    "🙂": "'🙂' is not a letter, a digit, '.', '-' or '_' (and '/' between parts)",
    ".": "no part of it may be '.' alone",
    "a/.": "no part of it may be '.' alone",
    "a/./b": "no part of it may be '.' alone",
    "a.lock": "it may not end with '.lock'",
    "a/.lock": "it may not end with '.lock'",
    "main": "'main' is the default branch and needs no ref",
}
NOT_NEW_BRANCHES = {
    **NOT_BRANCHES,
    "a" * 251: "its file name has 256 characters, over the 216 allowed",
    "é" * 42: "its file name has 257 characters, over the 216 allowed",
    **{
        f"a/{folder}": f"with a part '{folder}' after the first, its folder would be one in which "
        "another branch keeps its files"
        for folder in LAYOUT_FOLDERS
    },
    "a/b/_versions/c": "with a part '_versions' after the first, its folder would be one in which "
    "another branch keeps its files",
}
BRANCHES = [
    "a",
    "A-b_c.9",
    "bugfix/issue-123",
    "a/b/c/d",
    ".a",
    "a.",
    "a.lock/b",
    "lock",
    "a.lock.b",
    "main/x",
    "Main",
    "_refs",
    "tree",
    "-",
    "é",
    "日本語/テスト",
    "①²",
    "a" * 211,
]
NOT_TAGS = {
    "": "may not be empty",
    "a/b": "'/' is not a letter, a digit, '.', '-' or '_'",
    "a b": "' ' is not a letter, a digit, '.', '-' or '_'",
    "a\\b": r"'\\' is not a letter, a digit, '.', '-' or '_'",
    ".": "it may not start or end with '.'",
    ".a": "it may not start or end with '.'",
    "a.": "it may not start or end with '.'",
    "..": "it may not start or end with '.'",
    "a.lock": "it may not end with '.lock'",
    "a..b": "it may not contain '..'",
}
NOT_NEW_TAGS = {
    **NOT_TAGS,
    "a" * 251: "its file name has 256 characters, over the 216 allowed",
    "é": "pylance cannot list tags once one has a letter that is not ASCII",
}
TAGS = ["v1.0.0", "production", "main", "latest", "-a_", "a.lock.b", "a" * 211]


def ids(cases: Any) -> list[str]:
    return [ascii(name[:12]) for name in cases]


@pytest.mark.parametrize(("name", "rule"), NOT_NEW_BRANCHES.items(), ids=ids(NOT_NEW_BRANCHES))
def test_each_branch_rule_is_named(name: str, rule: str) -> None:
    """A branch name that breaks a rule is refused with that rule and the name in the message."""
    with pytest.raises(InvalidRefNameError) as caught:
        check_new_branch_name(name)
    assert str(caught.value) == (
        f"{shown(name)} is not a branch name: {rule}." if name else f"A branch name {rule}."
    )
    assert caught.value.kind is ErrorKind.INVALID_REF_NAME


@pytest.mark.parametrize(("name", "rule"), NOT_NEW_TAGS.items(), ids=ids(NOT_NEW_TAGS))
def test_each_tag_rule_is_named(name: str, rule: str) -> None:
    """A tag name that breaks a rule is refused with that rule and the name in the message."""
    with pytest.raises(InvalidRefNameError) as caught:
        check_new_tag_name(name)
    assert str(caught.value) == (
        f"{shown(name)} is not a tag name: {rule}." if name else f"A tag name {rule}."
    )
    assert caught.value.kind is ErrorKind.INVALID_REF_NAME


@pytest.mark.parametrize("name", NOT_BRANCHES, ids=ids(NOT_BRANCHES))
def test_rules_of_the_format_hold_for_every_branch(name: str) -> None:
    """A name against the format's rules is refused for a branch that stands as for a new one."""
    with pytest.raises(InvalidRefNameError):
        check_branch_name(name)


@pytest.mark.parametrize("name", NOT_TAGS, ids=ids(NOT_TAGS))
def test_rules_of_the_format_hold_for_every_tag(name: str) -> None:
    """A name against the format's rules is refused for a tag that stands as for a new one."""
    with pytest.raises(InvalidRefNameError):
        check_tag_name(name)


@pytest.mark.parametrize("name", ["a/_versions", "a/data", "a" * 251], ids=len)
def test_branches_that_others_made_are_read(name: str) -> None:
    """What is refused for a new branch only passes for one that another tool may have made."""
    assert check_branch_name(name) == name


@pytest.mark.parametrize("name", ["é", "日本", "a" * 251], ids=len)
def test_tags_that_others_made_are_read(name: str) -> None:
    """What is refused for a new tag only passes for one that another tool may have made."""
    assert check_tag_name(name) == name


@pytest.mark.parametrize("name", BRANCHES, ids=ids(BRANCHES))
def test_branch_names_that_break_no_rule(name: str) -> None:
    """Any name that keeps the rules is handed back as it is."""
    assert check_branch_name(name) is name
    assert check_new_branch_name(name) is name


@pytest.mark.parametrize("name", TAGS, ids=ids(TAGS))
def test_tag_names_that_break_no_rule(name: str) -> None:
    """Any name that keeps the rules is handed back as it is; 'main' is no special tag."""
    assert check_tag_name(name) is name
    assert check_new_tag_name(name) is name


@pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES)
@pytest.mark.parametrize(
    "check", [check_branch_name, check_tag_name, check_new_branch_name, check_new_tag_name]
)
def test_hostile_names_are_refused_in_one_line(check: Any, name: str) -> None:
    """Whatever the name, the refusal is one printable line and holds no more of it than that."""
    with pytest.raises(InvalidRefNameError) as caught:
        check(name)
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 250
    assert text.endswith(".")
    assert len(caught.value.ref or "") <= 255


@pytest.mark.parametrize("name", NOT_TEXT.values(), ids=NOT_TEXT)
@pytest.mark.parametrize(
    ("check", "kind"), [(check_branch_name, "branch"), (check_tag_name, "tag")]
)
def test_a_name_is_a_string(check: Any, kind: str, name: object) -> None:
    """Anything but a string is refused with the type it is of."""
    with pytest.raises(InvalidRefNameError) as caught:
        check(name)
    assert str(caught.value) == f"A {kind} name is a string, not {type(name).__name__}."


@given(any_text)
@example("a/_versions")
def test_what_is_accepted_round_trips_and_stays_in_its_folder(name: str) -> None:
    """An accepted branch name comes back from its file name, and leads out of no folder."""
    try:
        check_branch_name(name)
    except InvalidRefNameError:
        return
    stays_in_its_folders(name)


@given(branch_names)
def test_every_name_that_keeps_the_rules_is_accepted(name: str) -> None:
    """The rules leave no other names out: letters and digits of every script are fine."""
    assert check_branch_name(name) == name
    assert check_new_branch_name(name) == name
    stays_in_its_folders(name)


@given(tag_names)
def test_every_tag_name_that_keeps_the_rules_is_accepted(name: str) -> None:
    """A tag name that keeps the rules is accepted, and comes back from its file name."""
    assert check_tag_name(name) == name
    assert layout.ref_name(layout.tag_ref(name)) == name


def stays_in_its_folders(name: str) -> None:
    path = layout.branch_ref(name)
    assert layout.ref_name(path) == name
    assert posixpath.dirname(path) == "_refs/branches"
    assert "/" not in file_name(name)
    root = layout.branch_root(name)
    assert posixpath.normpath(root) == root
    assert root.startswith("tree/")
    assert len(root) > len("tree/")


@given(st.text())
def test_file_names_give_back_any_text(name: str) -> None:
    """Encoding is reversible for every text, and makes one plain ASCII file name of it."""
    assert name_of_file(file_name(name)) == name
    assert file_name(name).isascii()


@pytest.mark.parametrize("file", ["a.txt", "a", "", "a/b.json", "a.json.tmp"])
def test_files_that_stand_for_no_ref(file: str) -> None:
    """Files of another kind in a refs folder are no refs."""
    assert name_of_file(file) is None


def test_shown_names_are_short_and_escaped() -> None:
    """A message shows a long or dirty name cut and escaped."""
    assert shown("a" * 100) == repr("a" * 80 + "…")
    assert shown("a\0\n") == r"'a\x00\n'"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    return Place(str(tmp_path_factory.mktemp("names") / "table")).create().open()


def pylance_accepts(name: str, refs: Any) -> bool:
    """pylance checks the name of a ref to delete before it looks whether there is one."""
    try:
        refs.delete(name)
    except (OSError, ValueError) as error:
        return "Ref is invalid" not in str(error)
    raise AssertionError(f"there was a ref {name!r}")


@given(near_names)
def test_pylance_accepts_what_we_accept(dataset: lance.LanceDataset, name: str) -> None:
    """No branch name passes here that pylance would refuse, and we refuse little that it takes."""
    try:
        check_branch_name(name)
    except InvalidRefNameError:
        takes_it = name != "main" and pylance_accepts(name, dataset.branches)
        assert not takes_it or "." in name.split("/")
    else:
        assert pylance_accepts(name, dataset.branches)


@given(near_names)
def test_pylance_and_we_agree_on_tags(dataset: lance.LanceDataset, name: str) -> None:
    """A tag name passes here exactly where pylance takes it."""
    try:
        check_tag_name(name)
    except InvalidRefNameError:
        assert not pylance_accepts(name, dataset.tags)
    else:
        assert pylance_accepts(name, dataset.tags)


def test_every_letter_we_accept_is_one_to_pylance(dataset: lance.LanceDataset) -> None:
    """Our alphabet lies within pylance's, for every character there is."""
    letters = "".join(filter(str.isalnum, map(chr, range(sys.maxunicode + 1))))
    assert len(letters) > 100_000
    assert pylance_accepts(letters, dataset.branches)
    assert pylance_accepts(letters, dataset.tags)


@pytest.mark.parametrize("name", BRANCHES, ids=ids(BRANCHES))
def test_pylance_keeps_a_branch_where_we_look_for_it(tmp_path: Path, name: str) -> None:
    """pylance writes a branch's ref under our file name and its manifests in our folder."""
    place = Place(str(tmp_path)).create()
    place.open().create_branch(name)
    assert [one.name for one in (tmp_path / "_refs/branches").iterdir()] == [file_name(name)]
    assert list((tmp_path / layout.versions_folder(name)).glob("*.manifest"))
    assert place.store().branch(name).name == name
    assert place.store().branch_names() == [name]


def test_pylance_can_write_the_longest_names_we_make(tmp_path: Path) -> None:
    """A new name leaves room for what pylance appends to a ref file's name while it writes it."""
    place = Place(str(tmp_path)).create()
    longest = "a" * (LONGEST_FILE_NAME - len(".json"))
    assert check_new_branch_name(longest) == check_new_tag_name(longest)
    place.open().create_branch(longest)
    place.open().tags.create(longest, 1)
    assert place.store().branch_names() == place.store().tag_names() == [longest]


@pytest.mark.parametrize("name", TAGS, ids=ids(TAGS))
def test_pylance_keeps_a_tag_where_we_look_for_it(tmp_path: Path, name: str) -> None:
    """pylance writes a tag under our file name."""
    place = Place(str(tmp_path)).create()
    place.open().tags.create(name, 1)
    assert [one.name for one in (tmp_path / "_refs/tags").iterdir()] == [file_name(name)]
    assert place.store().tag(name).version == 1


def test_file_names_are_encoded_as_the_format_says() -> None:
    """A '/' is '%2F', letters beyond ASCII are percent-encoded UTF-8, and '.', '-', '_' stay."""
    assert file_name("bugfix/issue-123") == "bugfix%2Fissue-123.json"
    assert file_name("é/日.a-b_c") == "%C3%A9%2F%E6%97%A5.a-b_c.json"


@pytest.mark.parametrize("name", ["हिंदी", "ភាសា", "e\u0345", "Ⓐ"], ids=ascii)
def test_letters_that_only_pylance_knows_can_be_read(tmp_path: Path, name: str) -> None:
    """A branch that pylance made in Hindi or Khmer, with vowel signs, is a branch here too."""
    place = Place(str(tmp_path)).create()
    place.open().create_branch(name)
    assert place.store().branch(name).name == name
    assert place.store().delete_branch(name)


FALSE_FILES = [
    "...json",
    "..%2F..%2Fvictim.json",
    "%2Fetc.json",
    "a%2F%2Fb.json",
    "a%2F..%2Fb.json",
    "..json",
    "main.json",
    "a%00b.json",
    "a%2fb.json",
    "é.json",
    "%FF.json",
    "a%2.json",
]


@pytest.mark.parametrize("file", FALSE_FILES, ids=ascii)
def test_a_file_that_no_branch_name_leads_to_is_a_broken_ref(tmp_path: Path, file: str) -> None:
    """A ref file whose name stands for no branch name is listed as broken, beside the good ones."""
    place = Place(str(tmp_path)).create()
    place.store().create_branch("good")
    body = (tmp_path / "_refs/branches/good.json").read_bytes()
    assert json.loads(body)["parentVersion"] == 1
    (tmp_path / "_refs/branches" / file).write_bytes(body)
    listed = {one.name: one for one in place.store().branches()}
    good = listed.pop("good")
    assert good.broken is None
    [bad] = listed.values()
    assert isinstance(bad, BrokenRef)
