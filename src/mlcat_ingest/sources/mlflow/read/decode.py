"""MLflow's JSON to records. Called once for everything read, so kept short and flat.

Whatever a record is made of, each of its fields has the declared type: one that cannot be read is
refused, and the others of its page are read.

Source: the JSON that MLflow's servers make of their protocol buffers: 64-bit integers as numbers
or as texts, metric values that are no numbers as `"NaN"`, `"Infinity"`, `"-Infinity"`, and empty
lists left out.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import chain, count
from operator import itemgetter
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints
from unicodedata import combining, normalize

from mlcat_ingest.sources.mlflow.read import fields
from mlcat_ingest.sources.mlflow.read.fields import id_text
from mlcat_ingest.sources.mlflow.values.joined import (
    EXPERIMENT,
    LOGGED_MODEL,
    REGISTERED,
    RUN,
    VERSION,
    RefusedRecord,
)
from mlcat_ingest.sources.mlflow.values.records import (
    PROMPT_TAG,
    DatasetInput,
    Experiment,
    LoggedModel,
    Metric,
    ModelOutput,
    ModelVersion,
    RegisteredModel,
    Run,
)

RecordT = TypeVar("RecordT")
Json = Mapping[str, Any]

_NAME = itemgetter(0)
NAME_AND_DIGEST: Final = itemgetter(0, 1)
"""What the datasets of a run are sorted by."""
STEP_AND_ID: Final = itemgetter(1, 0)
"""What the logged models of a run are sorted by."""


_UNUSABLE: Final = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
)

IDS: Final[Mapping[str, Sequence[str]]] = {
    RUN: ["run_id"],
    EXPERIMENT: ["experiment_id"],
    REGISTERED: ["name"],
    VERSION: ["name", "version"],
    LOGGED_MODEL: ["model_id"],
}
"""The fields that name an item of each kind."""


class Refusals:
    """Makes records of the items of listings; keeps those that it refuses until they are taken."""

    def __init__(self) -> None:
        self._refused: list[RefusedRecord] = []
        self._named: set[tuple[str, tuple[str, ...]]] = set()
        self._taken = 0

    @property
    def count(self) -> int:
        """How many were refused, each that has an id once."""
        return len(self._refused)

    def usable(
        self,
        kind: str,
        decode: Callable[[Any], RecordT],
        items: Iterable[Any],
        ids_of: Callable[[Any], Sequence[object]] | None = None,
    ) -> list[RecordT]:
        """Return the records of `items`, without those that are not shaped as MLflow's are.

        `ids_of` returns what names an item that does not name itself.
        """
        names = ids_of or partial(_ids_in, kind)
        made: list[tuple[Any, RecordT]] = []
        for item in items:
            try:
                made.append((item, decode(item)))
            except _UNUSABLE as error:
                self.refuse(kind, names(item), _reason(error))
        records = [record for _, record in made]
        # Field by field over the page, which is faster than record by record.
        if _wrong_field(records) is None:
            return records
        usable = []
        for item, record in made:
            reason = _wrong_field([record])
            if reason is None:
                usable.append(record)
            else:
                self.refuse(kind, names(item), reason)
        return usable

    def refuse(self, kind: str, ids: Sequence[object], reason: str) -> None:
        """Keep a refused item and what names it; None where it has no name."""
        named = all(isinstance(part, str | int) for part in ids)
        record = RefusedRecord(kind, tuple(map(str, ids)) if named else (), reason)
        if (kind, record.ids) not in self._named:
            self._refused.append(record)
        if named:
            self._named.add((kind, record.ids))

    def take(self) -> Sequence[RefusedRecord]:
        """Return the refused records that were not taken yet."""
        waiting = self._refused[self._taken :]
        self._taken = self.count
        return waiting

    def restart(self) -> None:
        """Give all of them again, to the next reading: some listings are read once and kept."""
        self._taken = 0


def _ids_in(kind: str, item: object) -> Sequence[object]:
    """Return what names an item of JSON or of MlflowClient, None for what it lacks."""
    info = _field(item, "info") or item
    return [_field(info, name) or None for name in IDS[kind]]


def _field(item: object, name: str) -> object:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def _reason(error: Exception) -> str:
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


class _WrongTypeError(Exception):
    """A value has another type than the field that it is of."""


def _wrong_field(records: Sequence[Any]) -> str | None:
    """Return which field of the records, all of one class, has a wrong type, None for none."""
    kind: Any = type(records[0]) if records else None
    for name, check in _checks_of(kind) if records else ():
        try:
            check([getattr(record, name) for record in records])
        except _WrongTypeError as error:
            return f"{name}: {error}"
    return None


Check = Callable[[Sequence[Any]], None]
"""Looks at the values of one field of several records."""


@cache
def _checks_of(record: type) -> Sequence[tuple[str, Check]]:
    return [(name, _check_of(hint)) for name, hint in get_type_hints(record).items()]


def _check_of(hint: Any) -> Check:
    """Return what looks for another type than the annotation of a field of a record."""
    if get_origin(hint) in {tuple, Sequence}:
        entry = get_args(hint)[0]
        if entry is str:
            return lambda values: _check_types(_TEXT, list(chain.from_iterable(values)))
        return partial(_check_entries, [check for _, check in _checks_of(entry)])
    if get_origin(hint) is Mapping:
        return _check_mappings
    types = frozenset(get_args(hint) or (hint,))
    return partial(_check_types, types | {int} if float in types else types)


def _check_entries(columns: Sequence[Check], values: Sequence[Sequence[Any]]) -> None:
    fields = zip(*chain.from_iterable(values), strict=True)
    for check, parts in zip(columns, fields, strict=False):  # none where there are no entries
        check(parts)


def _check_mappings(values: Sequence[Mapping[Any, Any]]) -> None:
    _check_types(frozenset({dict}), values)
    _check_types(_TEXT, list(chain.from_iterable(values)))
    _check_types(_TEXT, list(chain.from_iterable([mapping.values() for mapping in values])))


_TEXT: Final = frozenset({str})


def _check_types(types: frozenset[type], values: Iterable[object]) -> None:
    if not types.issuperset(map(type, values)):
        wrong = next(value for value in values if type(value) not in types)
        if wrong is None:
            raise _WrongTypeError("no value")
        shown = repr(wrong)[:40] if isinstance(wrong, str | int | float) else type(wrong).__name__
        raise _WrongTypeError(f"{shown} is no {'text' if str in types else 'number'}")


_unnamed = count()


def run_ids(items: Iterable[Any]) -> list[str]:
    """Return the ids of items of `runs/search`, one of its own for an item without."""
    ids = (_ids_in(RUN, item)[0] for item in items)
    return [id_ if isinstance(id_, str) else f"\0{next(_unnamed)}" for id_ in ids]


def _part(name: str, decode: Callable[[Any], RecordT], entries: Any) -> RecordT:
    """Return what `decode` makes of a part of an item; an error names the part."""
    try:
        return decode(entries)
    except _UNUSABLE as error:
        raise ValueError(f"{name}: {_reason(error)}") from error


def _info(item: Any) -> Json:
    info = item["info"]
    if isinstance(info, dict):
        return info
    raise ValueError("info is no object")


def run(item: Json) -> Run:
    """Return one item of `runs/search`."""
    info = _info(item)
    data = item.get("data") or {}
    inputs = item.get("inputs")
    outputs = item.get("outputs")
    return fields.RUN.of_json(
        info,
        _part("params", _pairs, data.get("params")),
        _part("metrics", metrics, data.get("metrics")),
        _part("tags", _pairs, data.get("tags")),
        _part("inputs", _dataset_inputs, inputs) if inputs else (),
        _part("inputs", _model_inputs, inputs) if inputs else (),
        _part("outputs", _model_outputs, outputs) if outputs else (),
    )


def experiment(item: Json) -> Experiment:
    """Return one item of `experiments/search`."""
    return fields.EXPERIMENT.of_json(item, _part("tags", _pairs, item.get("tags")))


def registered_model(item: Json) -> RegisteredModel:
    """Return one item of `registered-models/search`."""
    return fields.REGISTERED_MODEL.of_json(
        item,
        _part("tags", _pairs, item.get("tags")),
        _part("aliases", _aliases, item.get("aliases") or ()),
    )


def _aliases(entries: Iterable[Json]) -> Mapping[str, str]:
    return {entry["alias"]: id_text(entry["version"]) for entry in entries}


def is_prompt(tags: Mapping[str, str]) -> bool:
    """Return whether a registered model, or a version, is a prompt by its tags."""
    return tags.get(PROMPT_TAG, "").lower() == "true"


class Aliases:
    """The registered models' maps turned around: version to aliases, sorted; and their names."""

    def __init__(self, models: Collection[RegisteredModel], prompts: Collection[str] = ()) -> None:
        """Take the aliases of all registered models, and the names of `prompts` beside them."""
        self._aliases: dict[tuple[str, str], tuple[str, ...]] = {}
        self._names = {*prompts, *(model.name for model in models)}
        for model in models:
            for alias, version in sorted(model.aliases.items()):
                self._aliases[model.name, version] = (*self.of(model.name, version), alias)

    @cached_property
    def _by_collation(self) -> Mapping[str, str]:
        return {_collated(name): name for name in self._names}

    def model_name(self, name: str) -> str:
        """Return the name of a version's model as that model spells it.

        MySQL and SQL Server take versions under any spelling that their collation calls equal.
        """
        return name if name in self._names else self._by_collation.get(_collated(name), name)

    def of(self, name: str, version: str) -> tuple[str, ...]:
        """Return the aliases of one version."""
        return self._aliases.get((name, version), ())


