"""What is measured of publishing, and the bars that it has to keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from tests.bench.measuring import LATENCY, Sample

PAGE = 1_000  # objects that a listing names per request
BESIDE = 2  # data files in the same folder that are not the branch's
LISTINGS_OF_COPIES = 2  # looked at when they are made, and once more when the commit stands
TIMED_ROWS = 10**7
FASTER = 20
CELL = 8  # bytes: columns are random 64-bit numbers, which do not compress


class Way(StrEnum):
    """How the branch's rows come into main."""

    ZERO_COPY = "publish, zero-copy"
    COPIES = "publish, with copies"
    APPEND = "read and append with pylance"
    SPARK = "INSERT SELECT with Spark"


class Where(StrEnum):
    """Where the dataset is."""

    S3 = "S3"
    FAR = f"S3, {LATENCY * 1000:.0f} ms away"
    DISK = "local disk"


@dataclass(frozen=True, order=True)
class Size:
    """What the branch has that main has not; both have `columns`."""

    columns: int
    files: int
    rows: int

    def __str__(self) -> str:
        return f"{self.rows:,} rows of {self.row_bytes} bytes in {_files(self.files)}"

    @property
    def row_bytes(self) -> int:
        return self.columns * CELL

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class Result:
    """What one way cost at one size. Requests were counted where a proxy stood in between."""

    size: Size
    way: Way
    where: Where
    sample: Sample

    def __str__(self) -> str:
        return f"{self.way}, {self.size}, {self.where}: {self.sample}"


@dataclass(frozen=True)
class Bar:
    """One thing that has to hold, with the numbers that show whether it does."""

    what: str
    allowed: str
    found: str
    kept: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.found}, the bar is {self.allowed}"


class Results:
    """All results of a run, found by what was measured."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.all = tuple(results)
        self._samples = {(one.size, one.way, one.where): one.sample for one in results}

    @property
    def sizes(self) -> list[Size]:
        return list(dict.fromkeys(one.size for one in self.all))

    @property
    def ways(self) -> list[Way]:
        return list(dict.fromkeys(one.way for one in self.all))

    @property
    def counted_ways(self) -> list[Way]:
        """Those whose requests were counted."""
        return list(dict.fromkeys(one.way for one in self.all if one.where is Where.FAR))

    @property
    def places(self) -> set[Where]:
        return {one.where for one in self.all}

    def counted(self, size: Size, way: Way) -> Sample:
        return self._samples[size, way, Where.FAR]

    def requests(self, size: Size, way: Way) -> int:
        return self.counted(size, way).total

    def median(self, size: Size, way: Way, where: Where) -> float | None:
        found = self._samples.get((size, way, where))
        return found.median if found else None

    def by_rows(self) -> list[list[Size]]:
        """For each width of a row the sizes that differ in nothing but their rows."""
        groups: dict[int, list[list[Size]]] = {}
        for columns, files in sorted({(size.columns, size.files) for size in self.sizes}):
            same = [size for size in self.sizes if (size.columns, size.files) == (columns, files)]
            groups.setdefault(columns, []).append(sorted(same, key=lambda size: size.rows))
        return [max(series, key=len) for series in groups.values()]

    def by_files(self) -> list[Size]:
        """The sizes that differ in nothing but their files."""
        [one] = [size for size in self.sizes if size.files == 1]
        same = (one.columns, one.rows)
        found = (size for size in self.sizes if (size.columns, size.rows) == same)
        return sorted(found, key=lambda size: size.files)

    def faster(self, size: Size, where: Where, than: Way = Way.APPEND) -> float | None:
        """How many times as long another way takes as a publish without copies."""
        theirs, ours = (self.median(size, way, where) for way in (than, Way.ZERO_COPY))
        return theirs / ours if theirs and ours else None


def bars(results: Results, *, timed: bool) -> list[Bar]:
    """Every bar with what was found; those on time only if they are asked for."""
    found = [*_flat_in_rows(results), *_by_files(results)]
    return [*found, *_faster(results)] if timed else found


def _flat_in_rows(results: Results) -> Iterator[Bar]:
    """As many requests for the most bytes as for the fewest."""
    for files in sorted({size.files for size in results.sizes}):
        sizes = [size for size in results.sizes if size.files == files]
        least, *others = sorted(sizes, key=lambda size: size.bytes)
        for way in (Way.ZERO_COPY, Way.COPIES) if others else ():
            most = results.requests(least, way)
            made = max(results.requests(size, way) for size in others)
            yield Bar(
                f"{way}, {_files(files)} of {least.bytes:,} to {others[-1].bytes:,} bytes: "
                "requests",
                f"at most {most:,}",
                f"{made:,}",
                made <= most,
            )


def _by_files(results: Results) -> Iterator[Bar]:
    """No more requests than with one file, but for looking at the files, and copying each."""
    one, *others = results.by_files()
    for way in (Way.ZERO_COPY, Way.COPIES):
        for size in others:
            most = results.requests(one, way) + _more(way, size.files)
            made = results.requests(size, way)
            yield Bar(f"{way}, {size}: requests", f"at most {most:,}", f"{made:,}", made <= most)


def _more(way: Way, files: int) -> int:
    """How many more requests so many files may cost than one."""
    if way is Way.ZERO_COPY:
        return _pages(files + BESIDE) - 1
    return files - 1 + (1 + LISTINGS_OF_COPIES) * (_pages(files) - 1)


def _pages(objects: int) -> int:
    return -(-objects // PAGE)


def _faster(results: Results) -> Iterator[Bar]:
    timed = [size for size in results.sizes if size.rows == TIMED_ROWS]
    for size, where, way in product(timed, (Where.S3, Where.DISK), (Way.APPEND, Way.SPARK)):
        ratio = results.faster(size, where, way)
        if ratio is not None:
            yield Bar(
                f"{size}, {where}: times as fast as {way}",
                f"at least {FASTER}",
                f"{ratio:.1f}",
                ratio >= FASTER,
            )


def _files(count: int) -> str:
    return f"{count:,} file{'s' if count > 1 else ''}"
