"""The digest of a record: every field of it counts, also one that is added later."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import pytest

from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedExperiment,
    JoinedLoggedModel,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedVersion,
    RunFiles,
    WorkspaceScope,
    _record_digest,
    version_fingerprint,
)
from mlcat_ingest.sources.mlflow.values.records import (
    Column,
    Experiment,
    JsonObjects,
    Metric,
    ModelDocument,
    ModelVersion,
    RegisteredModel,
    Run,
)
from mlcat_ingest.sources.mlflow.values.uris import UiLinks

SCOPE = WorkspaceScope(Naming(), UiLinks(None), "mlflow:0:default")
RECORDS = (
    JoinedExperiment,
    JoinedLoggedModel,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedVersion,
)
NUMBERS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, 1, True, None, "nan", "NaN")


def sample(hint: Any) -> Any:
    """Return a value of a type."""
    return next(samples(hint))


def samples(hint: Any) -> Iterator[Any]:
    """Yield values of a type that all differ, at least two; each part of a value varies."""
    origin, arguments = get_origin(hint), get_args(hint)
    if ModelVersion in arguments and NoneType in arguments:
        # A version may have a version as its origin, and so on.
        yield from (ModelVersion("o", "1"), ModelVersion("o", "1", tags={"k": "v"}), None)
    elif origin in {Union, UnionType}:
        # With a value, and with each part of it in another form; then without.
        for argument in sorted(arguments, key=lambda one: one is NoneType):
            yield from samples(argument)
    elif origin is tuple:
        first = sample(arguments[0])
        yield from ((one,) for one in samples(arguments[0]))
        yield from ((), (first, first))
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield from ({"k": value} for value in samples(arguments[1]))
        yield from ({}, {"other": sample(arguments[1])})
    elif isinstance(origin, type) and issubclass(origin, Sequence):
        yield from ([one] for one in samples(arguments[0]))
        yield []
    elif hint is JsonObjects:
        yield from map(JsonObjects, samples(Sequence[Column]))
    else:
        yield from samples_of_class(hint)


def samples_of_class(hint: Any) -> Iterator[Any]:
    if hint is NoneType:
        yield None
    elif hint is Any:
        yield from NUMBERS
    elif hint is WorkspaceScope:
        yield SCOPE
    elif hint in {str, int, float, bool}:
        values = {str: ("a", "b", "\ud800"), int: (1, 2, 2**70), bool: (True, False)}
        yield from cast("dict[type, Sequence[Any]]", values).get(hint, (0.5, 1.5, *NUMBERS[:3]))
    else:
        yield from forms(hint)


def forms(cls: Any) -> Iterator[Any]:
    """Yield a record, and copies of which one field has another value."""
    hints = get_type_hints(cls)
    names = [one.name for one in fields(cls)] if is_dataclass(cls) else list(cls._fields)
    # When a record was read is none of it.
    names = [name for name in names if name != "sightings"]
    values = {name: sample(hints[name]) for name in names}
    yield cls(**values)
    for name in names:
        others = iter(samples(hints[name]))
        next(others)
        yield from (cls(**{**values, name: other}) for other in others)


@pytest.mark.parametrize("cls", RECORDS)
def test_no_two_records_that_differ_in_anything_have_one_digest(cls: Any) -> None:
    seen: dict[str, Any] = {}
    for record in forms(cls):
        if isinstance(record, JoinedVersion) and record.registered != sample(RegisteredModel):
            continue
        digest = _record_digest(record)
        assert digest is not None
        other = seen.setdefault(digest, record)
        assert repr(other) == repr(record), "another record has the same digest"
        assert _record_digest(record) == digest
    assert len(seen) > len(fields(cls))


def test_what_a_version_has_of_its_registered_model_is_in_its_joined_fingerprint() -> None:
    """The other versions' aliases are not, or each new one would be a change of all."""
    version = ModelVersion("m", "1")
    plain = JoinedVersion(SCOPE, version, RegisteredModel("m"))
    for model in (
        RegisteredModel("m", description="d"),
        RegisteredModel("m", aliases={"champion": "1"}),
    ):
        other = replace(plain, registered=model)
        assert other.record_version != plain.record_version
    others = replace(plain, registered=RegisteredModel("m", aliases={"champion": "2"}))
    assert others.record_version == plain.record_version
    assert version_fingerprint(version, None) != ""


@pytest.mark.parametrize("value", NUMBERS)
def test_a_number_is_no_other_number(value: Any) -> None:
    def digest(number: Any) -> str | None:
        document = ModelDocument(signature={"inputs": JsonObjects([{"default": number}])})
        return _record_digest(
            JoinedRun(
                SCOPE,
                Run("r", "1", metrics=(Metric("m", 1.0),)),
                Experiment("1", "e"),
                files=RunFiles(documents={"m": document}),
            )
        )

    same = [repr(other) for other in NUMBERS if digest(other) == digest(value)]
    assert same == [repr(value)]


def test_the_scope_is_none_of_a_record() -> None:
    run = JoinedRun(SCOPE, Run("r", "1"), None)
    other = WorkspaceScope(Naming(env="DEV"), UiLinks("http://mlflow"), "mlflow:1:default")
    assert _record_digest(replace(run, scope=other)) == _record_digest(run)
