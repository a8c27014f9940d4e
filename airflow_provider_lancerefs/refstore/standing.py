"""Write, then look: whether the branch that a new ref relies on still stands.

Two refs cannot be changed in one step. So whoever puts a tag or a child looks at its branch
afterwards, and whoever deletes a branch looks for tags and children after marking it. A mark can
still be taken back: a looker who finds one puts the branch back to what it was, and the deleter,
whose next step is a compare-and-swap on the mark, finds out. Only a branch from which files are
being removed is lost.
"""

from __future__ import annotations

from airflow_provider_lancerefs.refstore import refs
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.errors import ConflictError
from airflow_provider_lancerefs.refstore.models import Branch, BranchState, Identifier

_TRIES = 5


def keep_standing(dataset: Dataset, name: str, life: Identifier | None = None) -> Branch:
    """The branch on which a ref was just put, kept from a deletion that has not gone too far.

    Raises RefNotFoundError if it is gone, and ConflictError if its files are being removed or it is
    not the life that was meant.
    """
    for _ in range(_TRIES):
        branch = refs.read_branch(dataset.storage, name)
        if life is not None and branch.identifier != life:
            raise ConflictError(
                f"The branch {name!r} was deleted, and made anew, meanwhile: look at it again.",
                ref=name,
            )
        if branch.state is BranchState.REMOVING:
            raise ConflictError(f"The branch {name!r} is being deleted.", ref=name)
        if branch.state is not BranchState.DELETING:
            return branch
        try:
            return refs.reopen(dataset.storage, branch)
        except ConflictError:
            continue
    raise ConflictError(f"The branch {name!r} keeps being changed: try again.", ref=name)
