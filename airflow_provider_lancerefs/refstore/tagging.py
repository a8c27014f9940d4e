"""Creating, moving and deleting tags.

A tag and the branch it names are two objects. So the tag is written first and the branch looked at
afterwards, as a deleter marks the branch first and looks for tags afterwards: one of the two sees
the other, and steps back.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_lancerefs.refstore import layout, refs, versions
from airflow_provider_lancerefs.refstore.dataset import Dataset, now
from airflow_provider_lancerefs.refstore.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FormatError,
    InvalidInputError,
    NotFoundError,
    RefNotFoundError,
    RefusedError,
)
from airflow_provider_lancerefs.refstore.models import PROTECTED_KEY, Branch, Tag, Version
from airflow_provider_lancerefs.refstore.names import (
    MAIN,
    check_new_tag_name,
    check_tag_name,
    shown,
)
from airflow_provider_lancerefs.refstore.revision import Revision
from airflow_provider_lancerefs.refstore.standing import keep_standing


def create_tag(
    dataset: Dataset,
    name: str,
    revision: str | Revision | Version,
    metadata: Mapping[str, str],
    *,
    protected: bool,
) -> Tag:
    """Name a version, or return the tag that names it already.

    Raises AlreadyExistsError if the tag names another version.
    """
    check_new_tag_name(name)
    checked = refs.check_metadata(metadata)
    located = versions.locate(dataset.storage, revision)
    target, moment = located.version, now()
    asked = Tag(
        name=name,
        branch=target.branch,
        version=target.number,
        manifest_size=target.manifest_size,
        created_at=moment,
        updated_at=moment,
        metadata={
            **{key: value for key, value in checked.items() if value is not None},
            **({PROTECTED_KEY: "true"} if protected else {}),
        },
    )
    try:
        created = refs.create(dataset.storage, asked)
    except AlreadyExistsError:
        return _existing(dataset, asked, located)
    try:
        _confirm(dataset, located)
    except (ConflictError, NotFoundError):
        refs.remove(dataset.storage, created)
        raise
    return created


def move_tag(dataset: Dataset, tag: Tag, revision: str | Revision | Version, *, force: bool) -> Tag:
    """Let a tag, as it was read, name another version.

    Raises ConflictError if it was changed since, RefusedError if it is protected.
    """
    if not isinstance(tag, Tag):
        raise InvalidInputError(f"What is moved is a Tag, as read, not {type(tag).__name__}.")
    _check_free(tag, "move", force=force)
    located = versions.locate(dataset.storage, revision)
    target = located.version
    if target.branch != MAIN:
        _check_open(refs.read_branch(dataset.storage, target.branch))
    moved = refs.update(
        dataset.storage,
        tag,
        branch=target.branch,
        version=target.number,
        manifest_size=target.manifest_size,
        updated_at=now(),
    )
    try:
        _confirm(dataset, located)
    except (ConflictError, NotFoundError):
        _put_back(dataset, moved, tag)
        raise
    return moved


def delete_tag(dataset: Dataset, name: str, *, missing_ok: bool, force: bool) -> bool:
    """Delete a tag; False where it was gone already and that is well."""
    check_tag_name(name)
    try:
        tag = refs.find_tag(dataset.storage, name)
    except FormatError:
        if not force:
            raise
        return _delete_broken(dataset, name)
    if tag is None:
        if missing_ok:
            return False
        raise RefNotFoundError(f"There is no tag {shown(name)} in {dataset.uri}.", ref=name)
    _check_free(tag, "delete", force=force)
    try:
        refs.remove(dataset.storage, tag)
    except ConflictError as error:
        raise ConflictError(
            f"The tag {name!r} was changed by somebody else since it was read: look at it again.",
            ref=name,
        ) from error
    return True


def _check_free(tag: Tag, verb: str, *, force: bool) -> None:
    if tag.protected and not force:
        raise RefusedError(
            f"The tag {tag.name!r} is protected: use force to {verb} it all the same.",
            kind=ErrorKind.PROTECTED,
            ref=tag.name,
        )


def _existing(dataset: Dataset, asked: Tag, located: versions.Located) -> Tag:
    """The tag that stands where one was to be made, if it names the same version."""
    there = refs.find_tag(dataset.storage, asked.name)
    if there is None:
        raise ConflictError(
            f"The tag {asked.name!r} was deleted by somebody else just now: try again.",
            ref=asked.name,
        )
    if (there.branch, there.version) != (asked.branch, asked.version):
        raise AlreadyExistsError(
            f"The tag {asked.name!r} exists already and names {there.target}, not {asked.target}: "
            "move it, or choose another name.",
            ref=asked.name,
        )
    _confirm(dataset, located)
    return there


def _check_open(branch: Branch) -> None:
    if branch.state.ending:
        raise ConflictError(f"The branch {branch.name!r} is being deleted.", ref=branch.name)


def _confirm(dataset: Dataset, located: versions.Located) -> None:
    """Look, after the write, that the tag's branch stands and that the version still is of it.

    A ref older than the version's manifest was there when that was found; any other may be of a
    later life of the branch, so the manifest is looked at again. Servers tell whole seconds: a fork
    of the same second is taken for this life's, whose content it has in any case.
    """
    target, entry = located.version, located.entry
    if target.branch == MAIN:
        return
    try:
        branch = keep_standing(dataset, target.branch)
    except FormatError:
        return
    is_fork = target.number == branch.parent_version
    if branch.written is not None and (
        branch.written < entry.modified or (is_fork and branch.written == entry.modified)
    ):
        return
    again = versions.find_manifest(dataset.storage, target.branch, target.number)
    if again is None or again.token != entry.token:
        raise ConflictError(
            f"The branch {target.branch!r} was deleted and made anew meanwhile: look at it again.",
            ref=target.branch,
        )


def _put_back(dataset: Dataset, moved: Tag, before: Tag) -> None:
    """Let a tag that was moved for nothing name what it named before."""
    refs.update(
        dataset.storage,
        moved,
        branch=before.branch,
        version=before.version,
        manifest_size=before.manifest_size,
        updated_at=before.updated_at,
    )
    if before.branch != MAIN:
        keep_standing(dataset, before.branch)


def _delete_broken(dataset: Dataset, name: str) -> bool:
    path = layout.tag_ref(name)
    blob = dataset.storage.read(path)
    if blob is not None:
        dataset.storage.remove(path, expected=blob.token)
    return blob is not None
