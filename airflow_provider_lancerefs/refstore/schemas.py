"""What stands against a publish in what branch and parent did to columns.

The rules have the form of those in `conflicts`. Lance knows a column by its field id alone, so an
id that means one thing on the branch and another on the parent is refused as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_provider_lancerefs.refstore.comparing import ThreeWay
from airflow_provider_lancerefs.refstore.conflicts import Rule
from airflow_provider_lancerefs.refstore.manifest import SchemaField
from airflow_provider_lancerefs.refstore.plans import PublishStep, Refusal, RefusalCode
from airflow_provider_lancerefs.refstore.snapshot import Snapshot, StoredFragment

_Fields = Mapping[int, SchemaField]


def step_of(both: ThreeWay) -> PublishStep:
    """The one commit that can do what the branch did."""
    branch = both.branch
    if branch.nothing:
        return PublishStep.NOTHING
    if not branch.schema:
        return PublishStep.UPDATE
    if not (branch.removed or branch.added or branch.changed):
        return PublishStep.PROJECT
    if branch.replaces_all and not _extends(both.fork.fields, both.ours.fields):
        return PublishStep.OVERWRITE
    return PublishStep.MERGE


def both_changed_schema(both: ThreeWay) -> Iterator[Refusal]:
    if both.branch.schema and both.parent.schema:
        yield _diverged("branch and parent both changed the columns since the fork", both)


def parent_changed_columns_of_rewritten_rows(both: ThreeWay) -> Iterator[Refusal]:
    """Rows that the branch moved would lose what the parent did to their columns."""
    branch, parent = both.branch, both.parent
    if not parent.schema and not any(one in parent.rewrites for one in branch.changed):
        return
    if branch.rewrites or (branch.deletes and branch.added):
        yield _diverged("the parent changed columns of rows that the branch rewrote", both)
    if not branch.added:
        return
    before, after = both.fork.fields, both.theirs.fields
    if after.keys() - before.keys():
        yield _diverged("the parent added columns that the branch's new rows lack", both)
    reused = _reused_ids(both.fork, both.theirs)
    if any(
        one in reused or not _only_renamed(before[one], after[one])
        for one in before.keys() & after.keys()
    ):
        yield _diverged("the parent altered columns of which the branch has new rows", both)


def parent_has_rows_without_new_columns(both: ThreeWay) -> Iterator[Refusal]:
    branch, parent = both.branch, both.parent
    if not branch.schema or not parent.added:
        return
    before, after = both.fork.fields, both.ours.fields
    if after.keys() - before.keys():
        yield _diverged("the branch added columns that the parent's new rows lack", both)
    if any(before[one].raw != after[one].raw for one in before.keys() & after.keys()):
        yield _diverged("the branch altered columns of which the parent has new rows", both)


def replaced_while_parent_changed(both: ThreeWay) -> Iterator[Refusal]:
    parent = both.parent
    if both.branch.replaces_all and (parent.removed or parent.added or parent.changed):
        yield _diverged("the branch replaced the table, whose rows the parent changed", both)


def field_ids_clash(both: ThreeWay) -> Iterator[Refusal]:
    """An id of the final schema that a file of the other side carries with another meaning."""
    last = both.ours if both.branch.schema else both.theirs
    final = last.fields
    standing = [
        fragment
        for number, fragment in both.theirs.fragments.items()
        if number not in both.branch.removed and number not in both.branch.rewrites
    ]
    reused = _reused_ids(both.fork, both.ours) | _reused_ids(both.fork, both.theirs)
    for snapshot, fragments in ((both.theirs, standing), (both.ours, both.branch.added)):
        for fragment in fragments:
            for one in fragment.field_ids & final.keys():
                means_else = one in reused and snapshot is not last
                if means_else or not _means_the_same(snapshot.fields.get(one), final[one]):
                    yield Refusal(
                        RefusalCode.FIELD_ID_CLASH,
                        f"Field {one} is {final[one].name!r} in the columns to be, and something "
                        f"else in fragment {fragment.identity} of {snapshot.version}.",
                    )


def renamed_with_rows(both: ThreeWay) -> Iterator[Refusal]:
    if step_of(both) is not PublishStep.MERGE:
        return
    before, after = both.fork.fields, both.ours.fields
    renamed = [one for one in before.keys() & after.keys() if before[one].name != after[one].name]
    if renamed and not both.branch.replaces_all:
        yield Refusal(
            RefusalCode.RENAME_WITH_ROWS,
            f"The branch renamed {before[renamed[0]].name!r} and changed rows or files too, which "
            "Lance cannot commit at once: publish one before the other.",
        )


def replaced_with_deletions(both: ThreeWay) -> Iterator[Refusal]:
    if step_of(both) is PublishStep.OVERWRITE:
        for fragment in both.branch.added:
            if fragment.deletion is not None:
                yield Refusal(
                    RefusalCode.REPLACED_WITH_DELETIONS,
                    f"The branch replaced the table and then deleted rows (of fragment "
                    f"{fragment.identity}), which Lance cannot commit at once: compact the branch.",
                )


def cast_with_removed_rows(both: ThreeWay) -> Iterator[Refusal]:
    """A column that kept its name and got another id must be in every fragment that is listed."""
    if step_of(both) is not PublishStep.MERGE:
        return
    cast = _cast(both.fork, both.ours)
    if not cast:
        return
    if both.branch.removed or any(not cast <= one.field_ids for one in _listed(both)):
        yield Refusal(
            RefusalCode.CAST_WITH_REMOVED_ROWS,
            f"The branch cast {both.ours.fields[min(cast)].name!r} and removed or added rows too, "
            "which Lance cannot commit at once: publish one before the other.",
        )


def values_with_schema_change(both: ThreeWay) -> Iterator[Refusal]:
    """A merge takes rows out of an index only where a file of the indexed column was replaced."""
    if step_of(both) is not PublishStep.MERGE or not both.theirs.manifest.indices:
        return
    for number, change in both.branch.rewrites.items():
        filled = change.rewritten & both.theirs.fields.keys() - change.old.where().keys()
        if filled:
            yield Refusal(
                RefusalCode.VALUES_WITH_SCHEMA_CHANGE,
                f"The branch changed columns and gave {both.theirs.fields[min(filled)].name!r} its "
                f"first values in fragment {number}, which an index of {both.theirs.version} would "
                "not notice: publish one before the other.",
            )


def _listed(both: ThreeWay) -> Iterator[StoredFragment]:
    """The fragments that a merge names: the parent's as they will be, and the branch's new ones."""
    for number, fragment in both.theirs.fragments.items():
        change = both.branch.changed.get(number)
        emptied = (
            change is not None
            and len(change.deleted | both.theirs.deleted(fragment)) == fragment.physical_rows
        )
        yield change.new if change is not None and not emptied else fragment
    yield from both.branch.added


def _diverged(what: str, both: ThreeWay) -> Refusal:
    return Refusal(
        RefusalCode.SCHEMA_DIVERGED,
        f"The columns diverged: {what} (branch {both.ours.version}, parent {both.theirs.version}).",
    )


def _extends(before: _Fields, after: _Fields) -> bool:
    return all(one in after and after[one].raw == field.raw for one, field in before.items())


def _only_renamed(before: SchemaField, after: SchemaField) -> bool:
    """Nothing but name and description differs."""
    return _means_the_same(before, after) and before.nullable == after.nullable


def _reused_ids(fork: Snapshot, side: Snapshot) -> set[int]:
    """The ids that mean another column on a side than at the fork.

    Lance gives the id of a dropped column to the next one if no data file holds it. So another name
    is a rename only where a file of the fork still holds the column under its id.
    """
    return {
        one
        for one in fork.fields.keys() & side.fields.keys()
        if fork.fields[one].name != side.fields[one].name and not _is_held(fork, side, one)
    }


def _is_held(fork: Snapshot, side: Snapshot, field: int) -> bool:
    held = {fragment.where().get(field) for fragment in fork.fragments.values()} - {None}
    return any(fragment.where().get(field) in held for fragment in side.fragments.values())


def _means_the_same(one: SchemaField | None, other: SchemaField) -> bool:
    return one is not None and (one.type, one.parent) == (other.type, other.parent)


def _cast(fork: Snapshot, branch: Snapshot) -> set[int]:
    before = {field.name: one for one, field in fork.fields.items()}
    after = {field.name: one for one, field in branch.fields.items()}
    return {after[name] for name in before.keys() & after.keys() if before[name] != after[name]}


SCHEMA_RULES: tuple[Rule, ...] = (
    both_changed_schema,
    parent_changed_columns_of_rewritten_rows,
    parent_has_rows_without_new_columns,
    replaced_while_parent_changed,
    field_ids_clash,
    renamed_with_rows,
    replaced_with_deletions,
    cast_with_removed_rows,
    values_with_schema_change,
)
