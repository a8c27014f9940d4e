"""One function a command: a call of the ref store, and how its result is shown."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeAlias

from airflow_provider_lancerefs.cli.output import Printable, moment, size, table
from airflow_provider_lancerefs.refstore import Branch, BrokenRef, RefStore, Tag, Version
from airflow_provider_lancerefs.refstore.checking import ORPHAN_AGE
from airflow_provider_lancerefs.refstore.dataset import RESIDUE_GRACE as GRACE
from airflow_provider_lancerefs.refstore.progress import Progress

__all__ = ["GRACE", "ORPHAN_AGE"]

Action: TypeAlias = Callable[[RefStore, Namespace, Progress], Printable]


def list_branches(store: RefStore, arguments: Namespace, progress: Progress) -> Printable:
    branches = store.branches()
    if not branches:
        store.resolve("main")  # says so if there is no dataset at all
    rows = [
        [
            branch.name,
            str(branch.source),
            moment(branch.created_at),
            branch.state.value + (", protected" if branch.protected else ""),
        ]
        if isinstance(branch, Branch)
        else [branch.name, "", "", "broken"]
        for branch in branches
    ]
    text = table(["BRANCH", "FROM", "CREATED (UTC)", "STATE"], rows, empty="no branches")
    return Printable(text, [_branch(branch) for branch in branches])


def create_branch(store: RefStore, arguments: Namespace, progress: Progress) -> Printable:
    branch = store.create_branch(arguments.name, arguments.revision, dict(arguments.metadata))
    return Printable(f"branch {branch.name} from {branch.source}", _branch(branch))


def delete_branch(store: RefStore, arguments: Namespace, progress: Progress) -> Printable:
    deleted = store.delete_branch(
        arguments.name, missing_ok=arguments.missing_ok, force=arguments.force
    )
    return _deleted("branch", arguments.name, deleted=deleted)


def expire_branches(store: RefStore, arguments: Namespace, progress: Progress) -> Printable:
    expiries = store.expire_branches(
        arguments.pattern, arguments.older_than, dry_run=arguments.dry_run, progress=progress
    )
    done = "would be deleted" if arguments.dry_run else "deleted"
    rows = [[one.branch, done if one.due else "kept", one.reason] for one in expiries]
    text = table(["BRANCH", "WHAT", "WHY"], rows, empty="no branch matches")
    data = [
        {"branch": one.branch, "due": one.due, "deleted": one.deleted, "reason": one.reason}
        for one in expiries
    ]
    return Printable(text, data)


def list_tags(store: RefStore, arguments: Namespace, progress: Progress) -> Printable:
    tags = store.tags()
    if not tags:
        store.resolve("main")  # says so if there is no dataset at all
    rows = [
        [
            tag.name,
            str(tag.target),
            moment(tag.updated_at or tag.created_at),
            "protected" if tag.protected else "",
        ]
        if isinstance(tag, Tag)
        else [tag.name, "", "", "broken"]
        for tag in tags
    ]
    text = table(["TAG", "NAMES", "UPDATED (UTC)", ""], rows, empty="no tags")
    return Printable(text, [_tag(tag) for tag in tags])


def create_tag(store: RefStore, arguments: Namespace, progress: Progress) -> Printable:
    tag = store.create_tag(
        arguments.name,
        arguments.revision,
        dict(arguments.metadata),
        protected=arguments.protected,
    )
    return Printable(f"tag {tag.name} names {tag.target}", _tag(tag))


def move_tag(store: RefStore, arguments: Namespace, progress: Progress) -> Printable:
    tag = store.move_tag(store.tag(arguments.name), arguments.revision, force=arguments.force)
    return Printable(f"tag {tag.name} names {tag.target}", _tag(tag))


def delete_tag(store: RefStore, arguments: Namespace, progress: Progress) -> Printable:
    deleted = store.delete_tag(
        arguments.name, missing_ok=arguments.missing_ok, force=arguments.force
    )
    return _deleted("tag", arguments.name, deleted=deleted)


def show(store: RefStore, arguments: Namespace, progress: Progress) -> Printable:
    version = store.resolve(arguments.revision)
    manifest = store.manifest(version)
    data: dict[str, object] = {
        **_version(version),
        "created_at": manifest.created_at.isoformat(),
        "rows": manifest.rows,
        "fragments": len(manifest.fragments),
        "indices": sorted({index.name for index in manifest.indices}),
        "base_paths": [base.path for base in manifest.bases.values()],
    }
    rows = [
        ["version", str(version)],
        ["created (UTC)", moment(manifest.created_at)],
        ["rows", f"{manifest.rows:,}"],
        ["fragments", f"{len(manifest.fragments):,}"],
        ["indices", ", ".join(sorted({index.name for index in manifest.indices})) or "none"],
        *(["base path", base.path] for base in manifest.bases.values()),
    ]
    return Printable(table([], rows), data)


def files(store: RefStore, arguments: Namespace, progress: Progress) -> Printable:
    found = store.files(arguments.revision)
    rows = [[file.kind, size(file.size), file.uri] for file in found]
    data = [{"kind": file.kind, "size": file.size, "uri": file.uri} for file in found]
    return Printable(table(["KIND", "SIZE", "FILE"], rows, empty="no files"), data)


def clone(store: RefStore, arguments: Namespace, progress: Progress) -> Printable:
    version = store.shallow_clone(arguments.target, arguments.revision)
    text = f"clone of {arguments.revision} at {arguments.target}, version {version.number}"
    return Printable(text, {"target": arguments.target, **_version(version)})


def relocate(store: RefStore, arguments: Namespace, progress: Progress) -> Printable:
    version = store.relocate(
        arguments.target, arguments.revision, bases=dict(arguments.base), progress=progress
    )
    text = f"copy of {arguments.revision} at {arguments.target}, version {version.number}"
    return Printable(text, {"target": arguments.target, **_version(version)})


def fsck(store: RefStore, arguments: Namespace, progress: Progress) -> Printable:
    report = store.check(
        repair=arguments.repair, orphan_age=arguments.orphan_age, progress=progress
    )
    rows = [
        [
            finding.code,
            finding.subject,
            finding.detail,
            "mended" if finding.repaired else finding.action,
        ]
        for finding in report.findings
    ]
    text = table(["WHAT", "WHERE", "WHY", "WHAT TO DO"], rows, empty="clean")
    data = {
        "clean": report.clean,
        "findings": [
            {
                "code": finding.code,
                "subject": finding.subject,
                "detail": finding.detail,
                "action": finding.action,
                "repaired": finding.repaired,
            }
            for finding in report.findings
        ],
    }
    return Printable(text, data, unclean=not report.clean)


def _branch(branch: Branch | BrokenRef) -> Mapping[str, object]:
    if isinstance(branch, BrokenRef):
        return {"name": branch.name, "broken": branch.broken}
    return {
        "name": branch.name,
        "parent": branch.parent,
        "parent_version": branch.parent_version,
        "created_at": branch.created_at.isoformat(),
        "state": branch.state.value,
        "protected": branch.protected,
        "metadata": dict(branch.metadata),
    }


def _tag(tag: Tag | BrokenRef) -> Mapping[str, object]:
    if isinstance(tag, BrokenRef):
        return {"name": tag.name, "broken": tag.broken}
    return {
        "name": tag.name,
        "branch": tag.branch,
        "version": tag.version,
        "created_at": _iso(tag.created_at),
        "updated_at": _iso(tag.updated_at),
        "protected": tag.protected,
        "metadata": dict(tag.metadata),
    }


def _version(version: Version) -> dict[str, object]:
    return {"branch": version.branch, "version": version.number}


def _deleted(kind: str, name: str, *, deleted: bool) -> Printable:
    text = f"{kind} {name} deleted" if deleted else f"{kind} {name} was gone"
    return Printable(text, {"name": name, "deleted": deleted})


def _iso(when: datetime | None) -> str | None:
    return when.isoformat() if when else None
