"""Bad input: one line that says what, which and what to do, the published exit code, never a traceback."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.shell import Done, Shell

LOOKING = [("status",), ("jobs",), ("show", "1"), ("logs", "1"), ("cancel", "1"), ("search", "word")]


@pytest.mark.parametrize("words", LOOKING, ids=lambda words: words[0])
def test_a_command_that_needs_a_store_says_that_there_is_none_and_makes_none(
    words: tuple[str, ...], shell: Shell
) -> None:
    """K15, exit code 1."""
    line = shell.refused(*words, code=1)
    assert line == f"no store in {shell.home}; enqueue or index something there first"
    assert not shell.home.exists()


def test_an_unknown_kind_is_refused_with_a_suggestion_and_makes_no_store(project: Shell) -> None:
    """K7, exit code 2."""
    line = project.refused("enqueue", "squar", "{}", code=2)
    assert (
        line == 'unknown kind "squar" (did you mean "square"?);'
        " kinds here: moody, runaway, sleepy, square, vault_sync"
    )
    assert not project.home.exists()


def test_an_unknown_kind_without_an_application_says_how_to_name_one(shell: Shell) -> None:
    line = shell.refused("enqueue", "square", code=2)
    assert line == 'unknown kind "square"; kinds here: vault_sync (an application\'s own: --app FILE.py)'


@pytest.mark.parametrize(
    ("payload", "line"),
    [
        (
            "{",
            "the payload is not JSON: Expecting property name enclosed in double quotes at line 1, column 2",
        ),
        ("[1, NaN]", "NaN at $[1] is not JSON"),
        ('{"a": -Infinity}', "-Infinity at $.a is not JSON"),
        ('"\\ud83d"', "the text at $ holds a lone surrogate (U+D83D) at position 0"),
        ("18446744073709551616", "the number at $ does not fit 64 bits"),
    ],
    ids=["torn", "nan", "infinite", "surrogate", "wide"],
)
def test_a_payload_that_is_not_strict_json_is_refused(payload: str, line: str, shell: Shell) -> None:
    """K15, exit code 2."""
    assert shell.refused("enqueue", "vault_sync", payload, code=2).startswith(
        line.split(" at ", maxsplit=1)[0]
    )
    assert shell.refused("enqueue", "vault_sync", "-", stdin=payload.encode(), code=2) != ""


def test_a_payload_over_the_limit_is_refused_with_both_sizes(shell: Shell) -> None:
    """K15: 1 MiB."""
    payload = json.dumps("x" * (1 << 20)).encode()
    line = shell.refused("enqueue", "vault_sync", "-", stdin=payload, code=2)
    assert line.startswith(f"the payload is {len(payload)} bytes")
    assert "1048576" in line


def test_a_payload_that_is_not_utf8_is_refused(shell: Shell) -> None:
    line = shell.refused("enqueue", "vault_sync", "-", stdin=b'"\xff"', code=2)
    assert line == "the payload is not UTF-8 (byte 1)"


def test_a_bad_line_is_named_by_its_number_and_nothing_is_queued(shell: Shell) -> None:
    line = shell.refused(
        "enqueue", "vault_sync", "--lines", "-", stdin=b'{"root": "/a"}\n\n{"root": }\n', code=2
    )
    assert line.startswith("line 3: the payload is not JSON")
    assert not shell.home.exists()


def test_a_file_without_lines_is_refused_with_its_kind_checked_first(project: Shell) -> None:
    project.write("empty", "\n\n")
    line = project.refused("enqueue", "square", "--lines", "empty", code=2)
    assert line == "--lines empty holds no payload, 0 queued; write one JSON value a line"
    assert 'unknown kind "squar"' in project.refused("enqueue", "squar", "--lines", "empty", code=2)
    assert not project.home.exists()


def test_a_bad_option_of_a_job_is_refused(shell: Shell) -> None:
    done = shell("enqueue", "vault_sync", "--batch-deadline", "soon")
    assert done.code == 2
    assert done.err == (
        "error: Invalid value for '--batch-deadline': 'soon' is no duration;"
        ' write 30, "30s", "2m", "1h" or "30d"; supervisor enqueue --help shows how\n'
    )
    assert "tag must be 1 to 128 printable characters" in shell.refused(
        "enqueue", "vault_sync", "--tag", "", code=2
    )


def test_a_bad_memory_limit_of_a_job_is_refused_with_how_to_write_it(shell: Shell) -> None:
    """K13: as in the settings file."""
    assert shell.refused("enqueue", "vault_sync", "--memory-limit", "6 apples", code=2) == (
        "Invalid value for '--memory-limit': '6 apples' is no size;"
        ' write 65536, "256KiB", "500MB" or "6GB"; supervisor enqueue --help shows how'
    )
    assert shell.refused("enqueue", "vault_sync", "--memory-limit", "6", code=2) == (
        "memory_limit 6 is under the 32000000 bytes that a child needs before it does any work;"
        " raise it, or switch it off with 0"
    )
    assert not shell.home.exists()


def test_no_application_is_said_by_the_commands_that_need_one(shell: Shell) -> None:
    """Exit code 2."""
    line = "no application; name one with --app FILE.py or MODULE, or as app in supervisor.toml"
    assert shell.refused("run", code=2).startswith(line)
    assert shell.refused("check", code=2).startswith(line)


def test_a_broken_application_is_refused_with_file_and_line(shell: Shell) -> None:
    """Exit code 2."""
    app = shell.write("broken.py", "from supervisor import App\n\nimport nowhere_to_be_found\n")
    for words in (("run",), ("check",), ("enqueue", "x")):
        line = shell.refused(*words, "--app", "broken.py", code=2)
        assert "No module named 'nowhere_to_be_found'" in line
        assert f"{app}:3" in line


def test_an_application_that_is_none_is_refused(shell: Shell) -> None:
    shell.write("other.py", "app = 7\n")
    assert "is of type int, not a supervisor.App" in shell.refused("check", "--app", "other.py", code=2)
    assert "there is no file" in shell.refused("check", "--app", "missing.py", code=2)


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (":app", "':app': that names no module and no file; write FILE.py[:NAME] or MODULE[:NAME]"),
        (".", "'.': that names no module and no file; write FILE.py[:NAME] or MODULE[:NAME]"),
        ("./notes", "'./notes': a path must end in .py; write FILE.py[:NAME] or MODULE[:NAME]"),
        ("", "--app is empty; write FILE.py[:NAME] or MODULE[:NAME]"),
        ("a.py:", "'a.py:': what follows the colon must be one name; write FILE.py:NAME or MODULE:NAME"),
    ],
)
def test_a_spec_of_the_wrong_form_is_refused_with_the_right_one(spec: str, line: str, shell: Shell) -> None:
    """Exit code 2."""
    assert shell.refused("run", "--app", spec, code=2) == line


def test_a_file_without_the_name_says_how_to_name_another(shell: Shell) -> None:
    file = shell.write("other.py", "it = 7\n")
    line = shell.refused("check", "--app", "other.py", code=2)
    assert line == f"{file}:app: it has no 'app'; another name is given as {file}:NAME ({file})"


def test_a_home_that_is_a_file_is_a_store_error(shell: Shell) -> None:
    """Exit code 4."""
    file = shell.write("home", "")
    line = shell.refused("enqueue", "vault_sync", "--home", "home", code=4)
    assert line == f"the home {file} is a file; --home names a folder"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_is_read_only_is_a_store_error(shell: Shell) -> None:
    """Exit code 4."""
    shell.home.mkdir(mode=0o500)
    assert "cannot be written" in shell.refused("enqueue", "vault_sync", code=4)


def test_a_home_where_nothing_can_be_made_is_a_store_error(shell: Shell) -> None:
    """Exit code 4, also for root: /proc takes no folders."""
    line = shell.refused("enqueue", "vault_sync", "--home", "/proc/laneway", code=4)
    assert line.startswith("the home /proc/laneway cannot be written")


def test_a_file_that_is_no_store_is_a_store_error(shell: Shell) -> None:
    """Exit code 4."""
    shell.home.mkdir()
    (shell.home / "store.db").write_bytes(
        b"no database, but long enough to be looked at as if it were one" * 20
    )
    for words in (("status",), ("jobs",), ("enqueue", "vault_sync")):
        assert "not a database" in shell.refused(*words, code=4)


def test_all_that_is_wrong_with_the_settings_is_said_at_once(shell: Shell) -> None:
    """Exit code 2: one line a complaint, with file, section and key."""
    file = shell.write(
        "supervisor.toml",
        "max_worker = 2\n[default]\n[kinds.embed]\nnice = 99\nbatch_rows = 0\nbatch_dedline = 3\n",
    )
    done = shell("enqueue", "vault_sync")
    assert done == Done(
        2,
        "",
        f"error: {file}: [kinds.embed] nice must be a whole number from -20 to 19, not 99\n"
        f"error: {file}: [kinds.embed] batch_rows must be a whole number from 1 to 1000000000, not 0\n"
        f"error: {file}: [kinds.embed] has no key 'batch_dedline' (did you mean \"batch_deadline\"?)\n"
        f"error: {file}: unknown key 'max_worker' (did you mean \"max_workers\"?)\n"
        f'error: {file}: unknown section [default] (did you mean "defaults"?)\n',
    )


def test_check_also_finds_what_is_wrong_with_the_application(shell: Shell) -> None:
    shell.write("supervisor.toml", 'app = "app.py"\nmax_workers = 0\n')
    shell.write(
        "app.py", "from supervisor import App\napp = App('a')\n@app.lane('x')\ndef x(job, ctx): ...\n"
    )
    done = shell("check", "--json")
    assert done.code == 2
    first, second = done.json["complaints"]
    assert "max_workers must be a whole number" in first
    assert "lane 'x'" in second
    assert "has no lander" in second


def test_a_broken_settings_file_stops_nobody_who_says_where_the_home_is(shell: Shell) -> None:
    assert shell("enqueue", "vault_sync").code == 0
    shell.write("supervisor.toml", "home = [")
    assert "is not TOML" in shell.refused("jobs", code=2)
    assert shell("jobs", "--home", ".supervisor").code == 0


def test_unknown_commands_and_options_get_a_suggestion_in_one_line(shell: Shell) -> None:
    """Exit code 2."""
    assert "Did you mean 'enqueue'?; supervisor --help shows how" in shell.refused("enqeue", code=2)
    assert "--until-idle" in shell.refused("run", "--until-idel", code=2)
    assert "which command?" in shell.refused(code=2)
    assert shell.refused("show", code=2) == "Missing argument 'ID'; supervisor show --help shows how"
    assert "--strikt" in shell.refused("status", "--strikt", code=2)


def test_an_unexpected_error_is_one_line_and_debug_adds_the_traceback(shell: Shell) -> None:
    """A lines file that is a folder is unexpected enough for the operating system to answer."""
    assert shell.refused("enqueue", "vault_sync", "--lines", ".", code=2) == "--lines .: Is a directory"
    done = shell("jobs", env={"LANEWAY_DEBUG": "1"})
    assert "Traceback" in done.err
    assert done.lines[-1].startswith("error: no store in")


def test_a_folder_that_cannot_be_indexed_is_refused_before_anything_is_queued(shell: Shell) -> None:
    file = shell.write("notes.md", "text")
    assert shell.refused("index", "missing", code=2) == "missing is not there; name a folder to index"
    assert shell.refused("index", str(file), code=2) == f"{file} is a file; name a folder to index"
    assert not shell.home.exists()


def test_a_name_that_is_no_text_is_refused_in_one_line(shell: Shell) -> None:
    folder = os.fsencode(shell.folder) + b"/caf\xe9"
    os.mkdir(folder)
    line = shell.refused("index", os.fsdecode(folder), code=2, env={"PYTHONUTF8": "1"})
    assert "holds a lone surrogate" in line


def test_nothing_is_too_odd_to_print_in_the_c_locale(shell: Shell) -> None:
    """An emoji, and bytes that are no text, in a locale of ASCII."""
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    odd = os.fsdecode(b"\xf0\x9f\xa6\x80\xff")
    for env in (plain, {"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}):
        assert "unknown kind" in shell.refused("enqueue", odd, code=2, env=env)
    assert shell("enqueue", "vault_sync", '{"root": "/\\ud83e\\udd80"}').code == 0
    shown = shell("show", "1", env=plain)
    assert shown.code == 0
    assert "\\U0001f980" in shown.out
    assert shell("jobs", env=plain).code == 0
    assert shell("show", "1", "--json", env=plain).json["payload"] == {"root": "/\U0001f980"}


def test_a_reader_that_goes_away_is_no_error(shell: Shell) -> None:
    lines = b"".join(b'{"root": "/%d"}\n' % n for n in range(2000))
    assert shell("enqueue", "vault_sync", "--lines", "-", stdin=lines).code == 0
    with shell.start("jobs", "--limit", "1000", "--json", stdin=subprocess.DEVNULL) as process:
        process.stdout.close()
        assert process.wait(20) == 0
        assert process.stderr.read() == b""


def test_windows_is_refused_at_the_door(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from supervisor.cli import main

    monkeypatch.setattr("sys.platform", "win32")
    assert main(["status"]) == 2
    assert capsys.readouterr().err.startswith("error: laneway needs POSIX")


def test_the_current_folder_may_be_gone(shell: Shell, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    process = shell.start("jobs", cwd=gone, preexec_fn=gone.rmdir)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert len(err.splitlines()) == 1
