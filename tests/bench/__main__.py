"""`python -m tests.bench [part ...]`: run benchmarks and write their reports."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.bench import publish, refs, sensors, spark

REPORTS = Path(__file__).parents[2] / "docs" / "benchmarks"


class Part(Protocol):
    """Measures, prints a table, writes its report files, and returns a line for each missed bar."""

    def __call__(self, folder: Path, *, quick: bool) -> list[str]: ...


PARTS: dict[str, Part] = {
    "refs": refs.run,
    "publish": publish.run,
    "sensors": sensors.run,
    "spark": spark.run,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that were asked for; 1 if a bar was missed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; else all")
    parser.add_argument("--quick", action="store_true", help="small sizes, in well under a minute")
    parser.add_argument("--out", type=Path, help="the folder for the report files")
    asked = parser.parse_args(arguments)
    unknown = set(asked.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there is {', '.join(PARTS)}")
    if asked.quick and asked.out is None:
        parser.error("--quick needs --out: the reports in docs are of full runs")
    folder = asked.out or REPORTS
    folder.mkdir(parents=True, exist_ok=True)
    missed = [
        line for name in asked.parts or PARTS for line in PARTS[name](folder, quick=asked.quick)
    ]
    for line in missed:
        print(f"bar missed: {line}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
