"""What stands against a publish in what branch and parent did to fragments and rows.

Each rule looks at both sides since the fork and yields what it refuses; the first refusal counts.
Lance's own conflict check sees none of this once the parent's history was cleaned up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from airflow_provider_lancerefs.refstore.comparing import ThreeWay
from airflow_provider_lancerefs.refstore.manifest import Feature
from airflow_provider_lancerefs.refstore.plans import Refusal, RefusalCode
from airflow_provider_lancerefs.refstore.snapshot import Snapshot

Rule = Callable[[ThreeWay], Iterator[Refusal]]

_PROVEN = int(
    Feature.DELETION_FILES
    | Feature.STABLE_ROW_IDS
    | Feature.V2_FORMAT
    | Feature.TABLE_CONFIG
    | Feature.BASE_PATHS
    | Feature.NO_TRANSACTION_FILES
)
_HARMLESS = frozenset(
    {
        "append",
        "delete",
        "update",
        "rewrite",
        "reserve_fragments",
        "create_index",
        "update_config",
        "update_bases",
    }
)
_REPLACES = frozenset({"overwrite", "restore"})
_MANAGED_BLOB = b"lance.blob.v2"


def first_refusal(rules: Iterable[Rule], both: ThreeWay) -> Refusal | None:
    """What the first rule that has something to say says."""
    return next((refusal for rule in rules for refusal in rule(both)), None)


def unproven_features(both: ThreeWay) -> Iterator[Refusal]:
    for snapshot in (both.fork, both.ours, both.theirs):
        what = _unproven(snapshot)
        if what:
            yield Refusal(
                RefusalCode.UNSUPPORTED_FEATURE,
                f"{snapshot.version} {what}, with which publishing is not proven.",
            )
    if not both.fork.stable == both.ours.stable == both.theirs.stable:
        yield Refusal(
            RefusalCode.UNSUPPORTED_FEATURE,
            f"{both.ours.version} and {both.theirs.version} differ in having stable row ids.",
        )
    if both.ours.manifest.storage_format != both.theirs.manifest.storage_format:
        yield Refusal(
            RefusalCode.UNSUPPORTED_FEATURE,
            f"{both.ours.version} and {both.theirs.version} differ in their file format.",
        )


def branch_brought_rows_back(both: ThreeWay) -> Iterator[Refusal]:
    for number, change in both.branch.changed.items():
        if change.restored:
            yield Refusal(
                RefusalCode.BRANCH_RESTORED_ROWS,
                f"The branch restored rows of fragment {number} that were deleted before its fork.",
            )


def row_ids_changed(both: ThreeWay) -> Iterator[Refusal]:
    for change in both.branch.changed.values():
        old, new = change.old, change.new
        if old.row_ids != new.row_ids and list(old.stable_row_ids()) != list(new.stable_row_ids()):
            yield Refusal(
                RefusalCode.ROW_IDS_CHANGED,
                f"The branch changed the row ids of fragment {old.identity}.",
            )


def parent_lost_fragments(both: ThreeWay) -> Iterator[Refusal]:
    for number in (*both.branch.changed, *both.branch.removed):
        if number in both.parent.removed:
            yield Refusal(
                RefusalCode.FRAGMENT_GONE,
                f"The branch changed fragment {number}, which the parent removed or rewrote since "
                f"the fork: {both.blame(number)}.",
            )


def parent_brought_rows_back(both: ThreeWay) -> Iterator[Refusal]:
    for number, change in both.parent.changed.items():
        if change.restored:
            yield Refusal(
                RefusalCode.PARENT_RESTORED,
                f"The parent restored rows of fragment {number} since the fork: "
                f"{both.blame(number)}.",
            )


def parent_touched_removed_fragments(both: ThreeWay) -> Iterator[Refusal]:
    for number in both.branch.removed:
        change = both.parent.changed.get(number)
        if change is not None and change.deleted:
            yield Refusal(
                RefusalCode.ROW_CONFLICT,
                f"The branch rewrote fragment {number}, of which the parent deleted or updated "
                f"{len(change.deleted)} rows since the fork: {both.blame(number)}.",
            )
        if change is not None and change.files_changed:
            yield Refusal(
                RefusalCode.FRAGMENT_REWRITTEN,
                f"Branch and parent both rewrote fragment {number} since the fork: "
                f"{both.blame(number)}.",
            )


def both_changed_fragments(both: ThreeWay) -> Iterator[Refusal]:
    for number, ours in both.branch.changed.items():
        theirs = both.parent.changed.get(number)
        if theirs is None:
            continue
        same_rows = ours.deleted & theirs.deleted
        if same_rows:
            yield Refusal(
                RefusalCode.ROW_CONFLICT,
                f"Branch and parent both deleted or updated {len(same_rows)} of the same rows of "
                f"fragment {number} (at offset {next(iter(same_rows))}): {both.blame(number)}.",
            )
        if ours.files_changed and theirs.files_changed:
            yield Refusal(
                RefusalCode.FRAGMENT_REWRITTEN,
                f"Branch and parent both changed columns of fragment {number}: "
                f"{both.blame(number)}.",
            )
        old = both.fork.fields.keys()
        for rewriter, who, other, whom in (
            (ours, "branch", theirs, "parent"),
            (theirs, "parent", ours, "branch"),
        ):
            if other.deleted and rewriter.rewritten & old:
                yield Refusal(
                    RefusalCode.ROW_CONFLICT,
                    f"The {who} rewrote columns of fragment {number} in place, of which the {whom} "
                    f"deleted or updated {len(other.deleted)} rows: {both.blame(number)}.",
                )


def missing_fragments_unexplained(both: ThreeWay) -> Iterator[Refusal]:
    """Where fragments of the fork are gone from the parent, its transactions must say why."""
    for number, operation in both.operations().items() if both.parent.removed else ():
        version = replace(both.theirs.version, number=number)
        if operation is None:
            yield Refusal(
                RefusalCode.PARENT_HISTORY_GONE,
                f"The parent lost fragments since the fork, and {version}, which may say why, was "
                "cleaned up.",
            )
        elif operation in _REPLACES:
            yield Refusal(
                RefusalCode.PARENT_REPLACED,
                f"The parent was replaced since the fork: {version} is an {operation}."
                if operation == "overwrite"
                else f"The parent was taken back since the fork: {version} is a {operation}.",
            )
        elif operation not in _HARMLESS:
            yield Refusal(
                RefusalCode.SCHEMA_DIVERGED,
                f"The parent's columns changed since the fork: {version} is a {operation}.",
            )


def _unproven(snapshot: Snapshot) -> str | None:
    flags = snapshot.manifest.reader_flags | snapshot.manifest.writer_flags
    if flags & ~_PROVEN:
        return f"uses features (flags {flags & ~_PROVEN})"
    if not all(fragment.plain for fragment in snapshot.fragments.values()):
        return "has overlays, or row ids in files of their own"
    if any(_MANAGED_BLOB in one.metadata.values() for one in snapshot.manifest.fields):
        return "has managed blobs"
    return None


ROW_RULES: tuple[Rule, ...] = (
    branch_brought_rows_back,
    row_ids_changed,
    parent_lost_fragments,
    parent_brought_rows_back,
    parent_touched_removed_fragments,
    both_changed_fragments,
    missing_fragments_unexplained,
)
