"""`testing.md` names what `mlcat_ingest.testing` has: its modules, rules and arguments."""

import re
from pathlib import Path
from typing import Any

from mlcat_ingest.testing.conformance import Rule
from support.model_registry import RegistrySource, filled

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "testing.md").read_text()


def test_the_rules_are_those_of_the_suite() -> None:
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| (.*) \|$", PAGE, re.MULTILINE))
    assert rows == {rule.name: rule.value for rule in Rule}


def test_a_recorded_run_is_as_on_the_page() -> None:
    (code,) = [
        one for one in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "report" in one
    ]
    names: dict[str, Any] = {"source": RegistrySource(filled())}
    exec(code, names)  # noqa: S102  # it is ours
    assert len(names["catalog"].stored) == 10
