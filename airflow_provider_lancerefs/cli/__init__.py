"""The console command `lancerefs`."""

from airflow_provider_lancerefs.cli.command import main

__all__ = ["main"]
