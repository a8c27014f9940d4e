"""What publishing a branch would do, or why it is refused: plain values for everybody."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RefusalCode(StrEnum):
    """Why a branch is not published; values are only ever added."""

    ALREADY_PUBLISHED = "already_published"
    FORK_GONE = "fork_gone"
    FRAGMENT_GONE = "fragment_gone"
    FRAGMENT_REWRITTEN = "fragment_rewritten"
    ROW_CONFLICT = "row_conflict"
    SCHEMA_DIVERGED = "schema_diverged"
    FIELD_ID_CLASH = "field_id_clash"
    PARENT_REPLACED = "parent_replaced"
    PARENT_RESTORED = "parent_restored"
    PARENT_HISTORY_GONE = "parent_history_gone"
    BRANCH_RESTORED_ROWS = "branch_restored_rows"
    UNSUPPORTED_FEATURE = "unsupported_feature"
    MISSING_FILE = "missing_file"
    BASE_PATH_MISSING = "base_path_missing"
    ROW_IDS_CHANGED = "row_ids_changed"
    MOVED_ROWS_WITH_SCHEMA_CHANGE = "moved_rows_with_schema_change"
    RENAME_WITH_ROWS = "rename_with_rows"
    REPLACED_WITH_DELETIONS = "replaced_with_deletions"
    CAST_WITH_REMOVED_ROWS = "cast_with_removed_rows"
    VALUES_WITH_SCHEMA_CHANGE = "values_with_schema_change"
    LANCE_REFUSED = "lance_refused"
    PARENT_TOO_BUSY = "parent_too_busy"
    WRITERS_MISSING = "writers_missing"


class PublishStep(StrEnum):
    """The kind of commit that a publish makes on the parent."""

    NOTHING = "nothing"
    UPDATE = "update"
    PROJECT = "project"
    MERGE = "merge"
    OVERWRITE = "overwrite"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a branch cannot be published as things stand: a code, and a sentence."""

    code: RefusalCode
    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """Columns by name, nested ones with dots. `altered` ones were renamed, cast or described."""

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.dropped or self.altered)


@dataclass(frozen=True, slots=True)
class Difference:
    """What one version has over another. A rewritten row counts as removed and as added."""

    fragments_added: int = 0
    fragments_removed: int = 0
    fragments_changed: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    files_added: tuple[str, ...] = ()
    files_removed: tuple[str, ...] = ()
    schema: SchemaChange = SchemaChange()

    def __bool__(self) -> bool:
        return self != Difference()


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """What a publish would do, judged at one moment; making one writes nothing.

    `difference` is the branch's own change since its fork. `published` is the parent's version that
    published it already; `refusal` says why it cannot be, or is None.
    """

    branch: str
    branch_version: int
    parent: str
    parent_version: int
    step: PublishStep = PublishStep.NOTHING
    difference: Difference = Difference()
    files_to_copy: int = 0
    bytes_to_copy: int = 0
    published: int | None = None
    refusal: Refusal | None = None
