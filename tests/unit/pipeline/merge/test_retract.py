"""What is taken back from one entity, case by case."""

from typing import Any

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.pipeline.merge.applied import applied_key
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.merge.retract import retract_entity, whole_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from support.fakes import model_urn
from support.merging import HOME, US, WRITER, Shelf

VERSION = {
    "versionSet": "urn:li:versionSet:(a,b)",
    "version": {"versionTag": "1"},
    "sortId": "0001",
}


def retract(shelf: Shelf) -> MergedEntity:
    return shelf.write(retract_entity(whole_entity(shelf.urn), shelf.stored(), writer=US))


def ingested(**aspects: Aspect) -> Shelf:
    shelf = Shelf()
    shelf.ingest(
        {HOME: {"name": "a", "customProperties": {"k": "v", "mlcat.source": "s"}}} | aspects
    )
    return shelf


def test_an_entity_that_is_all_ours_is_removed() -> None:
    shelf = ingested(globalTags={"tags": [{"tag": "t"}]})
    merged = retract(shelf)
    assert merged.change == "removed"
    assert shelf.aspects == {
        HOME: {"customProperties": {}},
        "globalTags": {"tags": []},
        "status": {"removed": True},
    }
    assert merged.proposals[-1].aspect_name == HOME
    assert all(one.headers for one in merged.proposals)
    assert retract(shelf).proposals == ()


def test_what_the_service_makes_by_itself_does_not_keep_an_entity() -> None:
    shelf = ingested()
    shelf.put("mlModelKey", {"name": "r1"})
    shelf.put("status", {"removed": False})
    shelf.put("browsePathsV2", {"path": [{"id": "mlflow"}]})
    shelf.put("testResults", {"failing": [{"test": "t"}]})
    shelf.put("ownership", {"owners": [], "lastModified": {"time": 0}})
    shelf.put("glossaryTerms", {"terms": [], "auditStamp": {"time": 0}})
    shelf.put("editableMlModelProperties", {"created": {"time": 0}})
    assert retract(shelf).change == "removed"


def test_what_the_service_computes_of_ours_does_not_keep_an_entity() -> None:
    shelf = ingested(
        ownership={"owners": [{"owner": "urn:li:corpuser:ada", "type": "DATAOWNER"}]},
        domains={"domains": ["urn:li:domain:sales"]},
    )
    assert "ownerTypes" in shelf.aspects["ownership"]
    assert retract(shelf).change == "removed"
    # A stale index beside an empty list is stored as it was sent.
    stale = ingested()
    stale.aspects["ownership"] = {"owners": [], "ownerTypes": {"t": ["urn:li:corpuser:ada"]}}
    assert retract(stale).change == "removed"


def test_anything_of_others_keeps_an_entity() -> None:
    shelf = ingested()
    shelf.put("editableMlModelProperties", {"description": "theirs"})
    assert retract(shelf).change == "updated"
    assert "status" not in shelf.aspects


def test_another_writer_keeps_an_entity_and_its_sources() -> None:
    shelf = ingested()
    shelf.ingest({HOME: {}}, MergeRules(Writer("other")))
    assert retract(shelf).change == "updated"
    assert shelf.aspects == {
        HOME: {"customProperties": {"mlcat.source": "s", "mlcat.applied.other": "2:"}}
    }


def test_only_the_aspects_that_an_entity_names_are_taken_back() -> None:
    shelf = ingested(globalTags={"tags": [{"tag": "t"}]}, domains={"domains": ["d"]})
    shelf.put("editableMlModelProperties", {"description": "theirs"})
    base = shelf.base()
    named = Entity(shelf.urn, {"globalTags": {}, "editableMlModelProperties": {}})
    merged = shelf.write(retract_entity(named, shelf.stored(), writer=US))
    assert [one.aspect_name for one in merged.proposals] == ["globalTags", HOME]
    assert merged.change == "updated"
    assert shelf.aspects["globalTags"] == {"tags": []}
    assert shelf.field("name") == "a"
    assert shelf.custom() == {"k": "v", "mlcat.source": "s"}
    assert shelf.base() == {name: base[name] for name in ("domains", HOME)}
    nothing = retract_entity(named, shelf.stored(), writer=US)
    assert (nothing.change, nothing.proposals) == ("unchanged", ())


