"""What is read without Feast is what Feast itself reads: definitions, fields, every transport."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass

from mlcat_ingest.sources.feast.registry import MESSAGES, RawObject
from support.feast import DATA, REGISTRY, SQL_REGISTRY
from support.feast_transports import objects_of
from support.venvs import venv_for

pytestmark = pytest.mark.timeout(600)

SCRIPT = Path(__file__).with_name("serve_registry.py")

CUSTOM = 6

Kept = dict[tuple[str, str], Any]
"""Messages as JSON, by kind and name."""


@dataclass(frozen=True, slots=True)
class Feast:
    """What Feast says of the registries, and where it serves them."""

    grpc: int
    objects: Mapping[str, Mapping[str, Mapping[str, str]]]
    pool: DescriptorPool

    def read(self, registry: str) -> Kept:
        """Return what Feast's own objects say, in the fields that are read here."""
        found: Kept = {}
        for kind, objects in self.objects[registry].items():
            name = message_of(kind)
            theirs = GetMessageClass(self.pool.FindMessageTypeByName(f"feast.core.{name}"))
            for each, content in objects.items():
                message = theirs.FromString(base64.b64decode(content))
                found[kind, each] = only_ours(MESSAGES[name].DESCRIPTOR, as_json(message))
        return found


@pytest.fixture(scope="module")
def feast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Feast]:
    folder = tmp_path_factory.mktemp("feast")
    for path in (REGISTRY, SQL_REGISTRY):
        shutil.copy(path, folder)
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            [venv_for("feast-0.67").python, SCRIPT],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(DATA / "repo"), "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, (folder / "log").read_text()
            sentence = json.loads(line)
            pool = DescriptorPool()
            for content in sentence["definitions"]:
                pool.AddSerializedFile(base64.b64decode(content))
            yield Feast(sentence["grpc"], sentence, pool)
        finally:
            process.stdin.close()
            process.wait(30)


def message_of(kind: str) -> str:
    return "".join(word.title() for word in kind.split("_"))


def as_json(message: Any) -> dict[str, Any]:
    return MessageToDict(message, preserving_proto_field_name=True, use_integers_for_enums=True)


def only_ours(descriptor: Descriptor, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a message as JSON is in the fields of `descriptor`."""
    found: dict[str, Any] = {}
    for field in descriptor.fields:
        if field.name not in value:
            continue
        one, held = field.message_type, value[field.name]
        if one is None or one.full_name.startswith("google."):
            found[field.name] = held
        elif one.GetOptions().map_entry:
            of_value = one.fields_by_name["value"].message_type
            found[field.name] = (
                held
                if of_value is None
                else {key: only_ours(of_value, item) for key, item in held.items()}
            )
        elif isinstance(held, list):
            found[field.name] = [only_ours(one, item) for item in held]
        else:
            found[field.name] = only_ours(one, held)
    return found


def read_here(objects: list[RawObject]) -> Kept:
    found: Kept = {}
    for raw in objects:
        message = MESSAGES[message_of(raw.kind)].FromString(raw.proto)
        found[raw.kind, raw.name] = as_json(message)
    assert len(found) == len(objects)
    return found


def comparable(kept: Kept) -> Kept:
    """Return messages without what Feast's own objects do not keep of a stored registry."""
    return {key: _kept_by_objects(message) for key, message in kept.items()}


def _kept_by_objects(value: Any, path: tuple[str, ...] = ()) -> Any:
    if isinstance(value, list):
        items = [_kept_by_objects(item, path) for item in value]
        # A stream view adds its join keys out of a set.
        return sorted(items, key=repr) if path[-1:] == ("features",) else items
    if not isinstance(value, dict):
        return value
    left_out = {"project"}
    if path:
        # What is inside another object is stamped when it is written.
        left_out.add("meta")
    if value.get("type") != CUSTOM:
        left_out.add("data_source_class_type")
    return {
        key: _kept_by_objects(item, (*path, key))
        for key, item in value.items()
        if key not in left_out
    }


def drift(ours: Descriptor, theirs: Descriptor, seen: set[str]) -> Iterator[str]:
    """Yield each field of ours, and of the messages in it, that is another one at Feast."""
    if ours.full_name in seen:
        return
    seen.add(ours.full_name)
    for field in ours.fields:
        other = theirs.fields_by_number.get(field.number)
        place = f"{theirs.full_name}.{field.name}"
        if other is None or shape(other) != shape(field):
            yield f"{place}: {shape(field)} is {other and shape(other)}"
        elif field.message_type is not None:
            assert other.message_type is not None
            yield from drift(field.message_type, other.message_type, seen)
        elif field.enum_type is not None:
            assert other.enum_type is not None
            named = {value.name: value.number for value in other.enum_type.values}
            for value in field.enum_type.values:
                # Feast's SDK writes two numbers that its own definitions lack.
                if named.get(value.name, -1) != value.number and value.number not in {30, 31}:
                    yield f"{place}: {value.name} is {named.get(value.name)}"


def shape(field: FieldDescriptor) -> tuple[str, int, bool]:
    return field.name, field.type, field.is_repeated


def test_names_numbers_and_types_are_those_of_feast(feast: Feast) -> None:
    theirs = feast.pool.FindMessageTypeByName("feast.core.Registry")
    seen: set[str] = set()
    assert list(drift(MESSAGES["Registry"].DESCRIPTOR, theirs, seen)) == []
    # A frame takes the place of a message: Feast has none.
    messages = [kind for name, kind in MESSAGES.items() if not name.endswith("Frame")]
    assert {kind.DESCRIPTOR.full_name for kind in messages} <= seen


def test_a_registry_file_is_read_as_feast_reads_it(feast: Feast) -> None:
    found = read_here(objects_of(str(REGISTRY)))
    assert comparable(found) == comparable(feast.read("file"))
    assert len(found) == 47


def test_a_registry_database_is_read_as_feast_reads_it(feast: Feast) -> None:
    found = read_here(objects_of(f"sqlite:///{SQL_REGISTRY}"))
    assert comparable(found) == comparable(feast.read("sql"))
    assert len(found) == 48


def test_feasts_own_server_sends_what_is_in_the_file(feast: Feast) -> None:
    sent, stored = objects_of(f"127.0.0.1:{feast.grpc}"), objects_of(str(REGISTRY))
    assert [(raw.kind, raw.project, raw.name) for raw in sent] == [
        (raw.kind, raw.project, raw.name) for raw in stored
    ]
    assert comparable(read_here(sent)) == comparable(read_here(stored))


def test_the_descriptors_can_be_compared_at_all() -> None:
    """A field that is another one is found: the comparison is no empty promise."""
    file = descriptor_pb2.FileDescriptorProto(name="f", package="p", syntax="proto3")
    file.message_type.add(name="Registry").field.add(name="entities", number=1, type=9, label=3)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    other = pool.FindMessageTypeByName("p.Registry")
    found = list(drift(MESSAGES["Registry"].DESCRIPTOR, other, set()))
    assert any("entities" in line for line in found)
