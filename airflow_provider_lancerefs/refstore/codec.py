"""Ref files as bytes and as models.

Keys on disk are camelCase; the snake_case ones of the format's table are read as well. Keys that
we don't know are kept and written back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from airflow_provider_lancerefs.refstore.errors import FormatError, InvalidRefNameError
from airflow_provider_lancerefs.refstore.models import Branch, Identifier, RefKind, Tag
from airflow_provider_lancerefs.refstore.names import MAIN, check_branch_name, shown

_Fields: TypeAlias = dict[str, object]
_LARGEST = 2**64
_FNV_PRIME = 0x100000001B3
_FNV_START = 0xCBF29CE484222325
_SYNTHETIC_SEEDS = (_FNV_START, _FNV_START ^ 0x9E3779B97F4A7C15)
_NO_IDENTIFIER = ((0, "0" * 32),)
_SNAKE_TO_CAMEL = {
    "parent_branch": "parentBranch",
    "parent_version": "parentVersion",
    "create_at": "createAt",
    "manifest_size": "manifestSize",
    "created_at": "createdAt",
    "updated_at": "updatedAt",
}


def decode_branch(name: str, data: bytes, token: str = "") -> Branch:
    """Read a branch's ref file; raises FormatError saying what is wrong with it."""
    fields = _Reader("branch", name, data)
    parent = fields.branch("parentBranch")
    parent_version = fields.number("parentVersion")
    created = fields.number("createAt", default=0)
    try:
        created_at = datetime.fromtimestamp(created, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise fields.wrong("createAt", "a unix time in seconds") from error
    return Branch(
        name=name,
        parent=parent,
        parent_version=parent_version,
        created_at=created_at,
        manifest_size=fields.number("manifestSize", default=0),
        identifier=fields.identifier()
        or _synthetic_identifier(name, parent, parent_version, created),
        metadata=fields.metadata(),
        extra=fields.rest(),
        token=token,
    )


def encode_branch(branch: Branch) -> bytes:
    fields: _Fields = {"parentBranch": None if branch.parent == MAIN else branch.parent}
    fields |= {
        "identifier": {"version_mapping": [list(pair) for pair in branch.identifier]},
        "parentVersion": branch.parent_version,
        "createAt": int(branch.created_at.timestamp()),
        "manifestSize": branch.manifest_size,
        "metadata": dict(branch.metadata),
    }
    return _dump(branch.extra, fields)


def decode_tag(name: str, data: bytes, token: str = "") -> Tag:
    """Read a tag's file; raises FormatError saying what is wrong with it."""
    fields = _Reader("tag", name, data)
    return Tag(
        name=name,
        branch=fields.branch("branch"),
        version=fields.number("version"),
        manifest_size=fields.number("manifestSize", default=0),
        created_at=fields.moment("createdAt"),
        updated_at=fields.moment("updatedAt"),
        metadata=fields.metadata(),
        extra=fields.rest(),
        token=token,
    )


def encode_tag(tag: Tag) -> bytes:
    fields: _Fields = {
        "branch": None if tag.branch == MAIN else tag.branch,
        "version": tag.version,
    }
    if tag.created_at is not None:
        fields["createdAt"] = _rfc3339(tag.created_at)
    if tag.updated_at is not None:
        fields["updatedAt"] = _rfc3339(tag.updated_at)
    fields |= {"manifestSize": tag.manifest_size, "metadata": dict(tag.metadata)}
    return _dump(tag.extra, fields)


def _synthetic_identifier(name: str, parent: str, parent_version: int, created: int) -> Identifier:
    """What pylance takes for the identifier where a file, as older Lance wrote them, has none.

    Two 64-bit FNV-1a hashes of what the file says; children made by pylance carry this value.
    """
    text = (
        f"branch_name={name}\nparent_branch={'' if parent == MAIN else parent}\n"
        f"parent_version={parent_version}\ncreate_at={created}"
    ).encode()
    return ((0, "".join(f"{_fnv1a(text, seed):016x}" for seed in _SYNTHETIC_SEEDS)),)


def _fnv1a(data: bytes, seed: int) -> int:
    value = seed
    for byte in data:
        value = (value ^ byte) * _FNV_PRIME % _LARGEST
    return value


def _dump(extra: Mapping[str, object], fields: _Fields) -> bytes:
    return json.dumps({**fields, **extra}, indent=2, ensure_ascii=False).encode()


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class _Reader:
    """Takes the known keys out of a ref file one by one; what is left over is `rest`."""

    def __init__(self, kind: RefKind, name: str, data: bytes) -> None:
        self._kind = kind
        self._name = name
        try:
            decoded = json.loads(data.decode(), parse_constant=_no_number)
            json.dumps(decoded, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise self._error("is not JSON in UTF-8") from error
        if not isinstance(decoded, dict):
            raise self._error("is not a JSON object")
        self._left: _Fields = {}
        for key, value in decoded.items():
            known = _SNAKE_TO_CAMEL.get(key)
            if known is None:
                self._left[key] = value
            elif known not in decoded:
                self._left[known] = value

    def number(self, key: str, default: int | None = None) -> int:
        value = self._left.pop(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST:
            raise self.wrong(key, "a whole number")
        return value

    def optional_text(self, key: str) -> str | None:
        value = self._left.pop(key, None)
        if value is not None and not isinstance(value, str):
            raise self.wrong(key, "a string or null")
        return value

    def moment(self, key: str) -> datetime | None:
        text = self.optional_text(key)
        if text is None:
            return None
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise self.wrong(key, "an RFC 3339 time") from error
        try:
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        except OverflowError as error:
            raise self.wrong(key, "a time that can be counted") from error

    def branch(self, key: str) -> str:
        name = self.optional_text(key) or MAIN
        try:
            return name if name == MAIN else check_branch_name(name)
        except InvalidRefNameError as error:
            raise self.wrong(key, "the name of a branch, or null") from error

    def metadata(self) -> dict[str, str]:
        value = self._left.pop("metadata", None)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            raise self.wrong("metadata", "an object of strings")
        return value

    def identifier(self) -> Identifier:
        value = self._left.pop("identifier", None)
        if value is None:
            return ()
        pairs = value.get("version_mapping") if isinstance(value, dict) else None
        if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
            raise self.wrong("identifier", "a version_mapping of [version, id] pairs")
        identifier = tuple((pair[0], pair[1]) for pair in pairs)
        return () if identifier == _NO_IDENTIFIER else identifier

    def rest(self) -> _Fields:
        return self._left

    def wrong(self, key: str, wanted: str) -> FormatError:
        return self._error(f"has no usable {key!r} (it should be {wanted})")

    def _error(self, what: str) -> FormatError:
        return FormatError(
            f"The file of {self._kind} {shown(self._name)} {what}: restore it, or delete the ref.",
            ref=self._name,
        )


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _is_pair(pair: object) -> bool:
    return (
        isinstance(pair, list)
        and len(pair) == 2
        and isinstance(pair[0], int)
        and not isinstance(pair[0], bool)
        and 0 <= pair[0] < _LARGEST
        and isinstance(pair[1], str)
    )
