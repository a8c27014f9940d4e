"""Which names branches and tags may have, and how they are spelt as file names."""

from __future__ import annotations

import hashlib
import re
from typing import NoReturn
from unicodedata import category
from urllib.parse import quote, unquote

from airflow_provider_lancerefs.refstore.errors import InvalidRefNameError

MAIN = "main"
SUFFIX = ".json"
LONGEST_NAME = 1024
LONGEST_FILE_NAME = 216
LAYOUT_FOLDERS = ("data", "_versions", "_transactions", "_deletions", "_indices")
RUNS = "run"
_PUNCTUATION = ".-_"
_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")
_LONGEST_ID = 60


def check_branch_name(name: str) -> str:
    """Return `name`, or raise InvalidRefNameError saying which rule it breaks."""
    _check_text(name, "branch")
    if name == MAIN:
        _refuse(name, "branch", "'main' is the default branch and needs no ref")
    if name.startswith("/") or name.endswith("/"):
        _refuse(name, "branch", "it may not start or end with '/'")
    if "//" in name:
        _refuse(name, "branch", "it may not contain '//'")
    if ".." in name or "\\" in name:
        _refuse(name, "branch", "it may not contain '..' or '\\'")
    _check_characters(name, "branch", also="/")
    for segment in name.split("/"):
        if segment == ".":
            _refuse(name, "branch", "no part of it may be '.' alone")
    if name.endswith(".lock"):
        _refuse(name, "branch", "it may not end with '.lock'")
    return name


def check_new_branch_name(name: str) -> str:
    """As check_branch_name, and that the branch can live beside any other.

    Tools may have made others: they are read, but none is added.
    """
    check_branch_name(name)
    _check_new_characters(name, "branch", also="/")
    for part in name.split("/")[1:]:
        if part in LAYOUT_FOLDERS:
            _refuse(
                name,
                "branch",
                f"with a part {part!r} after the first, its folder would be one in which another "
                "branch keeps its files",
            )
    _check_length(name, "branch")
    return name


def check_new_tag_name(name: str) -> str:
    """As check_tag_name, and that pylance can list it: it cannot where a name is not ASCII."""
    check_tag_name(name)
    if not name.isascii():
        _refuse(name, "tag", "pylance cannot list tags once one has a letter that is not ASCII")
    _check_length(name, "tag")
    return name


def check_tag_name(name: str) -> str:
    """Return `name`, or raise InvalidRefNameError saying which rule it breaks."""
    _check_text(name, "tag")
    _check_characters(name, "tag")
    if name.startswith(".") or name.endswith("."):
        _refuse(name, "tag", "it may not start or end with '.'")
    if name.endswith(".lock"):
        _refuse(name, "tag", "it may not end with '.lock'")
    if ".." in name:
        _refuse(name, "tag", "it may not contain '..'")
    return name


def file_name(name: str) -> str:
    """The ref's file name: percent-encoded, so that 'a/b' is the file 'a%2Fb.json'."""
    return quote(name, safe="") + SUFFIX


def run_branch_prefix(dag_id: str, run_id: str, map_index: int = -1) -> str:
    """What the names of every branch of one DAG run start with; its lives follow as a last part.

    Ids may hold anything, so that what they are shortened and mapped to is told apart by a hash.
    """
    whole = "\0".join((dag_id, run_id, str(map_index))).encode(errors="surrogatepass")
    shown_ids = "-".join(_UNSAFE.sub("-", one)[:_LONGEST_ID] for one in (dag_id, run_id))
    return f"{RUNS}/{shown_ids}-{hashlib.sha256(whole).hexdigest()[:12]}/"


def name_of_file(file: str) -> str | None:
    """The ref name that a file of a refs folder stands for; None for what cannot be one's file.

    Other spellings of a name, and names that lead out of the folder, stand for nothing.
    """
    name = unquote(file.removesuffix(SUFFIX))
    return name if file.endswith(SUFFIX) and file_name(name) == file else None


def shown(name: str, longest: int = 80) -> str:
    """A name as error messages print it: quoted, escaped and never longer than a line."""
    return repr(name if len(name) <= longest else name[:longest] + "…")


def _check_text(name: str, kind: str) -> None:
    if not isinstance(name, str):
        raise InvalidRefNameError(f"A {kind} name is a string, not {type(name).__name__}.")
    if not name:
        raise InvalidRefNameError(f"A {kind} name may not be empty.")
    if len(name) > LONGEST_NAME:
        _refuse(name, kind, f"it has {len(name)} characters, over the {LONGEST_NAME} allowed")


def _check_characters(name: str, kind: str, also: str = "") -> None:
    """What any tool may have put in a name: pylance takes marks that Python calls no letters."""
    for character in name:
        known = character.isalnum() or character in _PUNCTUATION or character in also
        if not known and not _is_letter_to_others(character):
            _refuse_character(name, kind, character)


def _is_letter_to_others(character: str) -> bool:
    """Vowel signs and circled letters; not the accents that combine with any letter."""
    if "\N{CIRCLED LATIN CAPITAL LETTER A}" <= character <= "\N{CIRCLED LATIN SMALL LETTER Z}":
        return True
    if character == "\N{COMBINING GREEK YPOGEGRAMMENI}":
        return True
    return category(character) in ("Mn", "Mc") and character > "\N{COMBINING LATIN SMALL LETTER X}"


def _check_new_characters(name: str, kind: str, also: str = "") -> None:
    for character in name:
        if not (character.isalnum() or character in _PUNCTUATION or character in also):
            _refuse_character(name, kind, character)


def _refuse_character(name: str, kind: str, character: str) -> NoReturn:
    parts = " (and '/' between parts)" if kind == "branch" else ""
    _refuse(name, kind, f"{character!r} is not a letter, a digit, '.', '-' or '_'{parts}")


def _check_length(name: str, kind: str) -> None:
    length = len(file_name(name))
    if length > LONGEST_FILE_NAME:
        _refuse(
            name,
            kind,
            f"its file name has {length} characters, over the {LONGEST_FILE_NAME} allowed",
        )


def _refuse(name: str, kind: str, rule: str) -> NoReturn:
    raise InvalidRefNameError(f"{shown(name)} is not a {kind} name: {rule}.", ref=name[:255])
