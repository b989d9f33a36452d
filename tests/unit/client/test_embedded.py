import os
import signal
import sys

import pytest

from mlcat_ingest.client.child import CatalogChild
from mlcat_ingest.errors import CatalogUnavailableError, RecipeError

pytestmark = pytest.mark.process

READ = "import json, sys; order = json.loads(sys.stdin.readline());"
READY = READ + "print(json.dumps({'url': order['database'], 'pid': 1}), flush=True);"


@pytest.fixture(autouse=True)
def _not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start no coverage in the stand-ins: none of our code runs in them, and some are killed.

    Who is killed while it writes its coverage leaves half a file, which is then warned about.
    """
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)


def started(code: str, start_s: float = 60) -> CatalogChild:
    command = (sys.executable, "-c", code)
    return CatalogChild.start("http://x", "tok", command=command, start_s=start_s)


def test_a_child_lives_until_its_input_ends() -> None:
    child = started(READY + "sys.stdin.read()")
    assert child.url == "http://x"
    assert child.exit_reason() is None
    child.stop()
    assert child.exit_reason() == "the embedded catalog ended with exit code 0"
    child.stop()


def test_the_token_is_in_the_order_only() -> None:
    code = (
        "import os;" + READ + "told = order['token'] + str(sys.argv) + str('tok' in os.environ);"
        "print(json.dumps({'url': told}), flush=True)"
    )
    child = started(code)
    child.stop()
    assert child.url == "tok['-c']False"


@pytest.mark.parametrize("word", ["''", "'no json'", "'[1]'", "'{\"url\": 5}'"])
def test_a_child_without_an_address_did_not_start(word: str) -> None:
    with pytest.raises(CatalogUnavailableError, match="did not start: why; so"):
        started(READ + f"print('why\\n\\nso', file=sys.stderr, flush=True); print({word})")


def test_a_child_that_ends_at_once_did_not_start() -> None:
    with pytest.raises(CatalogUnavailableError, match=r"did not start$"):
        started("import os; os._exit(3)")


def test_a_child_that_reads_nothing_did_not_start() -> None:
    command = (sys.executable, "-c", "import os; os.close(0); os._exit(0)")
    with pytest.raises(CatalogUnavailableError, match="did not start"):
        CatalogChild.start("x" * 1_000_000, "tok", command=command)


def test_a_child_that_does_not_answer_is_given_up() -> None:
    with pytest.raises(CatalogUnavailableError, match="did not start"):
        started("import time; time.sleep(600)", start_s=0.2)


def test_a_refusal_is_the_users_to_mend() -> None:
    with pytest.raises(RecipeError, match="taken") as caught:
        started(READ + "print(json.dumps({'error': 'taken', 'hint': 'use that'}))")
    assert caught.value.hint == "use that"


def test_the_last_words_of_a_dead_child_are_reported() -> None:
    code = READY + "print('\\n'.join(map(str, range(9))), file=sys.stderr); sys.exit(4)"
    child = started(code)
    assert child.exit_reason(30) == "the embedded catalog ended with exit code 4: 4; 5; 6; 7; 8"
    child.stop()


def test_a_killed_child_is_reported() -> None:
    child = started(READY + "sys.stdin.read()")
    os.kill(child._process.pid, signal.SIGKILL)
    assert child.exit_reason(30) == "the embedded catalog ended with signal 9"
    child.stop()


def test_a_child_that_will_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcat_ingest.client.child._STOP_S", 0.05)
    child = started(READY + "import time; time.sleep(600)")
    child.stop()
    assert child.exit_reason() == "the embedded catalog ended with signal 9"
