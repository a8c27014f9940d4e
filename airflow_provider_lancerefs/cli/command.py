"""Parse a command line, make one call, print what it returned."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from airflow_provider_lancerefs.cli import actions, output, publish_actions
from airflow_provider_lancerefs.cli.arguments import (
    base_move,
    duration,
    metadata_pair,
    storage_options,
)
from airflow_provider_lancerefs.refstore import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    LanceRefsError,
    NotFoundError,
    RefStore,
    RefusedError,
)

FOUND_SOMETHING = 1
BAD_INPUT = 2
NOT_FOUND = 3
IN_THE_WAY = 4
STORE_FAILED = 5

_EPILOG = f"""\
A revision is 'main', 'main@3', 'branch:NAME', 'branch:NAME@7' or 'tag:NAME'.
An age is a number and a unit: 90s, 30m, 12h, 7d.

For s3:// the usual AWS_* variables are read (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL); --storage-options names a JSON file with
pylance's keys instead. Secrets are never taken from the command line.

Exit codes: 0 done; {FOUND_SOMETHING} fsck left findings; {BAD_INPUT} the call is wrong;
{NOT_FOUND} what it names is not there; {IN_THE_WAY} something stands in the way (it exists, it \
changed, it is in use);
{STORE_FAILED} the store failed, or holds what this version cannot read.
"""


def _open(arguments: argparse.Namespace) -> RefStore:
    return RefStore.open(
        arguments.uri,
        storage_options(arguments.uri, arguments.storage_options),
        grace=arguments.grace,
    )


def main(
    argv: Sequence[str] | None = None,
    open_store: Callable[[argparse.Namespace], RefStore] = _open,
) -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return _run(arguments, open_store(arguments))
    except LanceRefsError as error:
        output.print_error(error, as_json=arguments.json)
        return exit_code(error)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # who reads it, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the last flush
        return 141


def exit_code(error: LanceRefsError) -> int:
    """What a script can rely on: one code for each thing it might do next."""
    if isinstance(error, InvalidInputError):
        return BAD_INPUT
    if isinstance(error, NotFoundError):
        return NOT_FOUND
    if isinstance(error, AlreadyExistsError | ConflictError | RefusedError):
        return IN_THE_WAY
    return STORE_FAILED


def _run(arguments: argparse.Namespace, store: RefStore) -> int:
    with output.progress_line() as progress:
        result: output.Printable = arguments.action(store, arguments, progress)
    if arguments.json:
        output.print_json(result.data)
    else:
        print(result.text)
    sys.stdout.flush()
    return FOUND_SOMETHING if result.unclean else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lancerefs",
        description="Branches, tags, clones and health of a Lance dataset.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_branch(commands)
    _add_tag(commands)
    _add_publish(commands)
    show = _command(commands, "show", actions.show, "what a revision consists of")
    _revision(show)
    files = _command(commands, "files", actions.files, "every file that a revision needs")
    _revision(files)
    clone = _command(
        commands, "clone", actions.clone, "a dataset elsewhere that shares this one's files"
    )
    clone.add_argument("target", help="where the clone is made")
    _revision(clone)
    relocate = _command(
        commands, "relocate", actions.relocate, "copy a revision to a place of its own"
    )
    relocate.add_argument("target", help="where the copy is made")
    _revision(relocate)
    relocate.add_argument(
        "--base",
        metavar="OLD=NEW",
        type=base_move,
        action="append",
        default=[],
        help="copy the files of a base path as well, and point to the copy",
    )
    fsck = _command(commands, "fsck", actions.fsck, "look for everything that can be wrong")
    fsck.add_argument("--repair", action="store_true", help="mend what is safe to mend")
    fsck.add_argument(
        "--orphan-age",
        metavar="AGE",
        type=duration,
        default=actions.ORPHAN_AGE,
        help="how old a file that no version reaches must be to be called an orphan (7d)",
    )
    return parser


def _add_branch(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    group = commands.add_parser("branch", help="list, create, delete and expire branches")
    verbs = group.add_subparsers(metavar="VERB", required=True)
    _command(verbs, "list", actions.list_branches, "every branch")
    create = _command(verbs, "create", actions.create_branch, "fork a branch from a revision")
    create.add_argument("name")
    _revision(create)
    _metadata(create)
    delete = _command(verbs, "delete", actions.delete_branch, "delete a branch and its files")
    delete.add_argument("name")
    _deletion(delete)
    expire = _command(verbs, "expire", actions.expire_branches, "delete branches long idle")
    expire.add_argument("pattern", help="which branches, as a glob: 'run/*'")
    expire.add_argument("--older-than", metavar="AGE", type=duration, required=True)
    expire.add_argument("--dry-run", action="store_true", help="say what would be deleted")


def _add_tag(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    group = commands.add_parser("tag", help="list, create, move and delete tags")
    verbs = group.add_subparsers(metavar="VERB", required=True)
    _command(verbs, "list", actions.list_tags, "every tag")
    create = _command(verbs, "create", actions.create_tag, "name a revision")
    create.add_argument("name")
    _revision(create)
    create.add_argument("--protected", action="store_true", help="move and delete only by force")
    _metadata(create)
    move = _command(verbs, "move", actions.move_tag, "let a tag name another revision")
    move.add_argument("name")
    move.add_argument("revision")
    move.add_argument("--force", action="store_true", help="even if it is protected")
    delete = _command(verbs, "delete", actions.delete_tag, "delete a tag")
    delete.add_argument("name")
    _deletion(delete)


def _add_publish(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    publish = _command(
        commands, "publish", publish_actions.publish, "make a branch's changes its parent's"
    )
    publish.add_argument("branch")
    publish.add_argument(
        "--dry-run", action="store_true", help="say what would be done, or why not"
    )
    publish.add_argument("--message", help="a commit message")
    publish.add_argument(
        "--property", metavar="KEY=VALUE", type=metadata_pair, action="append", default=[]
    )
    publish.add_argument(
        "--require-writer",
        metavar="NAME",
        action="append",
        default=[],
        help="who must have written to the branch",
    )
    publish.add_argument(
        "--optimize-indices", action="store_true", help="bring the new rows into the indices"
    )
    diff = _command(commands, "diff", publish_actions.diff, "what one revision has over another")
    diff.add_argument("old")
    diff.add_argument("new")
    log = _command(commands, "log", publish_actions.log, "the versions up to a revision")
    _revision(log)


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    action: actions.Action,
    description: str,
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name,
        help=description,
        description=description[0].upper() + description[1:] + ".",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(action=action)
    command.add_argument("uri", help="the dataset: a local path, s3://… or memory://…")
    command.add_argument("--json", action="store_true", help="print JSON, for scripts")
    command.add_argument(
        "--storage-options", metavar="FILE", help="a JSON file of pylance's storage options"
    )
    command.add_argument(
        "--grace",
        metavar="AGE",
        type=duration,
        default=actions.GRACE,
        help="how old the remains of a dead branch or process must be to be touched (10m)",
    )
    return command


def _revision(command: argparse.ArgumentParser) -> None:
    command.add_argument("revision", nargs="?", default="main", help="default: main")


def _metadata(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--metadata", metavar="KEY=VALUE", type=metadata_pair, action="append", default=[]
    )


def _deletion(command: argparse.ArgumentParser) -> None:
    command.add_argument("--force", action="store_true", help="even if it is protected or broken")
    command.add_argument("--missing-ok", action="store_true", help="no error if it is gone")
