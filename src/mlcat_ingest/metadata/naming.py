"""Names: which URN a run, an experiment, a registered model or a feature view has.

A name is `[<instance>.][<workspace>.]<template filled in>`. Within one `Naming` two different
experiments or registered models never share a URN (names that had to be shortened differ by
64 bits of SHA-256).
"""

import hashlib
import json
import re
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import accumulate
from string import Formatter
from typing import Final, NamedTuple

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.urn import (
    FABRICS,
    MAX_URN_BYTES,
    build,
    data_platform,
    encode_own,
    encoded_bytes,
)

DEFAULT_WORKSPACE: Final = "default"
"""The workspace that never shows in names: a server without workspaces has only this one."""

_LITERAL = re.compile(r"[A-Za-z0-9_.:/-]*")
_PLACEHOLDERS: Final = {
    "model": ["run_id"],
    "group": ["experiment"],
    "registered_group": ["name"],
    "version": ["name", "version"],
}
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
# One character of an encoded name: an escape (several bytes, where UTF-8 has several) or itself.
_CHARACTER = re.compile("%[C-F][0-9A-F](?:%[89AB][0-9A-F])+|%[0-9A-F]{2}|.", re.DOTALL)
_DIGEST_CHARS = 16
_TAIL_BYTES = len("%7E") + _DIGEST_CHARS
# A feature's URN holds the name of its table, which may therefore not take all the room.
_TABLE_BYTES = 240
_MIN_ROOM_BYTES = 64


class Name(NamedTuple):
    """The name of one entity.

    `name` is the URN's name part, spelled as there (encoded). `full_name` is the whole name as
    plain text where the URN had to leave some of it out, else None.
    """

    urn: str
    name: str
    full_name: str | None = None


@dataclass(frozen=True, slots=True)
class Templates:
    """How names are put together: fixed text and the placeholders that belong to each.

    Raises:
        ValueError: a placeholder is unknown, missing or repeated, the fixed text holds other
            characters than letters, digits and ``_ . : / -``, or two entities would have the
            same name.
    """

    model: str = "{run_id}"
    group: str = "{experiment}"
    registered_group: str = "registered:{name}"
    version: str = "{name}_{version}"

    def __post_init__(self) -> None:
        """Refuse templates that give two entities the same name."""
        for field in fields(self):
            _check_template(field.name, getattr(self, field.name))
        if _lead(self.group) == _lead(self.registered_group):
            raise ValueError(
                "naming.group and naming.registered_group begin with the same text: "
                "an experiment and a registered model with one name would get the same URN"
            )
        between = self.version.partition("}")[2].partition("{")[0]
        if not between or between.isdigit():
            raise ValueError(
                "naming.version: name and version need text between them that is not a number"
            )


def _check_template(template: str, text: str) -> None:
    takes = _PLACEHOLDERS[template]
    required = " and ".join(f"{{{name}}}" for name in takes)
    fields: list[str] = []
    try:
        pieces = list(Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"naming.{template}: {error}") from error
    for literal, placeholder, spec, conversion in pieces:
        if _LITERAL.fullmatch(literal) is None:
            raise ValueError(
                f"naming.{template}: fixed text takes letters, digits and _ . : / - only, "
                f"not {literal!r}"
            )
        if placeholder is None:
            continue
        if placeholder not in takes or spec or conversion:
            raise ValueError(
                f"naming.{template}: unknown placeholder {{{placeholder}}}; it takes {required}"
            )
        fields.append(placeholder)
    if sorted(fields) != takes:
        raise ValueError(f"naming.{template}: must contain {required} exactly once")


def _lead(template: str) -> str:
    """Return the fixed text that all names made with `template` begin with."""
    return template.partition("{")[0]


DATAHUB_TEMPLATES: Final = Templates(group="experiment:{experiment}", registered_group="{name}")
"""The names that DataHub's own mlflow source gives, with experiments beside them."""


def _encode_shared(text: str) -> str:
    """Return `text` as part of a URN that DataHub's own mlflow source builds too.

    That source spells names as they are. A `%` may stay one, unless it begins what could be an
    escape; whatever else is unsafe, DataHub does not take from it either, so nothing is there to
    join, and two names never become one.
    """
    spelled = encode_own(text)
    lone = spelled != text and spelled == text.replace("%", "%25") and not _ESCAPE.search(text)
    return text if lone else spelled


