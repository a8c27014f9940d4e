"""Random histories of a branch and its parent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.refstore.publishing.operations import (
    AddColumn,
    Append,
    CastColumn,
    Delete,
    DropColumn,
    Overwrite,
    RenameColumn,
    ReplaceColumn,
    RewriteColumn,
    Update,
    Upsert,
    WriteThrough,
)
from tests.refstore.publishing.sides import Operation
from tests.refstore.publishing.upkeep import (
    CleanUp,
    Compact,
    Configure,
    CreateIndex,
    DropIndex,
    OptimizeIndices,
    Restore,
    TagHead,
)

MILD = (Append, WriteThrough, Delete, Update, Upsert, CreateIndex, OptimizeIndices, DropIndex)
"""Of these alone, on different rows of branch and parent, none may keep a publish from landing."""


@dataclass(frozen=True)
class Round:
    """A branch, what is done on it, on its parent and on main meanwhile, and its publish."""

    branch: str
    steps: tuple[tuple[str, Operation], ...]
    optimize_indices: bool = False


@dataclass(frozen=True)
class History:
    """A table's life; with a `parent`, branches are made from that branch, and it is published."""

    stable: bool
    text: bool
    before: tuple[Operation, ...]
    parent: Round | None
    rounds: tuple[Round, ...]


_SALTS = st.integers(0, 60)
_PICKS = st.lists(st.integers(0, 40), min_size=1, max_size=4).map(tuple)
_SIZES = st.integers(1, 6)
_COLUMNS = st.integers(0, 5)
_STRATEGIES: dict[type[Operation], st.SearchStrategy[Operation]] = {
    Append: st.builds(Append, _SIZES, _SALTS, st.booleans()),
    WriteThrough: st.builds(WriteThrough, _SIZES, _SALTS),
    Delete: st.builds(Delete, _PICKS, st.sampled_from([False] * 9 + [True])),
    Update: st.builds(Update, _PICKS, _COLUMNS, _SALTS),
    RewriteColumn: st.builds(RewriteColumn, _COLUMNS, _PICKS, _COLUMNS, _SALTS),
    Upsert: st.builds(
        Upsert,
        _PICKS | st.just(()),
        st.integers(0, 3),
        _SALTS,
        st.sampled_from([None] * 8 + [0, 1]),
    ),
    Overwrite: st.builds(Overwrite, st.integers(0, 6), _SALTS, st.booleans()),
    AddColumn: st.builds(AddColumn, st.sampled_from(["w", "y"]), st.booleans()),
    DropColumn: st.builds(DropColumn, _COLUMNS),
    ReplaceColumn: st.builds(ReplaceColumn, st.sampled_from(["w", "y"]), st.booleans()),
    RenameColumn: st.builds(RenameColumn, _COLUMNS, st.sampled_from(["r", "a", "w"])),
    CastColumn: st.builds(CastColumn, _COLUMNS, st.booleans()),
    Compact: st.builds(Compact, st.sampled_from([5, 20, 10_000]), st.sampled_from([0.0, 0.1, 0.5])),
    CreateIndex: st.builds(CreateIndex, _COLUMNS, st.booleans()),
    OptimizeIndices: st.builds(OptimizeIndices),
    DropIndex: st.builds(DropIndex, _COLUMNS),
    Configure: st.builds(Configure, _SALTS),
    Restore: st.builds(Restore, st.integers(0, 3)),
    TagHead: st.builds(TagHead),
    CleanUp: st.builds(CleanUp),
}
_Kinds = Sequence[type[Operation]]
_ROWS: _Kinds = (Append, Append, Delete, Update, Update, Upsert)
_QUIET: _Kinds = (Append, Delete, CreateIndex, OptimizeIndices, Configure, TagHead, CleanUp)
_SCHEMA: _Kinds = (
    AddColumn,
    DropColumn,
    ReplaceColumn,
    RenameColumn,
    CastColumn,
    RewriteColumn,
)
_REWRITES: _Kinds = (Compact, Compact, Overwrite, Restore, RewriteColumn, Delete, CleanUp)
_ANY: _Kinds = (*_ROWS, *_ROWS, Compact, *_STRATEGIES)
_BIASES: dict[str, tuple[_Kinds, _Kinds]] = {
    "anything": (_ANY, _ANY),
    "rows": ((*_ROWS, WriteThrough, WriteThrough), (*_ROWS, *_ROWS, CreateIndex, CleanUp, TagHead)),
    "moved rows": ((Append, Update, Upsert, Compact, WriteThrough, Delete), _QUIET),
    "columns": ((*_SCHEMA, Append, Update, Delete, WriteThrough), _QUIET),
    "columns of the parent": (
        (Append, Append, WriteThrough, Delete, Update),
        (ReplaceColumn, *_SCHEMA, Delete, CleanUp),
    ),
    "rewritten": (_REWRITES, _QUIET),
    "rewritten parent": ((*_ROWS, WriteThrough), _REWRITES),
    "replaced": ((Overwrite, Append, Delete, Compact), (CreateIndex, TagHead, CleanUp, Configure)),
}


def _operations(kinds: _Kinds) -> st.SearchStrategy[Operation]:
    return st.sampled_from(kinds).flatmap(_STRATEGIES.__getitem__)


@st.composite
def _rounds(draw: st.DrawFn, names: Sequence[str]) -> Round:
    ours, theirs = _BIASES[draw(st.sampled_from([*_BIASES, "rows", "moved rows"]))]
    steps = st.tuples(st.just("branch"), _operations(ours)) | st.tuples(
        st.sampled_from(["parent"] * 4 + ["main"]), _operations(theirs)
    )
    return Round(
        draw(st.sampled_from(names)),
        tuple(draw(st.lists(steps, min_size=1, max_size=8))),
        draw(st.sampled_from([False] * 4 + [True])),
    )


@st.composite
def histories(draw: st.DrawFn, *, stable: bool) -> History:
    """Mostly of few operations, a third of them with a branch of a branch."""
    before = (*_ROWS, Compact, CreateIndex, CreateIndex, *_SCHEMA[:3], CleanUp, Overwrite)
    return History(
        stable,
        draw(st.booleans()),
        tuple(draw(st.lists(_operations(before), max_size=4))),
        draw(st.one_of(st.none(), st.none(), _rounds(["p"]))),
        tuple(draw(st.lists(_rounds(["b", "x/b"]), min_size=1, max_size=2))),
    )
