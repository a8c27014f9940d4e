"""How every test that needs a running Airflow is marked."""

from __future__ import annotations

import pytest

REAL_AIRFLOW = [pytest.mark.airflow, pytest.mark.slow]
