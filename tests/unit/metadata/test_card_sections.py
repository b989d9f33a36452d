"""Model cards: which sections are read, and the aspects that they fill."""

import re
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.metadata.card_sections import (
    EMPTY_CARD,
    HEADINGS,
    card_aspects,
    card_texts,
    sections_of,
    with_card_texts,
)
from mlcat_ingest.metadata.validate import validate_aspect

# As Hugging Face's template has it, filled in part.
CARD = """\
---
license: mit
intended_use: [Rank customers]
users:
  - enterprise
  - data scientists
tags: [1, 2]
---
# Churn

Not read. <!-- ## Uses
hidden --> Not read either.

## Uses
<!-- Address questions around how the model is intended to be used. -->

### Direct Use [optional]
Rank customers by their
risk of leaving.

- weekly
  mails
1. call lists

### Out-of-Scope Use

[More Information Needed]

## Bias, Risks, and Limitations ##
Older people are rare:
```
# not a heading
```
### Recommendations

Check weekly.

Ask first.

## Limitations
Trained on 2024.
## Groups not represented
* pensioners
* pensioners
## Factors
age
"""


def filled(text: str) -> dict[str, dict[str, Any]]:
    """Return what a card says, without the fields that it does not fill."""
    aspects = card_aspects(sections_of(text)).aspects
    by_name = {name: {k: v for k, v in fields.items() if v} for name, fields in aspects.items()}
    return {name: fields for name, fields in by_name.items() if fields}


def test_the_sections_of_a_card_fill_the_fields_of_its_aspects() -> None:
    card = card_aspects(sections_of(CARD))
    assert filled(CARD) == {
        "intendedUse": {
            "primaryUses": [
                "Rank customers",
                "Rank customers by their risk of leaving.",
                "weekly mails",
                "call lists",
            ],
            "primaryUsers": ["ENTERPRISE"],
        },
        "mlModelFactorPrompts": {"relevantFactors": [{"groups": ["age"]}]},
        "mlModelEthicalConsiderations": {
            "risksAndHarms": ["Older people are rare: ``` # not a heading ```"]
        },
        "mlModelCaveatsAndRecommendations": {
            "caveats": {
                "caveatDescription": "Trained on 2024.",
                "groupsNotRepresented": ["pensioners"],
            },
            "recommendations": "Check weekly.\n\nAsk first.",
        },
    }
    assert card.unfit == {"users": ["data scientists"]}
    assert {name: aspect.keys() for name, aspect in card.aspects.items()} == {
        name: aspect.keys() for name, aspect in EMPTY_CARD.items()
    }, "complete, so that what a card drops is taken back"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# Uses",
        "---\n: [\n---\n",
        "---\n- a\n---\n",
        "---\nuses: 1\n1: uses\n---",
        "#Uses\ntext",
        "<!-- # Uses\ntext",
        "~~~\n# Uses\n~~~\n",
        "# Uses\n[more information needed]\n",
    ],
)
def test_a_card_that_says_nothing_is_empty(text: str) -> None:
    assert card_aspects(sections_of(text)).aspects == EMPTY_CARD


def test_each_group_stays_in_its_entry() -> None:
    name, field = "mlModelFactorPrompts", "relevantFactors"
    one = {"groups": ["old  age", "sex"], "instrumentation": ["cam A"]}
    two = {"groups": ["sex", "skin"], "instrumentation": ["cam B"]}
    value = {field: [one, two]}
    unchanged = {field: card_texts(name, value)[field]}
    assert with_card_texts(name, value, unchanged) == value
    assert with_card_texts(name, value, {field: "sex\nnew\nold age\nskin"}) == {
        field: [
            {**one, "groups": ["sex", "new", "old  age"]},
            {**two, "groups": ["sex", "skin"]},
        ]
    }
    assert with_card_texts(name, value, {field: "skin"}) == {
        field: [{**one, "groups": []}, {**two, "groups": ["skin"]}]
    }


@pytest.mark.parametrize("heading", HEADINGS)
def test_each_heading_fills_a_field_of_its_aspect(heading: str) -> None:
    ((name, aspect),) = filled(f"# {heading.title()}\nhobby\n").items()
    assert "hobby" in str(aspect).casefold()
    assert validate_aspect("mlModel", name, aspect) == []


def test_a_card_takes_time_in_proportion_to_its_length() -> None:
    for part in ("<!--", "# ", "- ", "```\n", "#" * 7, "[", "---\n"):
        sections_of(part * 250_000 + "x")


def test_the_documentation_lists_the_headings() -> None:
    page = Path(__file__).parents[3] / "docs/reference/mlflow-objects.md"
    rows = page.read_text().partition("## Model cards")[2].partition("\n- ")[0].splitlines()
    cells = [row.split("|")[2] for row in rows if row.startswith("| `")]
    assert [text.strip() for cell in cells for text in re.split("[,;]", cell)] == list(HEADINGS)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_front_matter_is_read_whatever_ends_its_lines(end: str) -> None:
    card = end.join(["---", "risks: Bias.", "---", "# Uses", "Churn.", ""])
    sections = {heading: list(entries) for heading, entries in sections_of(card).items() if entries}
    assert sections == {"risks": ["Bias."], "Uses": ["Churn."]}