def test_an_aspect_that_somebody_deleted_is_not_asked_for() -> None:
    shelf = ingested(globalTags={"tags": [{"tag": "t"}]})
    del shelf.aspects["globalTags"]
    assert retract(shelf).change == "removed"


def test_a_value_goes_only_if_it_is_still_what_we_wrote() -> None:
    shelf = ingested()
    shelf.put(HOME, {**shelf.aspects[HOME], "name": "theirs now"})
    assert retract(shelf).change == "updated"
    assert shelf.aspects[HOME] == {"name": "theirs now", "customProperties": {}}


def test_what_another_recipe_says_too_stays() -> None:
    shelf = ingested()
    other = MergeRules(Writer("other"))
    shelf.ingest({HOME: {"name": "a", "customProperties": {"k": "v"}}}, other)
    retract(shelf)
    custom = dict(shelf.aspects[HOME]["customProperties"])
    assert shelf.aspects[HOME]["name"] == "a"
    assert custom["k"] == "v"
    assert applied_key(WRITER) not in custom


def test_an_aspect_that_needs_what_is_ours_goes_whole_or_stays_whole() -> None:
    ours = ingested(versionProperties=VERSION)
    merged = retract(ours)
    assert "versionProperties" not in ours.aspects
    assert merged.kept_aspects == ()
    shared = ingested(versionProperties=VERSION)
    shared.edit("versionProperties", comment="theirs")
    merged = retract(shared)
    assert merged.kept_aspects == ("versionProperties",)
    assert shared.aspects["versionProperties"] == {**VERSION, "comment": "theirs"}
    assert applied_key(WRITER) not in shared.aspects[HOME]["customProperties"]
    assert "status" not in shared.aspects


def test_an_entity_that_is_removed_already_is_not_removed_again() -> None:
    shelf = ingested()
    shelf.put("status", {"removed": True})
    assert retract(shelf).change == "updated"


def test_without_a_base_of_ours_nothing_goes() -> None:
    shelf = ingested()
    shelf.strip()
    before = dict(shelf.aspects)
    assert retract(shelf).proposals == ()
    assert shelf.aspects == before
    assert retract(Shelf()).proposals == ()
    assert retract_entity(whole_entity(shelf.urn), None, writer=US).change == "unchanged"
    other = {"globalTags": StoredAspect({"tags": []})}
    for urn in ("urn:li:tag:t", shelf.urn):
        merged = retract_entity(whole_entity(urn), other, writer=US)
        assert (merged.change, merged.proposals, merged.stored) == ("unchanged", (), other)


def test_a_base_that_nobody_can_read_goes_alone() -> None:
    shelf = ingested()
    custom: dict[str, Any] = {**shelf.aspects[HOME]["customProperties"], applied_key(WRITER): "9 x"}
    shelf.edit(HOME, customProperties=custom)
    retract(shelf)
    assert shelf.aspects == {HOME: {"name": "a", "customProperties": {"k": "v"}}}


def test_every_aspect_that_can_be_read_in_a_batch_is_named() -> None:
    names = whole_entity(model_urn("a")).aspects
    assert {"mlModelKey", "status", HOME, "editableMlModelProperties", "structuredProperties"} <= (
        names.keys()
    )
    assert whole_entity("urn:li:unheardOf:x").aspects == {}
    assert "operation" not in whole_entity("urn:li:dataset:(urn:li:dataPlatform:x,a,PROD)").aspects


def test_a_base_that_somebody_dropped_is_the_remembered_one() -> None:
    shelf = ingested(globalTags={"tags": [{"tag": "t"}]})
    text = shelf.field("customProperties")["mlcat.applied.prod"]
    shelf.put(HOME, {"name": "theirs", "customProperties": {"their": "key"}})
    assert retract(shelf).proposals == ()
    asked: list[str] = []

    def remembered(urn: str) -> str:
        asked.append(urn)
        return str(text)

    entity = whole_entity(shelf.urn)
    shelf.write(retract_entity(entity, shelf.stored(), writer=US, remembered=remembered))
    assert shelf.aspects["globalTags"] == {"tags": []}
    assert shelf.aspects[HOME] == {"name": "theirs", "customProperties": {"their": "key"}}
    assert asked == [shelf.urn]
