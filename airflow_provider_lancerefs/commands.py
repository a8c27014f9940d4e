"""`airflow lancerefs ...`: the console command, with datasets found through a connection."""

from __future__ import annotations

import argparse

from airflow.cli.cli_config import ActionCommand, Arg, lazy_load_command

__all__ = ["get_commands", "run"]

_CONNECTION = Arg(
    ("--lancerefs-conn-id",), default="lancerefs_default", help="where the dataset is found"
)
_WORDS = Arg(
    ("words",),
    nargs=argparse.REMAINDER,
    metavar="COMMAND",
    help="as for the command lancerefs, such as: branch list orders --json; or --help",
)


def get_commands() -> list[ActionCommand]:
    """What Airflow's command line offers of ours; this module is read at each of its calls."""
    return [
        ActionCommand(
            name="lancerefs",
            help="Branches and tags of Lance datasets",
            func=lazy_load_command(f"{__name__}.run"),
            args=(_CONNECTION, _WORDS),
        )
    ]


def run(args: argparse.Namespace) -> None:
    """Run one command on a dataset that is named as in a DAG."""
    from airflow_provider_lancerefs.cli import main
    from airflow_provider_lancerefs.hooks.refs import LanceRefsHook

    hook = LanceRefsHook(args.lancerefs_conn_id)
    raise SystemExit(main(args.words, lambda said: hook.get_store(said.uri)))
