"""Sensors that wait for tags and branches; deferred ones of one dataset share one listing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    BaseSensorOperator,
    Context,
    PokeReturnValue,
    conf,
)
from airflow.triggers.base import BaseTrigger

from airflow_provider_lancerefs.failures import failing_for_good
from airflow_provider_lancerefs.hooks.refs import LanceRefsHook
from airflow_provider_lancerefs.refstore import (
    Branch,
    BrokenRef,
    DatasetNotFoundError,
    LanceRefsError,
    Tag,
)
from airflow_provider_lancerefs.triggers.conditions import (
    BranchCondition,
    Found,
    TagCondition,
    Until,
    life_of,
    tag_found,
)
from airflow_provider_lancerefs.triggers.refs import (
    LanceBranchTrigger,
    LanceTagTrigger,
    find_published,
)
from airflow_provider_lancerefs.triggers.snapshots import find_head

if TYPE_CHECKING:
    from airflow_provider_lancerefs.refstore import RefStore

__all__ = ["LanceBranchSensor", "LanceTagSensor"]


class _RefSensor(BaseSensorOperator):
    """Looks once, and then waits in the triggerer if it is deferrable, else in a worker."""

    dataset: str
    lancerefs_conn_id: str
    deferrable: bool

    @abstractmethod
    def look(self, store: RefStore) -> Found | None:
        """What there is, if it is what is waited for."""

    @abstractmethod
    def trigger(self) -> BaseTrigger:
        """What waits in the triggerer."""

    def is_settled(self, found: Mapping[str, Any]) -> bool:
        """Whether what the trigger found stays true, so that it need not be looked at again."""
        return False

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once; what can never come true fails the task without a retry."""
        with failing_for_good():
            found = self._look()
        return PokeReturnValue(is_done=found is not None, xcom_value=found)

    def _look(self) -> Found | None:
        try:
            return self.look(LanceRefsHook(self.lancerefs_conn_id).get_store(self.dataset))
        except DatasetNotFoundError:
            return None  # somebody may yet make it

    def execute(self, context: Context) -> Any:
        if not self.deferrable:
            return super().execute(context)
        deadline = datetime.now(UTC) + timedelta(seconds=self.timeout)
        try:
            looked = self.poke(context)
        except AirflowFailException as error:
            raise self._softened(error) from error
        return looked.xcom_value if looked else self._wait(deadline)

    def execute_complete(
        self, context: Context, event: Mapping[str, Any] | None = None, deadline: str = ""
    ) -> Any:
        """Look again at what the trigger found; where that has gone, wait for what time is left."""
        said = dict(event or {})
        if said.pop("status", "error") != "success":
            raise self._softened(AirflowFailException(said.get("message", "No event came.")))
        if self.is_settled(said):
            return said
        try:
            looked = self.poke(context)
        except AirflowFailException as error:
            raise self._softened(error) from error
        except LanceRefsError as error:
            self.log.warning("Cannot look again, and wait on: %s", error)
            looked = PokeReturnValue(is_done=False)
        return looked.xcom_value if looked else self._wait(datetime.fromisoformat(deadline))

    def _wait(self, deadline: datetime) -> None:
        left = deadline - datetime.now(UTC)
        if left <= timedelta():
            raise AirflowSensorTimeout(f"Nothing came within the {self.timeout:g} s of the sensor.")
        self.defer(
            trigger=self.trigger(),
            method_name="execute_complete",
            kwargs={"deadline": deadline.isoformat()},
            timeout=left,
        )

    def _softened(self, error: AirflowFailException) -> Exception:
        if self.soft_fail or self.never_fail:
            return AirflowSkipException(str(error))
        return error