def datahub_guid(**facts: str) -> str:
    """Return the id that DataHub's SDK makes of a key with the fields `facts`.

    Source: `datahub_guid` of its `mce_builder`.
    """
    text = json.dumps(facts, separators=(",", ":"), sort_keys=True)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class _Frame:
    """The parts of a URN around its name, and how many URL-encoded bytes the name may have."""

    head: str
    tail: str
    room: int

    @classmethod
    def around(cls, head: str, tail: str, most: int = MAX_URN_BYTES) -> "_Frame":
        return cls(head, tail, min(most, MAX_URN_BYTES - encoded_bytes(head + tail)))

    def name(self, spelled: str, full: str) -> Name:
        if (spelled.isascii() and len(spelled) * 3 <= self.room) or (
            encoded_bytes(spelled) <= self.room
        ):
            return Name(f"{self.head}{spelled}{self.tail}", spelled)
        short = _shorten(spelled, full, self.room)
        return Name(f"{self.head}{short}{self.tail}", short, full)


def _shorten(spelled: str, full: str, room: int) -> str:
    # A character costs a byte at least and is nine long at most: more is never looked at.
    characters = _CHARACTER.findall(spelled[: 9 * room])
    sizes = accumulate(map(encoded_bytes, characters))
    kept = sum(size <= room - _TAIL_BYTES for size in sizes)
    digest = hashlib.sha256(full.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{''.join(characters[:kept])}~{digest}"


class Naming:
    """Gives every entity of one source its URN; pure, and cheap enough to ask for each run.

    `instance`, where set, and a workspace other than the default are always prefixes of a name. A
    part of a name that is empty, or holds a lone surrogate, is an `InvalidUrnError`.
    """

    def __init__(
        self,
        platform: str = "mlflow",
        env: str = "PROD",
        instance: str | None = None,
        workspace: str | None = None,
        templates: Templates | None = None,
        *,
        shared: bool = False,
    ) -> None:
        """Work out what all names share.

        With `shared`, registered models and their versions are spelled as DataHub's own source
        spells them; see `_encode_shared`.

        Raises:
            ValueError: `env` is not one of the 17 environments, or `platform`, `instance` and
                `workspace` are not valid in a URN, or leave no room for names.
        """
        if env not in FABRICS:
            raise ValueError(f"{env!r} is not an environment: one of {', '.join(sorted(FABRICS))}")
        self.platform = platform
        self.env = env
        self.instance = instance or None
        self.workspace = None if workspace == DEFAULT_WORKSPACE else workspace or None
        self.templates = templates or Templates()
        self.shared = shared
        self._encode_registered = _encode_shared if shared else encode_own
        try:
            self._work_out()
        except InvalidUrnError as error:
            raise ValueError(f"no URN can be made with these names: {error}") from error

    def on_platform(self, platform: str) -> "Naming":
        """Return the naming of another platform that is like this one in all else.

        Raises:
            ValueError: `platform` is not valid in a URN, or leaves no room for names.
        """
        own = self.env, self.instance, self.workspace, self.templates
        return Naming(platform, *own, shared=self.shared)

    def _work_out(self) -> None:
        self.platform_urn = data_platform(self.platform)
        self.instance_urn = (
            build("dataPlatformInstance", self.platform_urn, self.instance)
            if self.instance
            else None
        )
        owners = [part for part in (self.instance, self.workspace) if part]
        self._owner = "".join(f"{part}." for part in owners)
        self._owner_spelled = "".join(f"{_encode_dotless(part)}." for part in owners)
        self._model = _Frame.around(f"urn:li:mlModel:({self.platform_urn},", f",{self.env})")
        self._group = _Frame.around(f"urn:li:mlModelGroup:({self.platform_urn},", f",{self.env})")
        self._table = _Frame.around(
            f"urn:li:mlFeatureTable:({self.platform_urn},", ")", _TABLE_BYTES
        )
        rooms = (self._model.room, self._group.room, self._table.room)
        if min(rooms) < encoded_bytes(self._owner_spelled) + _MIN_ROOM_BYTES:
            raise InvalidUrnError("platform, instance and workspace are too long")
        leads = _lead(self.templates.group), _lead(self.templates.registered_group)
        self._reserved = max(leads, key=len)
        self._group_is_reserved = leads[0] == self._reserved
        self._run_before, _, self._run_after = self.templates.model.partition("{run_id}")

    def model(self, run_id: str) -> Name:
        """Return the name of a run's model."""
        text = f"{self._run_before}{_fill(run_id)}{self._run_after}"
        return self._model.name(self._owner_spelled + encode_own(text), self._owner + text)

    def group(self, experiment: str) -> Name:
        """Return the name of an experiment's group."""
        text = self.templates.group.format(experiment=_fill(experiment))
        return self._group_name(text, encode_own(text), reserved=self._group_is_reserved)

    def registered_group(self, name: str) -> Name:
        """Return the name of a registered model's group."""
        text = self.templates.registered_group.format(name=_fill(name))
        spelled = self._encode_registered(text)
        return self._group_name(text, spelled, reserved=not self._group_is_reserved)

    def version(self, name: str, version: str) -> Name:
        """Return the name of the model of a version."""
        text = self.templates.version.format(name=_fill(name), version=_fill(version))
        spelled = self._encode_registered(text)
        return self._model.name(self._owner_spelled + spelled, self._owner + text)

    @property
    def joins_datahub(self) -> bool:
        """True if ids are those of DataHub's own source, which reads the default workspace only."""
        return self.shared and self.workspace is None

    def process(self, run_id: str) -> str:
        """Return the URN of a run as a process instance.

        Source: `DataProcessInstanceKey` of DataHub's SDK, where its entities are shared.
        """
        if self.joins_datahub:
            guid = datahub_guid(id=_fill(run_id), orchestrator=self.platform)
        else:
            guid = hashlib.sha256(self.model(run_id).urn.encode()).hexdigest()[:32]
        return build("dataProcessInstance", guid)

    @property
    def asset_place(self) -> str:
        """What the ids of `asset` begin with: platform, instance and workspace."""
        return f"{self.platform}.{self._owner_spelled}".rstrip(".")

    def asset(self, entity_type: str, *parts: str) -> Name:
        """Return the name of an entity whose type has no platform in its URN, of these `parts`.

        Only the first may have a slash.
        """
        first, *others = map(_fill, parts)
        spelled = [encode_own(first), *(encode_own(one).replace("/", "%2F") for one in others)]
        frame = _Frame.around(f"urn:li:{entity_type}:{self.asset_place}:", "")
        return frame.name("/".join(spelled), "/".join(parts))

    def feature_table(self, project: str | None, view: str) -> Name:
        """Return the name of a feature view's table, `<project>.<view>`; 240 bytes at most.

        A store without projects, None, has tables of one name part only.
        """
        spelled, full = encode_own(_fill(view)), view
        if project is not None:
            spelled, full = f"{_encode_dotless(_fill(project))}.{spelled}", f"{project}.{view}"
        return self._table.name(self._owner_spelled + spelled, self._owner + full)

    def namespace(self, project: str) -> str:
        """Return the namespace of a project's feature tables, which no other store has."""
        return self._owner + project

    def feature(self, table: Name, feature: str) -> Name:
        """Return the name of a feature of `table`, as `feature_table` gave it."""
        return _column_frame("mlFeature", table.name).name(encode_own(_fill(feature)), feature)

    def primary_key(self, table: Name, key: str) -> Name:
        """Return the name of a key of `table`, as `feature_table` gave it."""
        return _column_frame("mlPrimaryKey", table.name).name(encode_own(_fill(key)), key)

    def _group_name(self, text: str, spelled: str, *, reserved: bool) -> Name:
        lead = self._reserved
        if not reserved and text.startswith(lead):
            # The other kind of group has this prefix; encoding its last character avoids a clash.
            spelled = f"{lead[:-1]}%{ord(lead[-1]):02X}{spelled[len(lead) :]}"
        return self._group.name(self._owner_spelled + spelled, self._owner + text)


def _fill(text: str) -> str:
    if not text:
        raise InvalidUrnError("an entity without a name has no URN")
    return text


def _encode_dotless(text: str) -> str:
    return encode_own(text).replace(".", "%2E")


@lru_cache(maxsize=64)
def _column_frame(entity_type: str, table: str) -> _Frame:
    return _Frame.around(f"urn:li:{entity_type}:({table},", ")")


def airflow_job(dag_id: str, task_id: str, cluster: str, instance: str = "") -> str:
    """Return the URN of a task, as DataHub's plugin for Airflow names it.

    Raises:
        InvalidUrnError: it would be too long.
    """
    flow = f"{instance}.{dag_id}" if instance else dag_id
    return build("dataJob", build("dataFlow", "airflow", flow, cluster), task_id)
