"""The command line, from the commands themselves."""

import inspect
import re
from collections.abc import Iterator
from typing import Final

import click

from mlcat_ingest.cli.main import cli
from support.reference.blocks import Page
from support.reference.markdown import bullet, inline, paragraph, sentences, table

_EVERYWHERE: Final = ("quiet", "verbose", "log_format")
_SERVICE: Final = ("server", "token")
_CELL: Final = 130
_STATUS: Final = re.compile(r"(\d+),? (.+)")


def commands(argument: str, page: Page) -> str:
    """Return a section for each command, those of groups below them."""
    del argument
    return "\n\n".join(
        section for path, command in walk(cli) if path for section in _sections(path, command, page)
    )


def shared_options(argument: str, page: Page) -> str:
    """Return the table of options that many commands have: `output` or `service`."""
    del page
    names = _EVERYWHERE if argument == "output" else _SERVICE
    found = {
        parameter.name: parameter
        for _, command in walk(cli)
        for parameter in command.params
        if parameter.name in names and not _is_own(parameter)
    }
    return _parameters([found[name] for name in names])


def walk(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield a command and all below it, each with its path of names."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            one = command.get_command(context, name)
            assert one is not None
            yield from walk(one, (*path, name))


def examples_of(command: click.Command) -> list[str]:
    """Return the lines of the examples in a command's help."""
    _, _, lines = inspect.cleandoc((command.epilog or "").replace("\b", "")).partition("\n")
    return inspect.cleandoc(lines).splitlines()


def _sections(path: tuple[str, ...], command: click.Command, page: Page) -> Iterator[str]:
    name = " ".join(path)
    yield f"{'#' * (len(path) + 1)} `{name}`"
    text, *more = _paragraphs(command.help or "")
    yield text
    yield f"```text\n{_usage(name, command)}\n```"
    yield from more
    shared = [
        (names, argument)
        for names, argument in ((_SERVICE, "service"), (_EVERYWHERE, "output"))
        if _has_shared(command, names)
    ]
    beside = {one for names, _ in shared for one in names}
    own = [
        parameter
        for parameter in command.params
        if parameter.name not in beside or _is_own(parameter)
    ]
    yield from filter(None, [_parameters(own)])
    places = [page.headings[argument] for _, argument in shared]
    links = [f"[{title[0].lower()}{title[1:]}](#{anchor})" for title, anchor in places]
    if links:
        yield f"It also has the {' and the '.join(links)}."
    lines = "\n".join(examples_of(command))
    if lines:
        yield f"```sh\n{lines}\n```"


def _has_shared(command: click.Command, names: tuple[str, ...]) -> bool:
    has = {one.name for one in command.params if not _is_own(one)}
    return set(names) <= has


def _is_own(parameter: click.Parameter) -> bool:
    """Say whether an option means something else than that of other commands."""
    return parameter.envvar is not None and parameter.name in _SERVICE


def _usage(name: str, command: click.Command) -> str:
    # A command keeps its option of help from the first context that asks for it.
    context = click.Context(command, info_name=f"mlcat-ingest {name}", **cli.context_settings)
    return " ".join([context.command_path, *command.collect_usage_pieces(context)])


def _paragraphs(text: str) -> list[str]:
    parts = inspect.cleandoc(text).replace("\f", "").split("\n\n")
    return [
        _exit_statuses(part) if part.startswith("Exit status: ") else paragraph(inline(part))
        for part in parts
    ]


def _exit_statuses(text: str) -> str:
    """Return the statuses of a command as a list; the text has them between semicolons."""
    first, *others = sentences(text.removeprefix("Exit status: "))
    entries = [_STATUS.match(one) for one in first.rstrip(".").split("; ")]
    if not all(entries):
        return paragraph(inline(text))
    lines = [bullet(f"**{one[1]}**: {inline(one[2])}") for one in entries if one is not None]
    rest = [paragraph(inline(" ".join(others)))] if others else []
    return "\n\n".join(["[Exit status](report.md#exit-status):", "\n".join(lines), *rest])


def _parameters(parameters: list[click.Parameter]) -> str:
    rows, notes = [], []
    for one in sorted(parameters, key=lambda parameter: isinstance(parameter, click.Option)):
        if isinstance(one, click.Argument) and not (_default(one) or _variable(one)):
            continue
        first, *others = sentences(getattr(one, "help", None) or "Argument; see above.")
        while others and len(first) + len(others[0]) < _CELL:
            first = f"{first} {others.pop(0)}"
        rows.append((_spelled(one), _default(one), _variable(one), inline(first)))
        if others:
            notes.append(bullet(f"{_spelled(one)}: {inline(' '.join(others))}"))
    head = ["argument or option", "default", "variable", "meaning"]
    kept = [0, *(at for at in (1, 2) if any(row[at] for row in rows)), 3]
    shown = table([head[at] for at in kept], [[row[at] for at in kept] for row in rows])
    return "\n\n".join(filter(None, [shown, "\n".join(notes)]))


def _spelled(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option):
        names = ", ".join(f"`{one}`" for one in (*parameter.opts, *parameter.secondary_opts))
        takes_value = not (parameter.is_flag or parameter.count)
        return f"{names} `{_metavar(parameter)}`" if takes_value else names
    return f"`{_metavar(parameter)}`"


def _metavar(parameter: click.Parameter) -> str:
    context = click.Context(click.Command("x"))
    return parameter.make_metavar(context).strip("[]").removesuffix(" RANGE")


def _default(parameter: click.Parameter) -> str:
    flag = isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count)
    default = parameter.default
    if flag or default is None or not isinstance(default, str | int | float):
        return ""
    return f"`{default}`"


def _variable(parameter: click.Parameter) -> str:
    variables = parameter.envvar or ()
    names = [variables] if isinstance(variables, str) else variables
    return ", ".join(f"`{one}`" for one in names)