def _collated(name: str) -> str:
    """Return what names have in common that MySQL's default collation calls equal."""
    letters = normalize("NFKD", name.casefold())
    return "".join(letter for letter in letters if not combining(letter)).rstrip(" ")


def model_version(item: Json, aliases: Aliases) -> ModelVersion:
    """Return one item of `model-versions/search`, with the aliases of its registered model."""
    name = _part("name", aliases.model_name, item["name"])
    return fields.MODEL_VERSION.of_json(
        {**item, "name": name},
        aliases.of(name, id_text(item["version"])),
        _part("tags", _pairs, item.get("tags")),
    )


def logged_model(item: Json) -> LoggedModel:
    """Return one item of `logged-models/search`."""
    info = _info(item)
    data = item.get("data") or {}
    return fields.LOGGED_MODEL.of_json(
        info,
        _part("params", _pairs, data.get("params")),
        _part("tags", _pairs, info.get("tags")),
        _part("metrics", metrics, data.get("metrics")),
    )


def _pairs(entries: Sequence[Json] | None) -> dict[str, str]:
    """Return a list of `{key, value}` as a mapping; a value left out is an empty text."""
    if not entries:
        return {}
    try:
        return {entry["key"]: entry["value"] for entry in entries}
    except KeyError:
        return {entry["key"]: entry.get("value", "") for entry in entries}


