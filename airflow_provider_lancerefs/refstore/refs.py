"""The ref files of a dataset: read, list, create, replace and remove, one object each."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from airflow_provider_lancerefs.refstore import layout
from airflow_provider_lancerefs.refstore.codec import (
    decode_branch,
    decode_tag,
    encode_branch,
    encode_tag,
)
from airflow_provider_lancerefs.refstore.dataset import now
from airflow_provider_lancerefs.refstore.errors import (
    ConflictError,
    FormatError,
    InvalidInputError,
    InvalidRefNameError,
    RefNotFoundError,
)
from airflow_provider_lancerefs.refstore.models import (
    FORK_ID,
    PIN_KEY,
    PROTECTED_KEY,
    RESERVED_PREFIX,
    STATE_BEFORE_KEY,
    STATE_KEY,
    STATE_SINCE_KEY,
    WRITE_ID,
    WRITERS_KEY,
    Branch,
    BranchState,
    BrokenRef,
    ListedRef,
    RefKind,
    Tag,
)
from airflow_provider_lancerefs.refstore.names import (
    SUFFIX,
    check_branch_name,
    check_tag_name,
    shown,
)
from airflow_provider_lancerefs.refstore.storage import Blob, Entry, Storage

_Ref = TypeVar("_Ref", Branch, Tag)
_NOTHING: Mapping[str, str | None] = MappingProxyType({})
_SETTABLE = (PROTECTED_KEY, PIN_KEY, WRITERS_KEY)


@dataclass(frozen=True, slots=True)
class RefEntry:
    """A ref file as a listing shows it, before anything is read.

    One that no name leads to is not `sound`: it goes by its file name, and is never opened.
    """

    name: str
    entry: Entry
    sound: bool = True

    @property
    def listed(self) -> ListedRef:
        return ListedRef(self.name, self.entry.token, self.entry.modified)


def find_branch(storage: Storage, name: str) -> Branch | None:
    """The branch, or None; raises FormatError where its file cannot be read as one."""
    blob = storage.read(layout.branch_ref(check_branch_name(name)))
    return _branch(name, blob) if blob else None


def read_branch(storage: Storage, name: str) -> Branch:
    branch = find_branch(storage, name)
    if branch is None:
        raise RefNotFoundError(f"There is no branch {shown(name)} in {storage.uri}.", ref=name)
    return branch


def find_tag(storage: Storage, name: str) -> Tag | None:
    """The tag, or None; raises FormatError where its file cannot be read as one."""
    blob = storage.read(layout.tag_ref(check_tag_name(name)))
    return decode_tag(name, blob.data, blob.token) if blob else None


def read_tag(storage: Storage, name: str) -> Tag:
    tag = find_tag(storage, name)
    if tag is None:
        raise RefNotFoundError(f"There is no tag {shown(name)} in {storage.uri}.", ref=name)
    return tag


def list_branches(storage: Storage) -> list[RefEntry]:
    return _listed(layout.BRANCH_REFS, storage, check_branch_name)


def list_tags(storage: Storage) -> list[RefEntry]:
    return _listed(layout.TAG_REFS, storage, check_tag_name)


def read_branches(storage: Storage, listed: Iterable[RefEntry]) -> list[Branch | BrokenRef]:
    """The branches of a listing; those deleted since are left out, the unreadable are broken."""
    found = [*listed]
    paths = {one.entry.path: one.name for one in found if one.sound}
    return [*_unsound("branch", found), *_read_branches(storage, paths)]


def read_tags(storage: Storage, listed: Iterable[RefEntry]) -> list[Tag | BrokenRef]:
    """The tags of a listing; those deleted since are left out, the unreadable are broken."""
    found = [*listed]
    paths = {one.entry.path: one.name for one in found if one.sound}
    return [*_unsound("tag", found), *_read_tags(storage, paths)]


def find_branches(storage: Storage, names: Iterable[str]) -> list[Branch | BrokenRef]:
    """The branches of these names that there are, in one round of requests."""
    return _read_branches(
        storage, {layout.branch_ref(check_branch_name(name)): name for name in names}
    )


def find_tags(storage: Storage, names: Iterable[str]) -> list[Tag | BrokenRef]:
    """The tags of these names that there are, in one round of requests."""
    return _read_tags(storage, {layout.tag_ref(check_tag_name(name)): name for name in names})


def create(storage: Storage, ref: _Ref) -> _Ref:
    """Write a new ref file; raises AlreadyExistsError where the name is taken."""
    made = _stamped(ref, ref.extra.get(FORK_ID))
    return replace(made, token=storage.put_new(_path(ref), _encode(made)).token)


def update(storage: Storage, ref: _Ref, **changes: object) -> _Ref:
    """Replace a ref by itself with changes, if nobody else has changed it since it was read."""
    changed: _Ref = _stamped(replace(ref, **changes))  # type: ignore[arg-type]
    try:
        blob = storage.replace(_path(ref), _encode(changed), expected=ref.token)
    except ConflictError as error:
        raise ConflictError(
            f"The {ref.kind} {ref.name!r} was changed by somebody else since it was read: read it "
            "again, and decide anew.",
            ref=ref.name,
        ) from error
    return replace(changed, token=blob.token)


def set_metadata(storage: Storage, ref: _Ref, metadata: Mapping[str, str | None]) -> _Ref:
    """Set keys of a ref's metadata, or remove those set to None; not of a branch that is going."""
    if not isinstance(ref, Branch | Tag):
        raise InvalidInputError(
            f"Metadata is set on a Branch or Tag, as read, not on {type(ref).__name__}."
        )
    if isinstance(ref, Branch) and ref.state.ending:
        raise ConflictError(f"The branch {ref.name!r} is being deleted.", ref=ref.name)
    merged = {**ref.metadata, **check_metadata(metadata)}
    kept = {key: value for key, value in merged.items() if value is not None}
    return update(storage, ref, metadata=kept)


