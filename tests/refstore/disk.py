"""The files of a dataset on local disk, as the state machines look at them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from tests.refstore.model_values import MAIN, BranchFound, Face, Found, State, TagTruth

HIGHEST = 2**64 - 1
NOT_USERS = ("lancerefs.state", "lancerefs.state_since", "lancerefs.state_before")


class Disk:
    """What stands under a dataset's root, read without the library."""

    def __init__(self, uri: str) -> None:
        self.root = Path(uri)

    def ref(self, kind: str, name: str) -> bytes | None:
        try:
            return self._folder(kind).joinpath(f"{quote(name, safe='')}.json").read_bytes()
        except FileNotFoundError:
            return None

    def refs(self, kind: str) -> dict[str, Any]:
        return {
            unquote(path.name.removesuffix(".json")): json.loads(path.read_bytes())
            for path in self._folder(kind).glob("*.json")
        }

    def _folder(self, kind: str) -> Path:
        return self.root / "_refs" / ("branches" if kind == "branch" else "tags")

    def manifests(self, branch: str) -> dict[Path, int]:
        folder = self.root / "tree" / branch / "_versions"
        return {path: HIGHEST - int(path.stem) for path in folder.glob("*.manifest")}

    def trees(self) -> set[str]:
        tree = self.root / "tree"
        return {
            path.parent.parent.relative_to(tree).as_posix()
            for path in tree.rglob("*.manifest")
            if path.parent.name == "_versions"
        }

    def files(self) -> dict[str, tuple[int, int]]:
        """Every file but the lock, with what changes when it is written again."""
        found = {}
        folders = [self.root]
        while folders:
            for child in os.scandir(folders.pop()):
                if child.is_dir():
                    folders.append(Path(child.path))
                elif not child.name.endswith(".lock"):
                    status = child.stat()
                    found[os.path.relpath(child.path, self.root)] = stamp(status)
        return found

    def rewritten(self) -> frozenset[str]:
        """The branches whose ref was written again after the call that made them."""
        refs = self.refs("branch")
        return frozenset(
            name
            for name, one in refs.items()
            if "forkId" not in one or one["forkId"] != one["writeId"]
        )

    def found(self, spoilt: Mapping[str, set[tuple[int, int]]]) -> Found:
        """The refs; manifests with a known stamp are no head, for they were there before."""
        return Found(
            {
                name: self._branch(name, body, spoilt.get(name, set()))
                for name, body in self.refs("branch").items()
            },
            {
                name: TagTruth(body["branch"] or MAIN, body["version"], body["metadata"])
                for name, body in self.refs("tag").items()
            },
        )

    def _branch(self, name: str, body: Any, spoilt: set[tuple[int, int]]) -> BranchFound:
        state = State(body["metadata"].get("lancerefs.state", "open"))
        heads = [path for path in self.manifests(name) if stamp(path.stat()) not in spoilt]
        headless = not heads and state is not State.REMOVING
        return BranchFound(
            body["parentBranch"] or MAIN,
            body["parentVersion"],
            Face(headless, state),
            {key: value for key, value in body["metadata"].items() if key not in NOT_USERS},
            tuple((version, life) for version, life in body["identifier"]["version_mapping"]),
        )


def stamp(status: os.stat_result) -> tuple[int, int]:
    return status.st_ino, status.st_mtime_ns
