"""Who wrote to a branch: noted on its ref, so that a publish can wait for all of them."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable

from airflow_provider_lancerefs.refstore import refs
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.errors import (
    ConflictError,
    InvalidInputError,
    RefNotFoundError,
)
from airflow_provider_lancerefs.refstore.models import WRITERS_KEY, Branch

_TRIES = 100
_LONGEST_PAUSE = 0.2


def writers_of(branch: Branch) -> set[str]:
    """Who wrote to a branch, by its metadata: a JSON list, or names between commas."""
    said = branch.metadata.get(WRITERS_KEY, "")
    try:
        listed = json.loads(said)
    except ValueError:
        listed = said.split(",")
    names: Iterable[object] = listed if isinstance(listed, list) else said.split(",")
    return {str(name).strip() for name in names if str(name).strip()}


def record_writer(dataset: Dataset, name: str, writer: str, life: str | None) -> Branch:
    """Note on a branch that somebody has written to it; twice is as once.

    Raises RefNotFoundError where the branch is gone, or another life of it stands there.
    """
    if not isinstance(writer, str) or not writer.strip():
        raise InvalidInputError("A writer is noted by a name.", ref=name)
    for _ in range(_TRIES):
        branch = standing(dataset, name, life)
        writers = writers_of(branch)
        if writer.strip() in writers:
            return branch
        noted = json.dumps(sorted({*writers, writer.strip()}), ensure_ascii=False)
        try:
            return refs.set_metadata(dataset.storage, branch, {WRITERS_KEY: noted})
        except ConflictError:
            time.sleep(random.uniform(0, _LONGEST_PAUSE))
    raise ConflictError(
        f"The branch {name!r} was changed by others at each of {_TRIES} attempts: try again.",
        ref=name,
    )


def standing(dataset: Dataset, name: str, life: str | None) -> Branch:
    """The branch as it stands, if it is the life that is meant and nobody is deleting it."""
    branch = refs.read_branch(dataset.storage, name)
    if life is not None and branch.life != life:
        raise RefNotFoundError(f"Another life of the branch {name!r} has begun.", ref=name)
    if branch.state.ending:
        raise RefNotFoundError(f"The branch {name!r} is being deleted.", ref=name)
    return branch
