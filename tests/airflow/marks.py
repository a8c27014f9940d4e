"""How every test that needs a running Airflow is marked."""

from __future__ import annotations

import pytest

# The time is for a machine that is busy with something else: each task is a process of its own.
REAL_AIRFLOW = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(1800)]
