"""Every path under a dataset root, spelt here and nowhere else."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from airflow_provider_lancerefs.refstore.errors import InvalidRefNameError
from airflow_provider_lancerefs.refstore.names import (
    LAYOUT_FOLDERS,
    MAIN,
    file_name,
    name_of_file,
    shown,
)

VERSIONS = "_versions"
DATA = "data"
DELETIONS = "_deletions"
INDICES = "_indices"
TRANSACTIONS = "_transactions"
TREE = "tree"
REFS = "_refs"
HINT = "latest_version_hint.json"
BRANCH_REFS = f"{REFS}/branches/"
TAG_REFS = f"{REFS}/tags/"
PROBE = f"{REFS}/lancerefs.probe"
LOCK = f"{REFS}/.lancerefs.lock"
SCRATCH_PREFIX = f"{REFS}/.lancerefs-"

_STAGED = ".staged"
_HIGHEST = 2**64 - 1
_V2_DIGITS = 20
_MANIFEST = ".manifest"
_FLAT_FOLDERS = (VERSIONS, TRANSACTIONS, DELETIONS, DATA)


def branch_ref(name: str) -> str:
    return BRANCH_REFS + file_name(name)


def tag_ref(name: str) -> str:
    return TAG_REFS + file_name(name)


def ref_name(path: str) -> str | None:
    """The branch or tag that a path in a refs folder stands for; None for any other path."""
    for folder in (BRANCH_REFS, TAG_REFS):
        if path.startswith(folder):
            return name_of_file(path[len(folder) :])
    return None


def branch_root(branch: str) -> str:
    """Where a branch's own files are, relative to the dataset root: '' for main."""
    if branch == MAIN:
        return ""
    if any(part in ("", ".", "..") for part in branch.split("/")):
        raise InvalidRefNameError(f"{shown(branch)} leads out of the folder of branches.")
    return f"{TREE}/{branch}"


def in_branch(branch: str, path: str) -> str:
    return path if branch == MAIN else f"{branch_root(branch)}/{path}"


def versions_folder(branch: str) -> str:
    return in_branch(branch, f"{VERSIONS}/")


def manifest_path(branch: str, number: int, *, v2: bool = True) -> str:
    """A version's manifest: V2 names count down, so that the newest sorts first."""
    stem = f"{_HIGHEST - number:0{_V2_DIGITS}d}" if v2 else str(number)
    return in_branch(branch, f"{VERSIONS}/{stem}{_MANIFEST}")


def manifest_number(path: str) -> int | None:
    """The version a manifest's path stands for, in either naming; None for any other file."""
    name = posixpath.basename(path)
    stem = name.removesuffix(_MANIFEST)
    if not name.endswith(_MANIFEST) or not (stem.isascii() and stem.isdigit()):
        return None
    number = _HIGHEST - int(stem) if len(stem) == _V2_DIGITS else int(stem)
    return number if number > 0 else None


def is_v2_manifest(path: str) -> bool:
    stem = posixpath.basename(path).removesuffix(_MANIFEST)
    return manifest_number(path) is not None and len(stem) == _V2_DIGITS


def deletion_name(fragment: int, read_version: int, identity: int, *, bitmap: bool) -> str:
    return f"{fragment}-{read_version}-{identity}.{'bin' if bitmap else 'arrow'}"


def owner(path: str, branches: Iterable[str]) -> str | None:
    """Which of the branches a path under `tree/` belongs to: the one with the longest name.

    A branch 'a' and a branch 'a/b' share the folder 'tree/a'. Only files where the format puts a
    dataset's files belong to anybody; whatever else lies there is nobody's.
    """
    best = None
    for name in branches:
        prefix = f"{TREE}/{name}/"
        if path.startswith(prefix) and is_dataset_file(path[len(prefix) :]):
            best = name if best is None or len(name) > len(best) else best
    return best


def is_dataset_file(path: str) -> bool:
    """Whether a path relative to a dataset (or branch) root is where the format puts a file."""
    folder, _, rest = path.partition("/")
    if not rest:
        return False
    if folder in _FLAT_FOLDERS:
        return "/" not in rest
    return folder == INDICES and rest.count("/") == 1


def is_dataset_folder(name: str) -> bool:
    """Whether a folder name is one in which the format keeps a dataset's files."""
    return name in LAYOUT_FOLDERS


def stage(attempt: str) -> str:
    """Where a writer that is not ours puts a write's files first, as a table of its own."""
    return f"{DATA}/{attempt}{_STAGED}"


def is_staged(path: str) -> bool:
    """Whether a path relative to a dataset root is of such a table."""
    top, *folders = path.split("/")[:-1]
    return top == DATA and bool(folders) and folders[0].endswith(_STAGED)


def is_content(path: str) -> bool:
    """Whether a path relative to a dataset root is a data, deletion or index file."""
    return path.partition("/")[0] in (DATA, DELETIONS, INDICES)


def is_transaction(path: str) -> bool:
    """Whether a path relative to a dataset root is a transaction file."""
    return path.partition("/")[0] == TRANSACTIONS


def tree_of(path: str) -> str | None:
    """The branch whose file a path under `tree/` is, by where the format puts files."""
    top, *parts = path.split("/")
    for split in range(len(parts) - 2, 0, -1) if top == TREE else ():
        if is_dataset_file("/".join(parts[split:])):
            return "/".join(parts[:split])
    return None


def file_in_base(base: str, folder: str, path: str, *, is_dataset_root: bool) -> str:
    """Resolve a file against its base path: below the folder of its kind, or directly."""
    return posixpath.join(base, folder, path) if is_dataset_root else posixpath.join(base, path)


def dataset_root(base: str, branch: str | None) -> str:
    """The dataset that a base path belongs to: a branch's folder lies below its root's `tree/`.

    Lance names the base path after the branch, which tells `tree/` folders from a dataset that
    merely stands in a folder of that name.
    """
    return base.removesuffix(f"/{TREE}/{branch}") if branch else base