def remove(storage: Storage, ref: Branch | Tag) -> None:
    """Delete a ref file, if nobody else has changed it since it was read."""
    storage.remove(_path(ref), expected=ref.token)


def move_state(
    storage: Storage, branch: Branch, state: BranchState, noted: Mapping[str, str | None] = _NOTHING
) -> Branch:
    """Compare-and-swap of a branch's state; a deletion notes what it may have to go back to.

    `noted` are keys of the store's own to set with it, or to remove where they are None.
    """
    metadata = {
        **{key: value for key, value in branch.metadata.items() if key not in noted},
        **{key: value for key, value in noted.items() if value is not None},
        STATE_KEY: state.value,
        STATE_SINCE_KEY: now().isoformat(timespec="seconds"),
    }
    if state is BranchState.DELETING:
        metadata[STATE_BEFORE_KEY] = branch.state.value
    elif not state.ending:
        metadata.pop(STATE_BEFORE_KEY, None)
    return update(storage, branch, metadata=metadata)


def reopen(storage: Storage, branch: Branch) -> Branch:
    """Give up a deletion that has not begun to remove anything."""
    return move_state(storage, branch, branch.state_before)


def check_metadata(metadata: Mapping[str, str | None]) -> dict[str, str | None]:
    """Metadata as a caller may give it: strings, and none of the store's own keys but two."""
    if not isinstance(metadata, Mapping):
        raise InvalidInputError(f"Metadata is a map of strings, not {type(metadata).__name__}.")
    for key, value in metadata.items():
        if not (_is_text(key) and key and (value is None or _is_text(value))):
            raise InvalidInputError(
                f"Metadata is a map of strings; {key!r} holds a {type(value).__name__}."
            )
        if key.startswith(RESERVED_PREFIX) and key not in _SETTABLE:
            raise InvalidInputError(
                f"Metadata keys that start with {RESERVED_PREFIX!r} are the store's own; {key!r} "
                f"cannot be set (only {PROTECTED_KEY!r} and {WRITERS_KEY!r} can)."
            )
    return dict(metadata)


def _is_text(value: object) -> bool:
    """A string that can be written, which one with half a surrogate pair cannot."""
    return isinstance(value, str) and value.encode(errors="replace").decode() == value


def _branch(name: str, blob: Blob) -> Branch:
    return replace(decode_branch(name, blob.data, blob.token), written=blob.modified)


def _read_branches(storage: Storage, paths: Mapping[str, str]) -> list[Branch | BrokenRef]:
    branches: list[Branch | BrokenRef] = []
    for path, blob in storage.read_many(paths).items():
        try:
            branches.append(_branch(paths[path], blob))
        except FormatError as error:
            branches.append(BrokenRef("branch", paths[path], str(error), blob.data))
    return branches


def _read_tags(storage: Storage, paths: Mapping[str, str]) -> list[Tag | BrokenRef]:
    tags: list[Tag | BrokenRef] = []
    for path, blob in storage.read_many(paths).items():
        try:
            tags.append(decode_tag(paths[path], blob.data, blob.token))
        except FormatError as error:
            tags.append(BrokenRef("tag", paths[path], str(error), blob.data))
    return tags


def _stamped(ref: _Ref, stamp: object = None) -> _Ref:
    """A ref whose bytes no other write has: equal bytes would make a stale token look fresh."""
    return replace(ref, extra={**ref.extra, WRITE_ID: stamp or uuid.uuid4().hex})


def _listed(folder: str, storage: Storage, check: Callable[[str], str]) -> list[RefEntry]:
    files = (entry for entry in storage.list(folder) if entry.path.endswith(SUFFIX))
    return [_ref_entry(folder, entry, check) for entry in files]


def _ref_entry(folder: str, entry: Entry, check: Callable[[str], str]) -> RefEntry:
    try:
        name = layout.ref_name(entry.path)
        if name is not None:
            return RefEntry(check(name), entry)
    except InvalidRefNameError:
        pass
    return RefEntry(entry.path[len(folder) :], entry, sound=False)


def _unsound(kind: RefKind, listed: Iterable[RefEntry]) -> list[Any]:
    return [
        BrokenRef(kind, one.name, f"No {kind} name leads to the file {shown(one.name)}: remove it.")
        for one in listed
        if not one.sound
    ]


def _path(ref: Branch | Tag) -> str:
    return layout.branch_ref(ref.name) if isinstance(ref, Branch) else layout.tag_ref(ref.name)


def _encode(ref: Branch | Tag) -> bytes:
    return encode_branch(ref) if isinstance(ref, Branch) else encode_tag(ref)
