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
    LanceRefsError,
    RefNotFoundError,
    RefusedError,
)
from airflow_provider_lancerefs.refstore.models import PROTECTED_KEY, Tag, Version
from airflow_provider_lancerefs.refstore.names import MAIN, check_new_tag_name, check_tag_name
from airflow_provider_lancerefs.refstore.revision import Revision


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
    target = versions.resolve(dataset.storage, revision)
    moment = now()
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
        there = refs.read_tag(dataset.storage, name)
        if (there.branch, there.version) != (asked.branch, asked.version):
            raise AlreadyExistsError(
                f"The tag {name!r} exists already and names {there.target}, not {target}: move it, "
                "or choose another name.",
                ref=name,
            ) from None
        return there
    missing = _branch_gone(dataset, created.branch)
    if missing is not None:
        refs.remove(dataset.storage, created)
        raise missing
    return created


def move_tag(dataset: Dataset, tag: Tag, revision: str | Revision | Version, *, force: bool) -> Tag:
    """Let a tag, as it was read, name another version.

    Raises ConflictError if it was changed since, RefusedError if it is protected.
    """
    _check_free(tag, "move", force=force)
    target = versions.resolve(dataset.storage, revision)
    moved = refs.update(
        dataset.storage,
        tag,
        branch=target.branch,
        version=target.number,
        manifest_size=target.manifest_size,
        updated_at=now(),
    )
    missing = _branch_gone(dataset, moved.branch)
    if missing is not None:
        refs.update(
            dataset.storage,
            moved,
            branch=tag.branch,
            version=tag.version,
            manifest_size=tag.manifest_size,
            updated_at=tag.updated_at,
        )
        raise missing
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
        raise RefNotFoundError(f"There is no tag {name!r} in {dataset.uri}.", ref=name)
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


def _branch_gone(dataset: Dataset, branch: str) -> LanceRefsError | None:
    """Why a tag on the branch cannot stay, or None."""
    if branch == MAIN:
        return None
    try:
        there = refs.find_branch(dataset.storage, branch)
    except FormatError:
        return None
    if there is None:
        return RefNotFoundError(f"There is no branch {branch!r} in {dataset.uri}.", ref=branch)
    if there.state.ending:
        return ConflictError(f"The branch {branch!r} is being deleted.", ref=branch)
    return None


def _delete_broken(dataset: Dataset, name: str) -> bool:
    path = layout.tag_ref(name)
    blob = dataset.storage.read(path)
    if blob is not None:
        dataset.storage.remove(path, expected=blob.token)
    return blob is not None
