"""What walks a page of the documentation finds what is wrong with the page."""

from pathlib import Path

import pytest

from support.page_blocks import blocks_of, matches, updated
from support.walk import Walker, walker

pytestmark = pytest.mark.process


def walk(page: str, home: Path) -> Walker:
    home.mkdir(exist_ok=True)
    with walker(home, {"5000": "5123"}, start=home) as walking:
        walking.run(blocks_of(page))
    return walking


def test_folder_variables_and_files_stay_from_block_to_block(tmp_path: Path) -> None:
    page = """
```sh
mkdir inner
cd inner
export PORT=5000
```

Save as `words.txt`:

```yaml
port 5000
```

In a list:

   ```sh
   cat words.txt
   echo $PORT in ~
   ```

   ```text
   port 5000
   5000 in /home/you
   ```
"""
    assert walk(page, tmp_path).folder == tmp_path / "inner"
    assert (tmp_path / "inner" / "words.txt").read_text() == "port 5123\n"


def test_python_runs_too_and_prints(tmp_path: Path) -> None:
    walk("```python\nprint(7)\n```\n```text\n7\n```\n", tmp_path)


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("```sh\necho a\n```\n```text\nb\n```\n", "-b\n+a"),
        ("```sh\necho a\n```\n", "does not show"),
        ("```sh\necho a\n```\n```sh\ntrue\n```\n", "does not show"),
        ("```sh\nfalse\n```\n", "false"),
        ("<!-- walk: status 3 -->\n```sh\ntrue\n```\n", "true"),
        ("<!-- walk: terminal -->\n```sh\necho a\n```\n```text\nb\n```\n", "it ended"),
        ("```sh\nmlcat-ingest --version\n```\n", "not found"),
        ("```sh\npip install requests\n```\n", "no environment"),
    ],
)
def test_a_page_that_is_wrong_fails(page: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=reason.replace("+", r"\+")):
        walk(page, tmp_path)


def test_a_terminal_goes_on_until_the_end(tmp_path: Path) -> None:
    page = """
<!-- walk: terminal -->
```sh
echo ready
sleep 600 & echo $! >pid; wait
```

```text
ready
```

```sh
sleep 0.5; kill -0 $(cat pid)
```
"""
    walking = walk(page, tmp_path)
    assert [one.ended for one in walking.terminals] == [True]


INSTALL = """
```sh
python3 -m venv .venv
. .venv/bin/activate
pip install -q {}
mlcat-ingest --version >version
```
"""


def test_an_installation_is_one_of_what_is_there(tmp_path: Path) -> None:
    repository = Path(__file__).parents[2]
    walk(INSTALL.format(f"'{repository}[catalog]' requests"), tmp_path / "good")
    for wrong in (f"'{repository}[catalogue]'", "'requests<2'"):
        with pytest.raises(AssertionError, match="pip install"):
            walk(INSTALL.format(wrong), tmp_path / str(len(wrong)))


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a\n…\n", "a\n", True),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n…\nd\n", "a\nb\nc\n", False),
        ("…\n", "x\ny\n", True),
        ("a.c\n", "abc\n", False),
        ("after 3.1 s, at 19:16:01\n", "after 40 ms, at 00:00:00\n", True),
        ("on 2026-11-23T19:16:01.110Z\n", "on 2027-01-02T00:00:00.1Z\n", True),
        ("run 8db4575d69dd4dc99b242cdd148e1bff\n", "run ec04619e00244524891c7d60eafe901d\n", True),
        ("3 models\n", "4 models\n", False),
    ],
)
def test_what_a_block_matches(expected: str, printed: str, *, same: bool) -> None:
    assert matches(expected, printed) is same


@pytest.mark.parametrize(
    ("expected", "printed", "page"),
    [
        ("a\n", "b\nc\n", "b\nc\n"),
        ("after 1 s\n", "after 2 s\n", "after 1 s\n"),
        ("a\n…\nz\n", "b\n1\n2\nz\n", "b\n…\nz\n"),
        ("a\n…\nx\ny\n…\nz\n", "a\n1\nx\nw\n2\nz\n", "a\n…\nx\nw\n…\nz\n"),
        ("…\nlast\n", "1\n2\nend\n", "…\nend\n"),
    ],
)
def test_an_update_leaves_out_what_the_page_left_out(
    expected: str, printed: str, page: str
) -> None:
    assert updated(expected, printed) == page
    assert matches(page, printed)
