from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_lancerefs.cli import main
from airflow_provider_lancerefs.cli.command import (
    BAD_INPUT,
    FOUND_SOMETHING,
    IN_THE_WAY,
    NOT_FOUND,
    STORE_FAILED,
)
from tests.tables import Place


class Shell:
    """Runs the command in this process; each call gives the exit code, and what was printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: object) -> tuple[int, str, str]:
        try:
            code = main([str(word) for word in words])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        printed = self._capsys.readouterr()
        return code, printed.out, printed.err


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture
def uri(local_place: Place) -> str:
    return local_place.create([1]).append(2).uri


def test_branches_from_beginning_to_end(shell: Shell, uri: str) -> None:
    """A branch is created, listed, refused while tagged, and deleted."""
    code, out, _ = shell("branch", "create", uri, "run/1", "main@1", "--metadata", "owner=ann")
    assert (code, out) == (0, "branch run/1 from main@1\n")
    code, out, _ = shell("branch", "list", uri)
    assert re.fullmatch(
        r"BRANCH  FROM    CREATED \(UTC\)        STATE\nrun/1   main@1  [\d :-]{19}  open\n", out
    )
    (listed,) = json.loads(shell("branch", "list", uri, "--json")[1])
    assert (listed["name"], listed["metadata"]["owner"]) == ("run/1", "ann")
    shell("tag", "create", uri, "v1", "branch:run/1")
    code, out, err = shell("branch", "delete", uri, "run/1")
    assert (code, out) == (IN_THE_WAY, "")
    assert err == ("lancerefs: The branch 'run/1' is needed by tag 'v1': delete that first.\n")
    shell("tag", "delete", uri, "v1")
    assert shell("branch", "delete", uri, "run/1")[:2] == (0, "branch run/1 deleted\n")
    assert shell("branch", "delete", uri, "run/1", "--missing-ok")[:2] == (
        0,
        "branch run/1 was gone\n",
    )
    assert shell("branch", "list", uri)[1] == "no branches\n"


def test_tags_from_beginning_to_end(shell: Shell, uri: str) -> None:
    """A tag is created, listed, moved and deleted; a protected one needs force."""
    assert shell("tag", "create", uri, "v1", "--protected")[1] == "tag v1 names main@2\n"
    assert "v1   main@2" in shell("tag", "list", uri)[1]
    assert shell("tag", "move", uri, "v1", "main@1")[0] == IN_THE_WAY
    assert shell("tag", "move", uri, "v1", "main@1", "--force")[1] == "tag v1 names main@1\n"
    assert shell("tag", "delete", uri, "v1", "--force")[1] == "tag v1 deleted\n"
    assert shell("tag", "list", uri)[1] == "no tags\n"


def test_a_sweep_says_what_it_does(shell: Shell, uri: str) -> None:
    """A dry run names what would go; the sweep deletes it."""
    for name in ("run/1", "run/2"):
        shell("branch", "create", uri, name)
    shell("tag", "create", uri, "v1", "branch:run/2")
    sweep = ("branch", "expire", uri, "run/*", "--older-than", "0")
    assert shell(*sweep, "--dry-run")[1].splitlines() == [
        "BRANCH  WHAT              WHY",
        "run/1   would be deleted  old enough",
        "run/2   kept              needed by tag 'v1'",
    ]
    results = json.loads(shell(*sweep, "--json")[1])
    assert [one["deleted"] for one in results] == [True, False]


def test_looking_at_a_version(shell: Shell, uri: str) -> None:
    """`show` sums a version up, `files` lists what it needs."""
    shown = json.loads(shell("show", uri, "main@2", "--json")[1])
    assert (shown["version"], shown["rows"], shown["fragments"]) == (2, 2, 2)
    assert "rows           2\n" in shell("show", uri)[1]
    files = json.loads(shell("files", uri, "--json")[1])
    assert [file["kind"] for file in files] == ["data", "data"]
    assert all(Path(file["uri"]).stat().st_size == file["size"] for file in files)


def test_clones_and_copies(shell: Shell, uri: str) -> None:
    """`clone` pins, `relocate` copies; both say where."""
    assert shell("clone", uri, f"{uri}-c", "main@1")[1] == (
        f"clone of main@1 at {uri}-c, version 1\n"
    )
    shell("branch", "create", uri, "a")
    code, out, _ = shell(
        "relocate", uri, f"{uri}-m", "branch:a", "--base", f"{uri}={uri}-m", "--json"
    )
    assert (code, json.loads(out)) == (0, {"target": f"{uri}-m", "branch": "main", "version": 2})
    assert Place(f"{uri}-m").values() == [1, 2]


def test_fsck_s_exit_code_tells(shell: Shell, uri: str) -> None:
    """Findings make fsck exit with 1, mended ones do not, and a clean dataset is called clean."""
    assert shell("fsck", uri)[:2] == (0, "clean\n")
    shell("branch", "create", uri, "a")
    Path(uri, "_refs/branches/a.json").unlink()
    code, out, _ = shell("fsck", uri, "--grace", "0")
    assert code == FOUND_SOMETHING
    assert "tree-without-ref" in out
    report = json.loads(shell("fsck", uri, "--grace", "0", "--repair", "--json")[1])
    assert (report["clean"], report["findings"][0]["repaired"]) == (True, True)
    assert shell("fsck", uri, "--grace", "0")[0] == 0


def test_publishing_from_plan_to_log(shell: Shell, uri: str) -> None:
    """A dry run says what a publish then does; diff and log show it."""
    shell("branch", "create", uri, "run/1")
    Place(uri).branch("run/1").append(7, 8)
    assert shell("diff", uri, "main", "branch:run/1")[1].splitlines() == [
        "rows       +2 -0",
        "fragments  +1 -0 ~0",
        "files      +1 -0",
    ]
    plan = json.loads(shell("publish", uri, "run/1", "--dry-run", "--json")[1])
    assert (plan["refusal"], plan["difference"]["rows_added"], plan["files_to_copy"]) == (
        None,
        2,
        1,
    )
    assert "to copy    1 files" in shell("publish", uri, "run/1", "--dry-run")[1]
    code, out, _ = shell("publish", uri, "run/1", "--message", "nightly")
    assert (code, out) == (0, "branch run/1@3 published as main@4\n")
    assert "was published before, as main@4" in shell("publish", uri, "run/1")[1]
    assert Place(uri).values() == [1, 2, 7, 8]
    assert "run/1@3: nightly" in shell("log", uri)[1]
    assert json.loads(shell("log", uri, "--json")[1])[0]["published_branch"] == "run/1"
    assert shell("diff", uri, "main", "main")[1] == "no difference\n"


def test_a_refused_publish_says_why(shell: Shell, uri: str) -> None:
    """A conflict has the code in the dry run, the sentence on stderr, and an exit code."""
    shell("branch", "create", uri, "a")
    Place(uri).branch("a").delete("n = 1")
    Place(uri).delete("n = 1")
    code, out, _ = shell("publish", uri, "a", "--dry-run")
    assert code == 0
    assert "refused  " in out
    code, _, err = shell("publish", uri, "a", "--json")
    assert code == IN_THE_WAY
    assert json.loads(err)["error"]["kind"] == "publish-refused"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["branch", "create", "{uri}", "a/../b"], BAD_INPUT, "may not contain '..'"),
        (["branch", "create", "{uri}", "a", "trunk"], BAD_INPUT, "is not a revision"),
        (["branch", "create", "{uri}", "a", "main@99"], NOT_FOUND, "main@99"),
        (["branch", "delete", "{uri}", "none"], NOT_FOUND, "no branch 'none'"),
        (["tag", "move", "{uri}", "none", "main"], NOT_FOUND, "no tag 'none'"),
        (["branch", "list", "{uri}-none"], NOT_FOUND, "no Lance dataset"),
        (["tag", "list", "{uri}-none"], NOT_FOUND, "no Lance dataset"),
        (["fsck", "{uri}-none"], NOT_FOUND, "no Lance dataset"),
        (["tag", "list", "gs://bucket/t"], STORE_FAILED, "gs://"),
        (["branch", "expire", "{uri}", "*", "--older-than", "soon"], BAD_INPUT, "not an age"),
        (["branch", "create", "{uri}", "a", "--metadata", "x"], BAD_INPUT, "not KEY=VALUE"),
        (["branch"], BAD_INPUT, "VERB"),
        (["show", "{uri}", "--storage-options", "/none.json"], BAD_INPUT, "cannot be read"),
    ],
)
def test_mistakes_are_said_in_a_sentence(
    shell: Shell, uri: str, words: list[str], code: int, says: str
) -> None:
    """Each kind of mistake has its exit code and one line on stderr; nothing on stdout."""
    got, out, err = shell(*(word.format(uri=uri) for word in words))
    assert (got, out) == (code, "")
    assert says in err.splitlines()[-1]
    assert "Traceback" not in err


def test_errors_are_json_for_scripts(shell: Shell, uri: str) -> None:
    """With --json an error is an object with its kind."""
    _, _, err = shell("branch", "delete", uri, "none", "--json")
    assert json.loads(err)["error"]["kind"] == "ref-not-found"


def test_every_command_explains_itself(shell: Shell) -> None:
    """Each command has help that names the exit codes."""
    groups = {"branch": ["list", "create", "delete", "expire"], "tag": ["list", "create"]}
    commands = [[group, verb] for group, verbs in groups.items() for verb in verbs]
    for words in [
        [],
        *commands,
        ["show"],
        ["files"],
        ["clone"],
        ["relocate"],
        ["fsck"],
        ["publish"],
        ["log"],
    ]:
        code, out, _ = shell(*words, "--help")
        assert code == 0
        assert "Exit codes" in out


@pytest.mark.s3
def test_s3_by_the_usual_variables(s3_place: Place) -> None:
    """The installed command reads AWS_* variables, and no secret is in what it prints."""
    s3_place.create([1])
    secret = s3_place.options["aws_secret_access_key"]
    environment = {
        "PATH": os.environ["PATH"],
        "AWS_ACCESS_KEY_ID": s3_place.options["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3_place.options["aws_endpoint"],
    }
    command = Path(sys.executable).with_name("lancerefs")
    made = subprocess.run(
        [command, "branch", "create", s3_place.uri, "a", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["name"] == "a"
    denied = subprocess.run(
        [command, "branch", "list", s3_place.uri],
        env={**environment, "AWS_SECRET_ACCESS_KEY": "wrong" + secret},
        capture_output=True,
        text=True,
        check=False,
    )
    assert denied.returncode == STORE_FAILED
    assert "S3 denied access" in denied.stderr
    assert secret not in made.stdout + made.stderr + denied.stdout + denied.stderr


def test_a_reader_that_has_had_enough_is_no_error(local_place: Place) -> None:
    """As `head` is, which ends before everything is printed."""
    local_place.create([1])
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        ended = subprocess.run(
            [sys.executable, "-m", "airflow_provider_lancerefs.cli", "log", local_place.uri],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (141, "")
