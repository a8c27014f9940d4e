"""Somebody who reads main all the time, and sees nothing but whole runs."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from airflow_provider_lancerefs.refstore import Branch
from airflow_provider_lancerefs.refstore.layout import is_dataset_file
from tests.airflow.tables import whole_runs
from tests.tables import Place

PAUSE = 0.25  # between two looks: the machine has other things to do as well
NO_TIME = timedelta(0)
RefusedView = tuple[int, ...]


@dataclass
class Observer:
    """What was seen on main, and whatever of it was no whole number of runs."""

    place: Place
    writers: int
    looks: int = 0
    runs: Counter[int] = field(default_factory=Counter)
    halves: list[str] = field(default_factory=list)

    def look(self) -> None:
        """Read main's head once."""
        try:
            values = self.place.values()
        except Exception as error:  # whatever it is: main cannot be read
            self.halves.append(repr(error))
            return
        self.looks += 1
        self._judge(values, "head")

    def look_back(self) -> None:
        """Read every version that main ever had, which is all that anybody can have seen."""
        for entry in self.place.store().log():
            self._judge(self.place.values(entry.version.number), str(entry.version))

    def _judge(self, values: list[int], where: str) -> None:
        runs = whole_runs(values, self.writers)
        if runs is None:
            self.halves.append(f"{where}: {values}")
        elif where == "head":
            self.runs = runs


@contextlib.contextmanager
def watching(place: Place, writers: int = 1) -> Iterator[Observer]:
    """Read main in a thread for as long as this lasts; afterwards, all that it ever was."""
    observer, over = Observer(place, writers), threading.Event()

    def watch() -> None:
        while not over.wait(PAUSE):
            observer.look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield observer
    finally:
        over.set()
        thread.join()
    observer.look()
    observer.look_back()
    assert observer.halves == []


def sweep(place: Place) -> None:
    """What a nightly sweep does: expire what is left of runs, and mend what is safe to mend."""
    store = place.store(grace=NO_TIME, publish_lease=NO_TIME)
    store.expire_branches("*", NO_TIME)
    store.check(repair=True, orphan_age=NO_TIME)


def branches(place: Place) -> list[str]:
    return place.store().branch_names()


def leftovers(place: Place) -> list[str]:
    """Every branch, and every file of the dataset that neither main nor a tag reaches."""
    store = place.store()
    reached = {
        file.uri.removeprefix(f"{store.uri}/")
        for version in _reaching(place)
        for file in store.files(version)
    }
    storage = store._dataset.storage  # the public API names refs and versions, not files
    there = [entry.path for entry in storage.list("")]
    lost = [
        path
        for path in there
        if path.startswith("tree/")
        or (path.partition("/")[0] in ("data", "_deletions", "_indices") and path not in reached)
        or not (is_dataset_file(path) or path.startswith("_refs/"))
    ]
    return [*(f"branch {name}" for name in branches(place)), *lost]


def findings(place: Place) -> list[str]:
    """What a check of the dataset still has to say."""
    report = place.store(grace=NO_TIME).check(orphan_age=NO_TIME)
    return [f"{finding.code} {finding.subject}: {finding.detail}" for finding in report.findings]


def _reaching(place: Place) -> list[str]:
    store = place.store()
    main = [f"main@{entry.version.number}" for entry in store.log()]
    return [*main, *(f"tag:{name}" for name in store.tag_names())]


def life_of(place: Place, prefix: str) -> Branch:
    """The one branch of a run that lives now."""
    found = [name for name in branches(place) if name.startswith(prefix)]
    assert len(found) == 1, found
    return place.store().branch(found[0])
