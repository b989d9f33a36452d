"""Walks a page of the documentation: runs its commands in order, and compares what they print.

How a page is read:

- A `sh` block is run by bash, in the folder and with the variables that the one before it left. A
  `python` block is run too.
- The `text` block after it is what the terminal shows. Without one, nothing may be printed. A line
  `…` stands for any number of lines, and `MASKS` says which words may be others.
- A block of any language under a sentence that ends with the name of a file, as in "Save as
  `train.py`:", becomes that file.
- `<!-- walk: terminal -->` above a `sh` block: a new terminal, whose command runs until the end of
  the walk. The walk goes on when all lines of its `text` block are there.
- `<!-- walk: status 1 -->` above a block: its last command ends with that status.
- An address in angle brackets is opened until the page there shows all that the paragraph has in
  bold.

The machine is that of `support.fake_machine`.
"""

import os
import re
import signal
import subprocess
import textwrap
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from types import MappingProxyType
from typing import Final

from support.fake_machine import USER, environment, make_machine
from support.page_blocks import ANYTHING, Block, blocks_of, difference, matches, updated
from support.venvs import OURS, REPOSITORY, Venv

TIMEOUT_S = 120
STOP_S = 10
VENVS: Final = MappingProxyType({".venv": OURS})
_ADDRESS = re.compile(r"<(http://[^>]+)>")
_BOLD = re.compile(r"\*\*(.+?)\*\*")


def walk(
    page: Path,
    home: Path,
    replaced: Mapping[str, str],
    *,
    venvs: Mapping[str, Venv] = VENVS,
    env: Mapping[str, str] = MappingProxyType({}),
    update: bool = False,
) -> None:
    """Walk a page from a clone of the repository, with an empty home folder.

    Args:
        replaced: What stands for something else where the page is walked, such as a port.
        env: Variables of the first terminal, which the page does not show.
        venvs: The environments that the page makes, by the names of their folders.
        update: Write what was printed into the page, where it says something else.
    """
    content = page.read_text()
    with walker(home, replaced, venvs=venvs, env=env) as walking:
        outputs = walking.run(blocks_of(content), compare=not update)
    if update:
        page.write_text(with_outputs(content, outputs))


def with_outputs(content: str, outputs: Sequence[tuple[Block, str]]) -> str:
    """Return a page with what was printed in the place of its `text` blocks."""
    for block, printed in reversed(outputs):
        shown = textwrap.indent(updated(block.text, printed), block.indent)
        content = content[: block.start] + shown + content[block.end :]
    return content


@contextmanager
def walker(
    home: Path,
    replaced: Mapping[str, str],
    *,
    venvs: Mapping[str, Venv] = VENVS,
    start: Path = REPOSITORY,
    env: Mapping[str, str] = MappingProxyType({}),
) -> Iterator["Walker"]:
    """Give what runs blocks one after the other, and end its terminals at the block's end."""
    machine = home / ".walk"
    make_machine(machine, venvs)
    places = {**replaced, f"/home/{USER}": str(home)}
    walking = Walker(home, places, start, environment(machine, home, env))
    try:
        yield walking
    finally:
        for terminal in reversed(walking.terminals):
            terminal.stop()


