"""What the tests of the provider rely on: that a run of a real Airflow can be stopped and hit."""

from __future__ import annotations

from tests.airflow.gates import Gates
from tests.airflow.marks import REAL_AIRFLOW
from tests.airflow.processes import command_line, kill_task, kill_worker, members
from tests.airflow.releases import since
from tests.airflow.world import World

pytestmark = REAL_AIRFLOW


def test_a_run_is_held_at_a_gate(airflow: World, gates: Gates) -> None:
    """A task waits at its gate for the test, and goes on when let."""
    run = airflow.api.trigger("toy", gates.holding("work"))
    pid = run.at(gates["work"])
    assert run.states()["work"] == "running"
    assert pid in {process.pid for process in members(airflow.sessions)}
    gates["work"].open()
    run.ends("success")
    assert run.xcom("work") == 0


def test_a_killed_task_is_retried(airflow: World, gates: Gates) -> None:
    """Airflow sees the death of a task's process at once, and tries again."""
    run = airflow.api.trigger("toy", gates.holding("work"))
    kill_task(run.at(gates["work"]))
    gates["work"].open()
    run.ends("success")
    assert run.numbers()["work"] == 2


def test_a_killed_worker_is_missed(airflow: World, gates: Gates) -> None:
    """When the supervisor dies as well, the missing heartbeat brings the retry."""
    run = airflow.api.trigger("toy", gates.holding("work"))
    pid = run.at(gates["work"])
    assert "airflow" in command_line(pid).lower()
    kill_worker(pid)
    gates["work"].open()
    run.ends("success")
    assert run.numbers()["work"] == 2


def test_a_run_is_marked_failed(airflow: World, gates: Gates) -> None:
    """A teardown still runs when the run is marked failed, and hides that it was."""
    run = airflow.api.trigger("toy", gates.holding("work"))
    run.at(gates["work"])
    run.mark("failed")
    run.wait_for("drop", "success")
    assert run.states()["work"] == "failed"


@since(3, 3, what="clearing of a task with its setup and teardown")
def test_clearing(airflow: World) -> None:
    """A run, one task or what failed can be cleared, and runs again."""
    run = airflow.api.trigger("toy")
    run.ends("success")
    assert run.clear("work") == ["create", "drop", "work"]
    run.ends("success")
    assert run.numbers() == {"create": 2, "work": 2, "drop": 2}
    run.mark_task("work", "failed")
    assert "work" in run.clear(only_failed=True)
    run.ends("success")
    assert run.numbers()["work"] == 3


def test_a_mapped_index_fails(airflow: World) -> None:
    """The instances of a mapped task are seen one by one, and their logs read."""
    run = airflow.api.trigger("toy_mapped", {"failing": [1]})
    run.ends("failed")
    assert run.states() == {"work[0]": "success", "work[1]": "failed", "work[2]": "success"}
    assert "index 1 fails" in run.log(("work", 1))