def metrics(entries: Sequence[Json] | None) -> tuple[Metric, ...]:
    """Return metrics, sorted by name as the stores keep no order of their own."""
    if not entries:
        return ()
    made = [
        # As in `rows`, what the class would make by a call in Python.
        tuple.__new__(
            Metric,
            (
                entry["key"],
                # float() reads "NaN", "Infinity" and "-Infinity" too.
                float(entry.get("value", 0.0)),
                int(at) if (at := entry.get("timestamp")) else None,
                int(entry.get("step") or 0),
                entry.get("model_id") or None,
                entry.get("dataset_name") or None,
                entry.get("dataset_digest") or None,
                entry.get("run_id") or None,
            ),
        )
        for entry in entries
    ]
    # Most runs have each name once, and texts are compared faster than tuples are made.
    named_once = len(set(map(_NAME, made))) == len(made)
    return tuple(sorted(made, key=_NAME if named_once else metric_order))


def metric_order(metric: Metric) -> tuple[Any, ...]:
    """Return what metrics are sorted by: name, model, dataset, then the last."""
    texts = metric.model_id, metric.dataset_name, metric.dataset_digest
    return metric.key, *(text or "" for text in texts), metric.recency, metric.run_id or ""


def _dataset_inputs(inputs: Json) -> tuple[DatasetInput, ...]:
    datasets = []
    for entry in inputs.get("dataset_inputs") or ():
        dataset = entry["dataset"]
        datasets.append(
            DatasetInput(
                dataset["name"],
                dataset.get("digest") or "",
                dataset.get("source_type") or "",
                dataset.get("source") or "",
                dataset.get("schema") or None,
                dataset.get("profile") or None,
                _pairs(entry.get("tags")),
            )
        )
    return tuple(sorted(datasets, key=NAME_AND_DIGEST))


def _model_inputs(inputs: Json) -> tuple[str, ...]:
    return tuple(sorted(entry["model_id"] for entry in inputs.get("model_inputs") or ()))


def _model_outputs(outputs_: Json) -> tuple[ModelOutput, ...]:
    """Return the logged models that a run made, by step."""
    entries = outputs_.get("model_outputs") or ()
    outputs = [ModelOutput(entry["model_id"], int(entry.get("step") or 0)) for entry in entries]
    return tuple(sorted(outputs, key=STEP_AND_ID))
