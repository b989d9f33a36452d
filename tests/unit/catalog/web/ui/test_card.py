"""The tab of the card: missing parts first, each line with its source and its writer."""

import pytest

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui import card
from support.catalog_store import group, model, put, statements
from support.names import HOSTILE
from support.pages import at, get, page

URN = model("m_1")
TAB = "?tab=card"


def test_what_is_missing_comes_first_and_each_line_names_its_writer(store: Store) -> None:
    run = put(store, model("r"), mlModelProperties={"type": "forest"})
    properties = {"name": "m", "customProperties": {"mlflow.run_model": run}}
    store.write([Write(URN, "mlModelProperties", properties)])
    use = Write(URN, "intendedUse", {"primaryUses": ["Rank leads"]})
    store.write([use], "urn:li:corpuser:ada")
    found = page(store, at(URN, TAB))
    text = found.text
    assert text.index("Missing") < text.index("Risks and harms") < text.index("Identity")
    assert "Use Rank leads intendedUse.primaryUses , version 1 user ada" in text
    assert found.links[at(run)] == "mlModelProperties.type"


def test_texts_are_shown_as_they_are(store: Store) -> None:
    for name in HOSTILE:
        put(store, URN, intendedUse={"primaryUses": [name]}, mlModelProperties={"name": name})
        assert get(store, at(URN, TAB)).status == 200


def test_only_models_have_a_card_and_versions_cost_nothing(store: Store) -> None:
    put(store, group("g"), mlModelGroupProperties={"name": "g"})
    assert at(group("g"), TAB) not in page(store, at(group("g"))).links
    put(store, URN, mlModelProperties={"name": "m"})
    with statements(store) as few:
        get(store, at(URN, TAB))
    for number in range(120):
        put(store, URN, mlModelProperties={"name": str(number)})
    with statements(store) as many:
        get(store, at(URN, TAB))
    assert len(many) == len(few)


def test_an_aspect_is_shown_however_often_another_one_changed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card, "_MOST", 110)
    put(store, URN, mlModelProperties={"name": "m"}, intendedUse={"primaryUses": ["Rank leads"]})
    for number in range(120):
        put(store, URN, mlModelProperties={"name": "m", "type": str(number)})
    found = page(store, at(URN, TAB)).text
    assert "Use Rank leads intendedUse.primaryUses , version 1" in found
    # The value came before the versions that are read; the changes of the newest 100 are shown.
    assert "Name m mlModelProperties.name , version 12 not known: before the oldest" in found
    assert found.count("mlModelProperties , version ") == 100


def test_old_versions_of_a_large_aspect_are_not_read(store: Store) -> None:
    for number in range(5):
        put(store, URN, mlModelProperties={"name": "m", "description": f"{number}" * 2_000_000})
    text = page(store, at(URN, TAB)).text
    assert "Name m mlModelProperties.name , version 3 not known: before the oldest" in text


@pytest.mark.parametrize("number", [1, 6])
def test_versions_beyond_those_that_are_read_are_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(card, "_MOST", 3)
    for at_ in range(1, 7):
        version = {"versionSet": "urn:li:versionSet:(m,mlModel)", "sortId": str(at_)}
        created = {"created": {"time": at_}, "name": f"m{at_}"}
        put(store, model(f"m_{at_}"), mlModelProperties=created,
            versionProperties={**version, "version": {"versionTag": str(at_)}})  # fmt: skip
    made = card.card_of(store, model(f"m_{number}"))
    listed = [line.value for line in made.lines if line.label == "Other version"]
    assert listed == (["6", "5", "4"] if number == 1 else ["5", "4"])
    assert made.unknown == (f"{5 - len(listed)} older versions of the registered model",)