class LanceTagSensor(_RefSensor):
    """
    Wait for a tag, by name or by pattern; returns which, and what it names.

    Of several tags that match a pattern it is the one that was made or moved last.

    :param dataset: A name below the connection's root, or a full URI.
    :param tag: The tag's name.
    :param pattern: Instead of a name, a glob such as ``release-*``.
    :param min_version: The least version that the tag may name.
    :param lancerefs_conn_id: The connection.
    :param deferrable: Wait in the triggerer, where any number of sensors on one dataset cost one
        request per interval.
    """

    template_fields: Sequence[str] = (
        "dataset",
        "tag",
        "pattern",
        "min_version",
        "lancerefs_conn_id",
    )

    def __init__(
        self,
        *,
        dataset: str,
        tag: str | None = None,
        pattern: str | None = None,
        min_version: int | str | None = None,
        lancerefs_conn_id: str = "lancerefs_default",
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.tag = tag
        self.pattern = pattern
        self.min_version = min_version
        self.lancerefs_conn_id = lancerefs_conn_id
        self.deferrable = deferrable

    def look(self, store: RefStore) -> Found | None:
        tag = self._wanted.best(self._candidates(store))
        return tag_found(self.dataset, tag) if tag else None

    def trigger(self) -> LanceTagTrigger:
        wanted = self._wanted
        return LanceTagTrigger(
            dataset=self.dataset,
            tag=wanted.tag,
            pattern=wanted.pattern,
            min_version=wanted.min_version,
            lancerefs_conn_id=self.lancerefs_conn_id,
            poke_interval=self.poke_interval,
        )

    @property
    def _wanted(self) -> TagCondition:
        return TagCondition.of(self.tag, self.pattern, self.min_version)

    def _candidates(self, store: RefStore) -> Iterable[Tag | BrokenRef]:
        wanted = self._wanted
        if wanted.tag is not None:
            return store.find_tags([wanted.tag])
        return store.find_tags(wanted.names(one.name for one in store.list_tags()))


class LanceBranchSensor(_RefSensor):
    """
    Wait until a branch exists, has advanced, or was published; returns its version.

    Once a branch was seen, its publication is found even if the branch is deleted right after; if
    it is deleted without being published, the task fails.

    :param dataset: A name below the connection's root, or a full URI.
    :param branch: The branch's name.
    :param until: ``exists``; ``advanced``, when it has versions of its own, or is past
        ``after_version``; or ``published``, which returns the parent's version.
    :param after_version: The version that ``advanced`` has to pass.
    :param lancerefs_conn_id: The connection.
    :param deferrable: Wait in the triggerer, where any number of sensors on one dataset share a
        listing per interval.
    """

    template_fields: Sequence[str] = (
        "dataset",
        "branch",
        "until",
        "after_version",
        "lancerefs_conn_id",
    )

    def __init__(
        self,
        *,
        dataset: str,
        branch: str,
        until: str = Until.EXISTS.value,
        after_version: int | str | None = None,
        lancerefs_conn_id: str = "lancerefs_default",
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.branch = branch
        self.until = until
        self.after_version = after_version
        self.lancerefs_conn_id = lancerefs_conn_id
        self.deferrable = deferrable
        self._life: Found | None = None

    def look(self, store: RefStore) -> Found | None:
        wanted = self._wanted
        branch = None if wanted.of_main else _find(store, self.branch)
        if wanted.until is Until.PUBLISHED:
            gone = find_published(store, self.dataset, wanted, self._life, branch)
            if gone is not None:
                return gone
            self._life = life_of(branch) if branch else None  # as far as this process goes
        needs_head = wanted.needs_head and (branch is not None or wanted.of_main)
        head = find_head(store, self.branch) if needs_head else None
        return wanted.found(self.dataset, branch, head)

    def trigger(self) -> LanceBranchTrigger:
        wanted = self._wanted
        return LanceBranchTrigger(
            dataset=self.dataset,
            branch=self.branch,
            until=wanted.until.value,
            after_version=wanted.after_version,
            seen=self._life,
            lancerefs_conn_id=self.lancerefs_conn_id,
            poke_interval=self.poke_interval,
        )

    def is_settled(self, found: Mapping[str, Any]) -> bool:
        return found.get("until") == Until.PUBLISHED

    @property
    def _wanted(self) -> BranchCondition:
        return BranchCondition.of(self.branch, self.until, self.after_version)


def _find(store: RefStore, name: str) -> Branch | None:
    found = next(iter(store.find_branches([name])), None)
    return found if isinstance(found, Branch) else None
