"""Files of runs that say something of features: which are asked for, and what becomes of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from mlcat_ingest.errors import NotAuthorizedError, SourceUnavailableError
from mlcat_ingest.links.rules import Evidence, LinkOptions, UnlinkedModel
from mlcat_ingest.sources.mlflow.mapping import map_record
from mlcat_ingest.sources.mlflow.read.reader import MAX_BYTES, FileLocation, local_text
from mlcat_ingest.sources.mlflow.select.models import ModelFiles
from mlcat_ingest.sources.mlflow.values.joined import JoinedRun, JoinedVersion, RunFiles
from mlcat_ingest.sources.mlflow.values.records import LoggedModel, ModelOutput, ModelVersion
from support.feast_runs import recorded
from support.mlflow_records import a_run, a_scope, an_experiment

HISTORY = "mlflow.log-model.history"
SPEC = "data/feature_store/feature_spec.yaml"
LOADER = "databricks.feature_store.mlflow_model"


@dataclass
class Files:
    """Holds files by the id of their run or model, and their path."""

    texts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    error: Exception | None = None
    asked: list[str] = field(default_factory=list)

    def text_of(self, place: FileLocation, path: str) -> str | None:
        self.asked.append(path)
        if self.error is not None:
            raise self.error
        return self.texts.get((place.id, path))


def joined(
    tags: Mapping[str, str], *models: LoggedModel, links: LinkOptions | None = None
) -> JoinedRun:
    outputs = tuple(ModelOutput(model.model_id) for model in models)
    return JoinedRun(
        a_scope(options={"links": links or LinkOptions()}),
        a_run("r", tags=tags, model_outputs=outputs),
        an_experiment(),
        models={model.model_id: model for model in models},
    )


def a_model(model_id: str, artifact_uri: str = "s3://models") -> LoggedModel:
    return LoggedModel(model_id, "1", "model", "READY", artifact_uri=artifact_uri)


def evidence(record: JoinedRun) -> Evidence | None:
    (model,) = map_record(record)
    return model.evidence if isinstance(model, UnlinkedModel) else None


def history(path: object, loader: object) -> dict[str, str]:
    flavors = {"python_function": {"loader_module": loader}}
    return {HISTORY: json.dumps([{"artifact_path": path, "flavors": flavors}])}


@pytest.mark.parametrize(
    "tags",
    [
        {},
        recorded("guessed_service")["tags"],
        recorded("online")["tags"],
        recorded("apply_rides")["tags"],
        history("model", "mlflow.sklearn"),
        history(None, LOADER),
        history("model", 5),
        history("model", "databricks.automl"),
        history("model", "team.feature_store.mlflow_model"),
    ],
)
def test_an_ordinary_run_costs_nothing(tags: dict[str, str]) -> None:
    files = Files()
    record = joined(tags)
    assert ModelFiles(files).with_files(record) is record
    assert files.asked == []


def test_where_links_are_switched_off_only_the_documents_of_models_are_read() -> None:
    files, record = Files(), joined(recorded("cut")["tags"])
    off = JoinedRun(a_scope(), record.run, record.experiment)
    assert ModelFiles(files, model_files=True).with_files(off) is off
    record = joined({}, a_model("m1"))
    files = Files({("m1", "MLmodel"): mlmodel("a", loader=LOADER)})
    off = JoinedRun(a_scope(), record.run, record.experiment, models=record.models)
    found = ModelFiles(files, model_files=True).with_files(off)
    assert found.files.documents["m1"].input_names == {"a"}
    assert files.asked == ["MLmodel"]


def test_cut_references_are_looked_for_in_the_file_of_feast() -> None:
    files = Files({("r", "feast_features.json"): '["a:x"]'})
    found = ModelFiles(files).with_files(joined(recorded("cut")["tags"]))
    assert found.files == RunFiles(features_file='["a:x"]')
    assert files.asked == ["feast_features.json"]
    message = evidence(found)
    assert message is not None
    assert message.features_file == '["a:x"]'


def test_what_was_trained_before_features_were_asked_for_online_is_in_the_file_of_feast() -> None:
    files = Files()
    ModelFiles(files).with_files(joined(recorded("online")["tags"], a_model("m")))
    assert files.asked == ["feast_features.json"]


def test_the_spec_of_a_model_that_looks_features_up_is_read() -> None:
    files = Files({("r", f"model/{SPEC}"): "input_columns: []"})
    found = ModelFiles(files).with_files(joined(history("model", LOADER)))
    assert found.files.feature_specs == ("input_columns: []",)
    assert evidence(found) == Evidence(feature_specs=("input_columns: []",))


def mlmodel(*names: str, loader: str = "mlflow.sklearn") -> str:
    columns = json.dumps([{"name": name, "type": "double"} for name in names])
    flavors = {"python_function": {"loader_module": loader}}
    return json.dumps({"flavors": flavors, "signature": {"inputs": columns} if names else None})


def test_files_of_logged_models_are_read_if_asked_for() -> None:
    files = Files(
        {
            ("m1", "MLmodel"): mlmodel("acc_rate", loader=LOADER),
            ("m1", SPEC): "input_columns: []",
            ("m2", "MLmodel"): mlmodel("other"),
        }
    )
    record = joined(recorded("service")["tags"], a_model("m1"), a_model("m2"))
    unread = ModelFiles(files).with_files(record).files
    assert (unread.documents, unread.skipped) == ({}, "m1")
    found = ModelFiles(files, model_files=True).with_files(record)
    assert found.files.feature_specs == ("input_columns: []",)
    assert set(found.files.documents) == {"m1", "m2"}
    message = evidence(found)
    assert message is not None
    assert message.columns == frozenset({"acc_rate", "other"})


def test_a_model_that_looks_features_up_may_lack_its_spec() -> None:
    files = Files({("m1", "MLmodel"): mlmodel("a", loader=LOADER)})
    found = ModelFiles(files, model_files=True).with_files(joined({}, a_model("m1")))
    assert (found.files.feature_specs, files.asked) == ((), ["MLmodel", SPEC])


@pytest.mark.parametrize(
    ("model_id", "from_run", "documents", "asked"),
    [
        ("m1", True, {"m1", "m2"}, []),
        ("m1", False, {"m1"}, ["MLmodel"]),
        (None, True, {"m1", "m2"}, []),
        (None, False, set(), []),
    ],
    ids=["of its run", "without a run", "of a run alone", "of nothing"],
)
def test_a_version_has_the_documents_of_its_run_or_that_of_its_logged_model(
    model_id: str | None, *, from_run: bool, documents: set[str], asked: list[str]
) -> None:
    files = Files({(one, "MLmodel"): mlmodel("a") for one in ("m1", "m2")})
    reading = ModelFiles(files, model_files=True)
    run = reading.with_files(joined({}, a_model("m1"), a_model("m2")))
    files.asked.clear()
    version = JoinedVersion(
        run.scope,
        ModelVersion("net", "1"),
        model=a_model(model_id) if model_id else None,
        run=run if from_run else None,
    )
    assert reading.with_document(version).files.documents.keys() == documents
    assert files.asked == asked


def test_a_version_whose_document_is_not_asked_for_stays_as_it_is() -> None:
    version = JoinedVersion(a_scope(), ModelVersion("net", "1"), model=a_model("m1"))
    assert ModelFiles(Files()).with_document(version) is version


@pytest.mark.parametrize("text", [mlmodel(), "[", "- 1", "!!python/object/apply:os.abort []", None])
def test_a_model_without_a_signature_narrows_nothing(text: str | None) -> None:
    files = Files({("m1", "MLmodel"): mlmodel("a"), **({("m2", "MLmodel"): text} if text else {})})
    record = joined(recorded("service")["tags"], a_model("m1"), a_model("m2"))
    message = evidence(ModelFiles(files, model_files=True).with_files(record))
    assert message is not None
    assert message.columns is None


@pytest.mark.parametrize(
    "error", [SourceUnavailableError("the store is down"), NotAuthorizedError("not you")]
)
def test_files_that_cannot_be_read_leave_links_as_they_are(error: Exception) -> None:
    files = Files(error=error)
    reading = ModelFiles(files)
    tags = recorded("cut")["tags"]
    for _ in range(3):
        (model,) = map_record(reading.with_files(joined(tags)))
        assert "mlFeatures" not in model.aspects["mlModelProperties"]
        assert [(note.kind, note.detail) for note in model.notes] == [
            ("feature_file_unread", str(error))
        ]
    assert len(files.asked) == 1
    declared = reading.with_files(joined({**tags, "mlcat.features": "a.b:c"}))
    assert evidence(declared) == Evidence(declared="a.b:c")


@pytest.mark.parametrize(
    "address", ["s3://models/m2", "mlflow-artifacts:/1/models/m2/artifacts", "dbfs:/models/m2"]
)
def test_a_reading_notes_once_that_signatures_are_left_unread(address: str) -> None:
    reading = ModelFiles(Files())
    listed = replace(joined({}, a_model("m3")), listed_only=True)
    assert reading.with_files(listed) is listed, "it is mapped to no more than that it is there"
    local, remote = a_model("m1", "/a/m1"), a_model("m2", address)
    unread = [joined({}, local), joined({}, remote), joined({}, remote)]
    notes = [map_record(reading.with_files(one))[-1].notes for one in unread]
    assert [[note.kind for note in each] for each in notes] == [[], ["signature_not_read"], []]
    assert str(notes[1][0].detail).startswith("m2; `features.model_files: true`")
    (model,) = map_record(ModelFiles(Files(), model_files=True).with_files(joined({}, remote)))
    assert model.notes == ()


def test_only_files_below_the_folder_and_in_bounds_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "f").write_text("here")
    (folder / "large").write_bytes(b"x" * (MAX_BYTES + 1))
    (tmp_path / "secret").write_text("no")
    (folder / "link").symlink_to(tmp_path / "secret")
    for uri in (str(folder), f"file://{folder}"):
        place = FileLocation("run", "r", uri)
        assert local_text(place, "deep/f") == "here"
        for path in ("large", "deep", "gone", "../secret", "link", str(tmp_path / "secret")):
            assert local_text(place, path) is None
    for elsewhere in ("s3://b/k", "mlflow-artifacts:/1/r/artifacts", None):
        assert local_text(FileLocation("run", "r", elsewhere), "f") is None


def test_a_document_in_a_folder_of_this_machine_is_read_if_it_is_of_the_model(
    tmp_path: Path,
) -> None:
    (tmp_path / "MLmodel").write_text("model_id: m1\nmodel_size_bytes: 5\nflavors: {sklearn: {}}\n")
    files = Files()
    record = joined(
        {}, *(replace(a_model(one), artifact_uri=str(tmp_path)) for one in ("m1", "m2"))
    )
    found = ModelFiles(files).with_files(record).files.documents
    assert {key: (one.size_bytes, one.flavors) for key, one in found.items()} == {
        "m1": (5, ("sklearn",))
    }
    assert files.asked == []


CARD = "# Uses\nRank customers.\n"


def test_a_card_is_the_first_of_two_files_beside_each_model() -> None:
    files = Files(
        {
            ("m1", "README.md"): CARD,
            ("m2", "model_card.md"): "two",
            ("r", "net/README.md"): "of the run",
        }
    )
    history = {HISTORY: json.dumps([{"artifact_path": "net", "model_uuid": "old"}])}
    record = joined(history, *map(a_model, ("m1", "m2", "m3")))
    cards = {"models:/m1": CARD, "models:/m2": "two", "runs:/r/net": "of the run"}
    assert ModelFiles(files, model_cards=True).with_files(record).files.cards == cards
    assert "model/README.md" not in files.asked, "logged models have none in the run"
    assert ModelFiles(files).with_files(record).files.cards is None
    version = JoinedVersion(record.scope, ModelVersion("net", "1"), model=a_model("m1"))
    alone = ModelFiles(files, model_cards=True).with_document(version)
    assert alone.files.cards == {"models:/m1": CARD}
    assert map_record(alone)[-1].aspects["intendedUse"]["primaryUses"] == ["Rank customers."]
    without = replace(version, model=None)
    assert ModelFiles(files, model_cards=True).with_document(without).files.cards == {}
    run = ModelFiles(files, model_cards=True).with_files(record)
    asked = len(files.asked)
    of_run = ModelFiles(files, model_cards=True).with_document(replace(version, run=run))
    assert of_run.files is run.files
    assert len(files.asked) == asked


def test_cards_that_cannot_be_read_leave_theirs_as_they_are() -> None:
    reading = ModelFiles(Files(error=NotAuthorizedError("not you")), model_cards=True)
    (model,) = map_record(reading.with_files(joined({}, a_model("m1"))))
    assert "intendedUse" not in model.aspects
    assert [note.kind for note in model.notes] == ["feature_file_unread", "signature_not_read"]