@dataclass
class Walker:
    """Runs blocks in one terminal, whose folder and variables stay from one to the next."""

    home: Path
    replaced: Mapping[str, str]
    folder: Path
    env: Mapping[str, str]
    terminals: list["Terminal"] = field(default_factory=list)

    def run(self, blocks: Sequence[Block], *, compare: bool = True) -> list[tuple[Block, str]]:
        """Run blocks; return each `text` block among them with what was printed in its place."""
        found: list[tuple[Block, str]] = []
        printed: str | None = None
        for at, block in enumerate(blocks):
            self._open_addresses(block.above)
            if block.language == "text" and printed is not None:
                assert not compare or matches(block.text, printed), difference(block.text, printed)
                found.append((block, printed))
                printed = None
                continue
            if block.file is not None:
                self._save(block.file, block.text)
            elif block.language in {"sh", "python"}:
                assert not printed, f"the page does not show what this printed:\n{printed}"
                following = blocks[at + 1].text if blocks[at + 1 :] else ""
                printed = self._run(block, following)
        assert not printed, f"the page does not show what this printed:\n{printed}"
        return found

    def _run(self, block: Block, following: str) -> str:
        if block.mark == "terminal":
            terminal = Terminal(self._there(block.text), self.home, self.env)
            self.terminals.append(terminal)
            terminal.until(lambda shown: matches(f"{following}{ANYTHING}\n", self._back(shown)))
            return following
        command = self._there(block.text)
        if block.language == "python":
            command = f"python - <<'END-OF-BLOCK'\n{command}END-OF-BLOCK\n"
        kept = self.home / ".walk" / "environment"
        where = self.home / ".walk" / "folder"
        before = f". {kept}\n" if kept.exists() else ""
        after = f"\nexport -p >{kept}\npwd >{where}\n"
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", f"{before}{command}{after}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env=dict(self.env),
            timeout=TIMEOUT_S,
            check=False,
        )
        expected = int(block.mark.removeprefix("status ") or 0)
        assert done.returncode == expected, f"{command}\n{done.returncode}\n{done.stdout}"
        if not expected:
            self.folder = Path(where.read_text().rstrip("\n"))
        return self._back(done.stdout)

    def _save(self, name: str, text: str) -> None:
        path = self.folder / name
        assert path.is_relative_to(self.home), f"{path} is not in the folder of the walk"
        path.write_text(self._there(text))

    def _open_addresses(self, prose: str) -> None:
        for paragraph in prose.split("\n\n"):
            wanted = ["".join(words.split()) for words in _BOLD.findall(paragraph)]
            for address in _ADDRESS.findall(paragraph):
                deadline = time.monotonic() + TIMEOUT_S
                while missing := [one for one in wanted if one not in self._words_of(address)]:
                    assert time.monotonic() < deadline, f"{missing} not on {address}"
                    time.sleep(0.5)

    def _words_of(self, address: str) -> str:
        with urllib.request.urlopen(self._there(address), timeout=TIMEOUT_S) as answer:
            return _Words(answer.read().decode()).text

    def _there(self, text: str) -> str:
        for shown, real in self.replaced.items():
            text = _with_word(text, shown, real)
        return text

    def _back(self, text: str) -> str:
        for shown, real in self.replaced.items():
            text = _with_word(text, real, shown)
        return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _with_word(text: str, old: str, new: str) -> str:
    return re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", lambda _: new, text)


class Terminal:
    """A terminal whose command goes on: a process group, and what it has printed."""

    def __init__(self, command: str, home: Path, env: Mapping[str, str]) -> None:
        self._log = home / ".walk" / f"terminal-{time.monotonic_ns()}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-ec", command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=home,
                env=dict(env),
                start_new_session=True,
            )

    def until(self, enough: Callable[[str], bool]) -> None:
        """Wait until what it has printed is enough."""
        deadline = time.monotonic() + TIMEOUT_S
        while not enough(shown := self._log.read_text(errors="replace")):
            assert self._process.poll() is None, f"it ended:\n{shown}"
            assert time.monotonic() < deadline, f"not in {TIMEOUT_S} s:\n{shown}"
            time.sleep(0.1)

    def stop(self) -> None:
        """Press Ctrl-C, and end what goes on nevertheless."""
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, sign)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
                return

    @property
    def ended(self) -> bool:
        return self._process.returncode is not None


class _Words(HTMLParser):
    """The text of a page, without the spaces that a browser adds or leaves out."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._words: list[str] = []
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self._words.append(data)

    @property
    def text(self) -> str:
        return "".join("".join(self._words).split())
