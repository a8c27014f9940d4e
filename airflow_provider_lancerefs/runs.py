"""`lance_run`: a branch for every DAG run, from its creation to its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_lancerefs.assets import outlets_for
from airflow_provider_lancerefs.hooks.refs import DEFAULT_CONN_ID
from airflow_provider_lancerefs.operators.branch import (
    LanceCreateBranchOperator,
    LanceDeleteBranchOperator,
)
from airflow_provider_lancerefs.operators.publish import LancePublishBranchOperator
from airflow_provider_lancerefs.operators.tag import LanceTagOperator
from airflow_provider_lancerefs.refstore.errors import InvalidInputError
from airflow_provider_lancerefs.working import BranchOfTask, work_on_branch

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator

__all__ = ["LanceRunScope", "lance_run"]

_PATIENCE: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=10)}


def lance_run(
    *datasets: str,
    publish: bool = True,
    tag: str | None = None,
    source: str = "main",
    keep_on_failure: bool = False,
    fail_if_unpublished: bool = True,
    message: str | None = None,
    optimize_indices: bool = False,
    name: str = "",
    lancerefs_conn_id: str = DEFAULT_CONN_ID,
    **task_args: Any,
) -> LanceRunScope:
    """
    Let the tasks inside work on a branch of the run's own, which is then published or discarded.

    .. code-block:: python

        with lance_run("orders", tag="release-{{ ds_nodash }}") as run:
            build(run.uri) >> check(run.uri)

    A setup task creates the branch; when all inside has succeeded it is published, and tagged; a
    teardown deletes it, and fails the run if it should have been published or tagged and was not.
    Every task inside is refused where the branch of its attempt is gone, and is noted on the branch
    when it succeeded; publishing needs the note of each. Works inside task groups and mapped ones.
    Where tasks inside are skipped by a choice, join its ways with a task whose trigger rule lets
    that pass.

    :param datasets: Names below the connection's root, or full URIs; or templates, or what a
        mapped task group is given, of which each index then has its own. Several get a branch of
        the same name, and are published one after the other once each of them can be.
    :param publish: Publish into the source when all inside has succeeded.
    :param tag: A release's name: of the published version, or of the branch's where ``publish`` is
        off, which keeps the branch. A tag of that name moves.
    :param source: What to fork.
    :param keep_on_failure: Leave the branch of a failed run for a look; the sweep takes it later.
    :param fail_if_unpublished: Off, a run may end well without having published.
    :param message: A commit message.
    :param optimize_indices: Bring new rows into the indices after publishing.
    :param name: A prefix for the ids of the tasks that are added, where a DAG has several.
    :param lancerefs_conn_id: The connection.
    :param task_args: For those tasks, such as ``pool`` or ``retries``.
    """
    given = {
        "dataset": datasets[0] if len(datasets) == 1 else list(datasets),
        "lancerefs_conn_id": lancerefs_conn_id,
        **_PATIENCE,
        **task_args,
    }
    if not datasets:
        raise InvalidInputError("A run's branch is a branch of at least one dataset.")
    prefix = f"{name}_" if name else ""
    expect = _expected(publish, tag) if fail_if_unpublished else None
    setup = LanceCreateBranchOperator(task_id=f"{prefix}create_branch", source=source, **given)
    branch: Any = setup.output["branch"]  # type: ignore[index]
    teardown = LanceDeleteBranchOperator(
        task_id=f"{prefix}discard_branch",
        branch=branch,
        expect=expect,
        expect_tag=tag if expect == "published" else None,
        unless_needed=True,
        keep_on_failure=keep_on_failure,
        **given,
    ).as_teardown(setups=setup, on_failure_fail_dagrun=expect is not None)
    outlets = outlets_for(datasets, lancerefs_conn_id)

    def ends(scope: Sequence[str]) -> list[BaseOperator]:
        """The tasks that publish and tag, in their order, made when it is known what works."""
        made: list[BaseOperator] = []
        if publish:
            made.append(
                LancePublishBranchOperator(
                    task_id=f"{prefix}publish_branch",
                    branch=branch,
                    scope=scope,
                    message=message,
                    optimize_indices=optimize_indices,
                    outlets=outlets,
                    **given,
                )
            )
        if tag is not None:
            made.append(
                LanceTagOperator(
                    task_id=f"{prefix}tag_branch",
                    tag=tag,
                    branch=branch,
                    move=True,
                    outlets=outlets,
                    **given,
                )
            )
        return made

    return LanceRunScope(setup, teardown, ends)


def _expected(publish: bool, tag: str | None) -> Literal["published", "tagged"] | None:
    if publish:
        return "published"
    return "tagged" if tag is not None else None


class LanceRunScope:
    """
    The inside of a `lance_run`: whatever task is made there works on the run's branch.

    ``setup`` and ``teardown`` are the tasks around it: ``seed() >> run.setup``.
    """

    def __init__(
        self,
        setup: LanceCreateBranchOperator,
        teardown: LanceDeleteBranchOperator,
        ends: Callable[[Sequence[str]], list[BaseOperator]],
    ) -> None:
        self.setup = setup
        self.teardown = teardown
        self._ends = ends
        self._before: set[str] = set()

    @property
    def branch(self) -> Any:
        """The branch's name, for a task's argument or template."""
        return self.setup.output["branch"]  # type: ignore[index]

    @property
    def uri(self) -> Any:
        """Where the tasks write, and read what others wrote: the branch of the first dataset."""
        return self.setup.output["uri"]  # type: ignore[index]

    @property
    def info(self) -> Any:
        """All that the setup returns: for each dataset its branch's uri, base version and life."""
        return self.setup.output

    def __enter__(self) -> LanceRunScope:
        self._before = {*self.setup.dag.task_ids}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            return
        inside = [one for one in self.setup.dag.tasks if one.task_id not in self._before]
        workers = [one for one in inside if not one.is_setup and not one.is_teardown]
        ids = {one.task_id for one in workers}
        for task in inside:
            if not {*task.upstream_task_ids} & {one.task_id for one in inside}:
                self.setup >> task
        for task in workers:
            work_on_branch(task, BranchOfTask.of(self.setup))
        last = [one for one in workers if not {*one.downstream_task_ids} & ids] or [self.setup]
        for end in self._ends(sorted(ids)):
            last >> end
            last = [end]
        last >> self.teardown
        for task in inside:  # a branch of this one, which has to go first
            if task.is_teardown:
                task >> self.teardown
