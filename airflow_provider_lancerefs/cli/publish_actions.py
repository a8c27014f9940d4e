"""The commands that move changes, and that show them: publish, diff and log."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

from airflow_provider_lancerefs.cli.output import Printable, moment, size, table
from airflow_provider_lancerefs.refstore import (
    Difference,
    LogEntry,
    Progress,
    PublishPlan,
    RefStore,
)


def publish(store: RefStore, arguments: Namespace, progress: Progress) -> Printable:
    if arguments.dry_run:
        return _plan(store.plan_publish(arguments.branch))
    result = store.publish(
        arguments.branch,
        message=arguments.message,
        properties=dict(arguments.property),
        require_writers=arguments.require_writer,
        optimize_indices=arguments.optimize_indices,
        progress=progress,
    )
    what = f"branch {result.branch}@{result.branch_version}"
    if result.already_published:
        text = f"{what} was published before, as {result.parent}@{result.version}"
    elif result.published:
        text = f"{what} published as {result.parent}@{result.version}"
    else:
        text = f"{what} has nothing to publish; {result.parent} stays at {result.version}"
    if result.unindexed:
        text += f"\n{result.unindexed} new fragments are not in the indices of {result.parent} yet"
    data = {
        "branch": result.branch,
        "branch_version": result.branch_version,
        "parent": result.parent,
        "version": result.version,
        "published": result.published,
        "already_published": result.already_published,
        "files_copied": result.files_copied,
        "bytes_copied": result.bytes_copied,
        "unindexed": result.unindexed,
    }
    return Printable(text, data)


def diff(store: RefStore, arguments: Namespace, progress: Progress) -> Printable:
    difference = store.diff(arguments.old, arguments.new)
    rows = _difference_rows(difference)
    return Printable(table([], rows, empty="no difference"), _difference(difference))


def log(store: RefStore, arguments: Namespace, progress: Progress) -> Printable:
    entries = store.log(arguments.revision)
    rows = [
        [
            str(entry.version),
            moment(entry.created_at),
            f"{entry.rows:,}",
            entry.operation or "unknown",
            _publication(entry),
        ]
        for entry in entries
    ]
    headings = ["VERSION", "CREATED (UTC)", "ROWS", "OPERATION", "PUBLISH"]
    return Printable(table(headings, rows), [_entry(entry) for entry in entries])


def _plan(plan: PublishPlan) -> Printable:
    into = f"{plan.parent}@{plan.parent_version}"
    rows = [["branch", f"{plan.branch}@{plan.branch_version}"], ["into", into]]
    if plan.refusal is not None:
        rows += [["refused", plan.refusal.code.value], ["because", plan.refusal.reason]]
    elif plan.published is not None:
        rows.append(["published", f"{plan.parent}@{plan.published}"])
    else:
        rows += [["commit", plan.step.value], *_difference_rows(plan.difference)]
        rows.append(["to copy", f"{plan.files_to_copy:,} files, {size(plan.bytes_to_copy)}"])
    data = {
        "branch": plan.branch,
        "branch_version": plan.branch_version,
        "parent": plan.parent,
        "parent_version": plan.parent_version,
        "step": plan.step.value,
        "difference": _difference(plan.difference),
        "files_to_copy": plan.files_to_copy,
        "bytes_to_copy": plan.bytes_to_copy,
        "published": plan.published,
        "refusal": plan.refusal.code.value if plan.refusal else None,
        "reason": plan.refusal.reason if plan.refusal else None,
    }
    return Printable(table([], rows), data)


def _difference_rows(difference: Difference) -> list[list[str]]:
    if not difference:
        return []
    schema = difference.schema
    columns = [
        f"{sign}{name}"
        for sign, names in (("+", schema.added), ("-", schema.dropped), ("~", schema.altered))
        for name in names
    ]
    return [
        ["rows", f"+{difference.rows_added:,} -{difference.rows_removed:,}"],
        [
            "fragments",
            f"+{difference.fragments_added:,} -{difference.fragments_removed:,} "
            f"~{difference.fragments_changed:,}",
        ],
        [
            "files",
            f"+{len(difference.files_added):,} -{len(difference.files_removed):,}",
        ],
        *([["columns", " ".join(columns)]] if columns else []),
    ]


def _difference(difference: Difference) -> Mapping[str, object]:
    return {
        "rows_added": difference.rows_added,
        "rows_removed": difference.rows_removed,
        "fragments_added": difference.fragments_added,
        "fragments_removed": difference.fragments_removed,
        "fragments_changed": difference.fragments_changed,
        "files_added": list(difference.files_added),
        "files_removed": list(difference.files_removed),
        "columns_added": list(difference.schema.added),
        "columns_dropped": list(difference.schema.dropped),
        "columns_altered": list(difference.schema.altered),
    }


def _publication(entry: LogEntry) -> str:
    if entry.published_branch is None:
        return entry.message or ""
    said = f"{entry.published_branch}@{entry.published_version}"
    if entry.step:
        return f"{entry.step} for {entry.published_branch}"
    return f"{said}: {entry.message}" if entry.message else said


def _entry(entry: LogEntry) -> Mapping[str, object]:
    return {
        "branch": entry.version.branch,
        "version": entry.version.number,
        "created_at": entry.created_at.isoformat(),
        "rows": entry.rows,
        "operation": entry.operation,
        "message": entry.message,
        "published_branch": entry.published_branch,
        "published_version": entry.published_version,
        "step": entry.step,
        "properties": dict(entry.properties),
    }
