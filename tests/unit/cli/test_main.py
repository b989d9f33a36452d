"""Finding the command, and turning every error into one line and a status."""

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from mlcat_ingest.cli import main as main_module
from mlcat_ingest.cli.main import COMMANDS, cli
from mlcat_ingest.cli.options import ADDRESS
from mlcat_ingest.errors import CatalogUnavailableError, RecipeError, RecipeValidationError
from support.cli import Invoke
from support.machine import needs_dev_full


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Put a command that only notes its arguments in the place of each."""
    calls: list[tuple[str, ...]] = []

    def load(name: str) -> click.Command:

        @click.command(name, context_settings={"ignore_unknown_options": True})
        @click.argument("args", nargs=-1, type=click.UNPROCESSED)
        def command(args: tuple[str, ...]) -> None:
            calls.append((name, *args))

        return command

    monkeypatch.setattr(main_module.Commands, "get_command", lambda _, __, name: load(name))
    return calls


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    @click.command()
    def command() -> None:
        raise error

    monkeypatch.setattr(main_module.Commands, "get_command", lambda *_: command)


@pytest.mark.parametrize(
    "target",
    [
        "recipe.yml",
        "a/b.YAML",
        "recipe.json",
        "-",
        "http://mlflow:5000",
        "HTTPS://mlflow",
        "sqlite:///mlflow.db",
        "postgresql://host/db",
        "databricks",
    ],
)
def test_a_recipe_or_an_address_is_run(
    target: str, invoke: Invoke, echo: list[tuple[str, ...]]
) -> None:
    assert invoke(target, "--report", "x").code == 0
    assert echo == [("run", target, "--report", "x")]


@pytest.mark.parametrize(
    ("args", "called"),
    [
        (["run", "recipe.yml"], ("run", "recipe.yml")),
        (["-v", "recipe.yml"], ("run", "recipe.yml")),
        (["-qv", "recipe.yml"], ("run", "recipe.yml")),
        (["--report", "r.json", "recipe.yml"], ("run", "--report", "r.json", "recipe.yml")),
        (["-v", "--no-input", "recipe.yml"], ("run", "--no-input", "recipe.yml")),
        (["-q", "get", "urn"], ("get", "urn")),
        (["get", "urn", "-v"], ("get", "urn", "-v")),
        (["run", "demo"], ("run", "demo")),
    ],
)
def test_options_may_stand_before_the_recipe(
    args: list[str], called: tuple[str, ...], invoke: Invoke, echo: list[tuple[str, ...]]
) -> None:
    assert invoke(*args).code == 0
    assert echo == [called]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        *(("demp", "demo"), ("chek", "check"), ("recipe.toml", None), ("zzz", None)),
        ("localhost:5000", "http://localhost:5000"),
        ("LOCALHOST/mlflow", "http://LOCALHOST/mlflow"),
        ("mlflow:5000/x", "http://mlflow:5000/x"),
        ("127.0.0.1", "http://127.0.0.1"),
        ("[::1]:5000", "http://[::1]:5000"),
        ("mlflow.example.com", "http://mlflow.example.com"),
        ("recipes/prod", None),
    ],
)
def test_any_other_word_is_a_usage_error(word: str, meant: str | None, invoke: Invoke) -> None:
    result = invoke(word)
    assert result.code == 2
    assert f"'{word}' is not a command" in result.err
    assert ("Did you mean" in result.err) is (meant is not None)
    assert meant is None or f"'{meant}'?" in result.err


def test_a_word_of_control_characters_does_not_reach_the_terminal(invoke: Invoke) -> None:
    assert "\x1b" not in invoke("\x1b[31m").err


def test_without_arguments_the_help_is_shown(invoke: Invoke) -> None:
    result = invoke()
    assert result.code in {0, 2}  # 2 since click 8.2
    assert "Usage: mlcat-ingest" in result.out + result.err


def test_the_help_lists_every_command(invoke: Invoke) -> None:
    result = invoke("--help")
    assert result.code == 0
    for name, (_, line) in COMMANDS.items():
        assert name in result.out
        assert line in result.out


def test_the_version(invoke: Invoke) -> None:
    assert invoke("--version").out == f"mlcat-ingest {version('mlcat-ingest')}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_with_an_example(name: str, invoke: Invoke) -> None:
    context = click.Context(cli)
    command = cli.get_command(context, name)
    assert command is not None
    result = invoke(name, "--help")
    assert result.code == 0
    if isinstance(command, click.Group):
        assert command.commands
    else:
        assert "Example" in result.out


# --- the help is cheap ---------------------------------------------------------------------------


def finished(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


LOADED = """
import json, resource, sys
from mlcat_ingest.cli.main import call
code = call(["--help"])
times = resource.getrusage(resource.RUSAGE_SELF)
names = sorted({name.partition(".")[0] for name in sys.modules})
print("LOADED", json.dumps([code, names]))
"""


@pytest.mark.process
def test_the_help_imports_click_and_the_standard_library_only() -> None:
    done = finished(sys.executable, "-c", LOADED)
    code, names = json.loads(done.stdout.partition("LOADED ")[2])
    assert code == 0
    # What the interpreter loads at its start by itself, such as editable installs and coverage.
    bare = finished(sys.executable, "-c", "import sys; print(*sys.modules)")
    at_start = {name.partition(".")[0] for name in bare.stdout.split()}
    foreign = set(names) - sys.stdlib_module_names - at_start - {"mlcat_ingest", "click"}
    assert foreign == set()


# --- errors --------------------------------------------------------------------------------------


class Interrupted:
    """A descriptor that Ctrl-C hits as its class is made, as happens during an import."""

    def __set_name__(self, owner: type, name: str) -> None:
        raise KeyboardInterrupt


def interrupted_import() -> BaseException:
    try:
        type("Module", (), {"property": Interrupted()})
    except (KeyboardInterrupt, RuntimeError) as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (RecipeError("wrong", hint="cure"), 2, "mlcat-ingest: wrong (cure)\n"),
        (RecipeValidationError(["a:1: x", "a:2: y"]), 2, "mlcat-ingest: a:1: x\na:2: y\n"),
        (CatalogUnavailableError("gone"), 1, "mlcat-ingest: gone\n"),
        (CatalogUnavailableError("\x1b[2J"), 1, "mlcat-ingest: \\u001b[2J\n"),
        (
            ZeroDivisionError("oops"),
            1,
            "mlcat-ingest: unexpected ZeroDivisionError: oops; run with -vv for a traceback\n",
        ),
        (KeyboardInterrupt(), 130, "\nmlcat-ingest: interrupted\n"),
        (interrupted_import(), 130, "mlcat-ingest: interrupted\n"),
        (click.Abort(), 130, "mlcat-ingest: interrupted\n"),
        (BrokenPipeError(), 0, ""),
    ],
)
def test_an_error_is_one_message_and_a_status(
    error: BaseException,
    code: int,
    message: str,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mlcat_ingest.cli.output.drop_stdout", lambda: None)
    failing(monkeypatch, error)
    result = invoke("get")
    assert (result.code, result.err.lstrip("\n"), result.out) == (code, message.lstrip("\n"), "")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RecipeError("wrong"), "wrong"),
        (ZeroDivisionError("oops"), "unexpected ZeroDivisionError: oops"),
    ],
)
def test_a_traceback_is_shown_on_demand(
    error: Exception, message: str, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, error)
    result = invoke("-vv", "get")
    assert "Traceback (most recent call last)" in result.err
    assert result.err.endswith(f"mlcat-ingest: {message}\n")


def test_secrets_are_masked_in_errors(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, CatalogUnavailableError("http://u:pa55word@host is gone"))
    assert invoke("get").err == "mlcat-ingest: http://***@host is gone\n"


def test_errors_are_json_where_logs_are(invoke: Invoke, tmp_path: Path) -> None:
    recipe = tmp_path / "r.yml"
    recipe.write_text("sources: 1\nfoo: 2\n")
    result = invoke("-vv", "run", str(recipe), "--log-format", "json")
    assert result.code == 2
    lines = [json.loads(line) for line in result.err.splitlines()]
    assert lines[-1]["level"] == "error"
    assert "foo" in lines[-1]["message"]
    assert lines[-1]["traceback"].startswith("Traceback")


def exit_of(call: Callable[[], object]) -> object:
    with pytest.raises(SystemExit) as caught:
        call()
    return caught.value.code


def test_the_process_exits_with_the_status(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exit_of(lambda: main_module.main(["--version"])) == 0
    assert "mlcat-ingest" in capfd.readouterr().out
    failing(monkeypatch, RecipeError("wrong"))
    assert exit_of(lambda: main_module.main(["get"])) == 2


@pytest.mark.parametrize(("threads", "at_once"), [(1, []), (2, [130])])
def test_an_interrupted_process_does_not_wait_for_threads(
    threads: int,
    at_once: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left: list[int] = []

    def leave(code: int) -> None:
        left.append(code)
        raise SystemExit(code)

    failing(monkeypatch, KeyboardInterrupt())
    monkeypatch.setattr("mlcat_ingest.cli.main.threading.active_count", lambda: threads)
    monkeypatch.setattr("mlcat_ingest.cli.main.os._exit", leave)
    assert exit_of(lambda: main_module.main(["get"])) == 130
    assert left == at_once


def test_leaving_at_once_survives_streams_that_nobody_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Closed:
        def flush(self) -> None:
            raise BrokenPipeError

    left: list[int] = []
    monkeypatch.setattr("mlcat_ingest.cli.main.os._exit", left.append)
    monkeypatch.setattr("mlcat_ingest.cli.main.sys.stdout", Closed())
    monkeypatch.setattr("mlcat_ingest.cli.main.gc.freeze", lambda: None)
    monkeypatch.setattr("mlcat_ingest.cli.main.threading.active_count", lambda: 2)
    monkeypatch.setattr(main_module, "call", lambda _: 130)
    with pytest.raises(SystemExit):
        main_module.main([])
    assert left == [130]


# --- python -m mlcat_ingest ----------------------------------------------------------------------


@pytest.mark.process
def test_a_closed_pipe_is_no_error() -> None:
    script = f"{sys.executable} -m mlcat_ingest schema | head -c 1"
    done = finished("bash", "-o", "pipefail", "-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "{", "")


@pytest.mark.process
@pytest.mark.parametrize("closed", ["1", "2", "1 2"])
def test_streams_that_the_caller_closed_are_no_error(closed: str) -> None:
    shut = " ".join(f"{number}>&-" for number in closed.split())
    script = f"{sys.executable} -m mlcat_ingest schema {shut}"
    done = finished("bash", "-c", script)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.process
@needs_dev_full
def test_a_standard_output_on_a_full_disk_is_an_error_with_its_place() -> None:
    script = f"{sys.executable} -m mlcat_ingest schema > /dev/full"
    done = finished("bash", "-c", script)
    sentence = "mlcat-ingest: standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, sentence)


@pytest.mark.process
def test_characters_that_a_terminal_lacks_are_escaped() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mlcat_ingest", "wörd→"],
        capture_output=True,
        check=False,
        timeout=60,
        env={"PYTHONIOENCODING": "latin-1"},
    )
    assert done.returncode == 2
    assert b"w\xf6rd\\u2192" in done.stderr


@pytest.mark.parametrize(
    ("word", "is_address"),
    [("databricks", True), ("databricks://dev", True), ("databricks.yml", False), ("-", False)],
)
def test_databricks_is_an_address(word: str, *, is_address: bool) -> None:
    assert bool(ADDRESS.match(word)) is is_address
