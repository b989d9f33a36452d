"""The recipe as a typed value; `config` is checked later, by the plug-in's type.

Rules of a recipe say how matching entities are enriched, and how each field is merged.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    StrictFloat,
    model_validator,
)

from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.card_sections import HEADINGS, is_read
from mlcat_ingest.metadata.codec import content_hash
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.recipe.draft import draft_of, read_draft
from mlcat_ingest.recipe.fields import Duration, NotContent, Public, PublicStr, RecipeModel
from mlcat_ingest.recipe.loader import Draft, Origin, Problem, did_you_mean
from mlcat_ingest.recipe.secrets import mask_tree
from mlcat_ingest.recipe.validate import Models, mask_secrets, validate_config
from mlcat_ingest.recipe.values import (
    DomainRef,
    OwnerRef,
    OwnerType,
    Pattern,
    PropertyRef,
    RecipePath,
    RecipeUrl,
    TagRef,
    TermRef,
    file_stem,
)

_ADDITIONS = (
    *("add_tags", "add_terms", "set_domain", "add_owners", "structured_properties"),
    "model_card",
)

EntityType = Literal["mlModel", "mlModelGroup", "mlFeatureTable", "mlFeature", "mlPrimaryKey"]

_Values = Annotated[tuple[StrictFloat | str, ...], Field(min_length=1)]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str | int | float) else value


def _or_alone(kind: Any) -> BeforeValidator:
    """Return the validator of a list that takes one `kind` without a list, too."""
    return BeforeValidator(_as_list, json_schema_input_type=kind | tuple[kind, ...])


def _heading(text: str) -> str:
    if not is_read(text):
        meant = did_you_mean(text, HEADINGS)
        raise ValueError(f"is no heading of a model card that is read{meant}")
    return text


_Texts = Annotated[tuple[PublicStr, ...], _or_alone(PublicStr)]


def _owner(value: Any) -> Any:
    return {"owner": value} if isinstance(value, str) else value


class Match(RecipeModel):
    """The condition of a rule: an entity has to fulfil all of it; an empty one matches all.

    A pattern matches from the start of the text, case-sensitively; end it with `$` for all of it.
    """

    entity: Annotated[tuple[EntityType, ...], _or_alone(EntityType)] = ()
    """Entity type, or a list of them."""

    name: Pattern | None = None
    """Regular expression for the display name, or for the name in the URN if there is none."""

    urn: Pattern | None = None
    """Regular expression for the URN."""

    properties: dict[PublicStr, Pattern] = Field(default_factory=dict)
    """Regular expressions for custom properties, by key, such as `team: growth` for that tag. An
    entity without the property does not match."""


class OwnerRule(RecipeModel):
    """An owner to add."""

    owner: OwnerRef
    """User name, or the URN of a user or a group."""

    type: OwnerType = "TECHNICAL_OWNER"
    """Ownership type."""


class EnrichRule(RecipeModel):
    """An enrichment: additions to the entities that match, beside the entries of others.

    They are removed together with the rule. An addition that an entity's type cannot have is the
    note `rule_does_not_fit` in the report.
    """

    key_hints: ClassVar[Mapping[str, str]] = {
        "remove_tags": "is not available: the merge removes entries that no rule adds any more",
        "add_domain": "is called `set_domain`",
        "type": "is a list of rules without types here; see `add_tags`, `add_owners` and so on",
    }

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": [name]} for name in _ADDITIONS]}
    )

    match: Match = Match()
    """The condition that an entity has to fulfil."""

    add_tags: Annotated[tuple[TagRef, ...], _or_alone(TagRef)] = ()
    """Tags, by name or URN; created if the catalog lacks them."""

    add_terms: Annotated[tuple[TermRef, ...], _or_alone(TermRef)] = ()
    """Glossary terms, by id or URN."""

    set_domain: DomainRef | None = None
    """A domain, by id or URN; it follows a domain that a user has chosen."""

    add_owners: tuple[
        Annotated[OwnerRule, BeforeValidator(_owner, json_schema_input_type=OwnerRule | OwnerRef)],
        ...,
    ] = ()
    """Owners: names of users, URNs, or `{owner: …, type: …}`."""

    structured_properties: dict[
        PropertyRef,
        Annotated[
            _Values, BeforeValidator(_as_list, json_schema_input_type=StrictFloat | str | _Values)
        ],
    ] = Field(default_factory=dict)
    """Values of structured properties, texts and numbers, by the property's qualified name or URN.
    If several rules match, the last one sets a property."""

    model_card: dict[Annotated[PublicStr, AfterValidator(_heading)], _Texts] = Field(
        default_factory=dict
    )
    """Texts of a model card by heading, such as `intended use`, `out of scope use`, `human
    oversight`, `risks`, `limitations` or `recommendations`, for models. What users wrote in the
    catalog is kept. The texts of the last such rule are kept until `retract`."""

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if not any(getattr(self, name) for name in _ADDITIONS):
            raise ValueError(f"adds nothing; use one of {', '.join(_ADDITIONS)}")
        return self


Policy: TypeAlias = Literal["three_way", "union", "ours"]
"""How a field is merged.

`three_way`: entries of others stay, dropped entries of the source go. `union`: all entries stay.
`ours`: the source alone decides.
"""

_FORM: Final = "must be <aspect>.<field>, for example ownership.owners"


def _known_field(place: str) -> str:
    aspect, _, field = place.partition(".")
    if not field:
        raise ValueError(_FORM)
    spec = ASPECTS.get(aspect)
    if spec is None:
        raise ValueError(f"has an unknown aspect{did_you_mean(aspect, ASPECTS)}; it {_FORM}")
    if spec.type is not None and field not in spec.type.fields:
        meant = did_you_mean(field, spec.type.fields)
        raise ValueError(f"has an unknown field of {aspect}{meant}")
    takes_no_policy = aspect == STATUS or spec.timeseries or aspect.endswith("Key")
    if takes_no_policy or field in spec.computed | spec.unowned:
        raise ValueError("has a field that is never merged; delete it")
    return place


FieldName: TypeAlias = Annotated[PublicStr, AfterValidator(_known_field)]
"""A field of an aspect, `<aspect>.<field>`."""


def by_aspect(policies: Mapping[str, Policy]) -> dict[str, dict[str, Policy]]:
    """Return `policies` by aspect, then field."""
    grouped: dict[str, dict[str, Policy]] = {}
    for place, policy in policies.items():
        aspect, _, field = place.partition(".")
        grouped.setdefault(aspect, {})[field] = policy
    return grouped


_DATAHUB = "is an option of DataHub's own runner; delete it"
ENRICH_FORM = (
    "is called `enrich` here: a list of rules such as "
    "{match: {entity: mlModel}, add_tags: [urn:li:tag:ml]}"
)


def _test_urn(urn: str) -> str:
    if not urn.startswith("urn:li:test:"):
        raise ValueError("must be the URN of a metadata test: urn:li:test:<id>")
    return urn


class PluginSpec(RecipeModel):
    """A type, and its configuration as written in the recipe."""

    type: PublicStr
    config: Annotated[
        dict[str, Any],
        # The model of that type says what of it is secret.
        Public(),
        BeforeValidator(lambda value: {} if value is None else value),
        PlainSerializer(mask_tree, return_type=dict[str, Any], when_used="json"),
    ] = Field(default_factory=dict)
    """The configuration of that type."""


class SourceSpec(PluginSpec):
    """One source: what to read."""

    key_hints: ClassVar[Mapping[str, str]] = {"extractor": _DATAHUB, "extractor_config": _DATAHUB}

    type: PublicStr
    """Kind of source: `mlflow`, `feast`, `sagemaker`, `definitions` (files), or the name of an
    installed plug-in."""


class SinkSpec(PluginSpec):
    """The catalog that is written to."""

    type: PublicStr
    """`rest` (a catalog service), `file`, or `embedded` (the embedded catalog)."""


def _sink_for(to: str) -> SinkSpec:
    if to.startswith(("http://", "https://")):
        return SinkSpec(type="rest", config={"server": to})
    if "://" in to or to.endswith(".db"):
        return SinkSpec(type="embedded", config={"db": to})
    return SinkSpec(type="file", config={"path": to})


def _name_for(uri: str) -> str:
    """Return a recipe's name for a tracking URI: its host, or the name of its file or folder."""
    rest = uri.partition("://")[2].partition("?")[0]
    host = rest.partition("/")[0].rpartition("@")[2]
    place = host or Path(rest or uri).stem
    return "mlflow-" + (re.sub(r"[^A-Za-z0-9.-]+", "-", place).strip("-")[:100] or "local")


class VerdictsSpec(RecipeModel):
    """The metadata tests whose failures are shown on the entities, by URN or pattern.

    A pattern is a regular expression on the end of a test's URN or on its name, and matches from
    the start.
    """

    tag: tuple[Pattern, ...] = ()
    """Tests that give the entities that fail them a tag, until they pass."""
    incident: tuple[Pattern, ...] = ()
    """Tests that open an incident on an entity that begins to fail them, and resolve it when it
    passes, in a catalog that keeps incidents of its entity type."""

    @property
    def digest(self) -> str:
        """A digest of what is named; empty if nothing is."""
        named = self.model_dump(mode="json")
        return content_hash(named) if any(named.values()) else ""


class EvaluateSpec(RecipeModel):
    """Whether and how metadata tests are evaluated after the writing."""

    enabled: bool = True
    """Whether to evaluate metadata tests on the written entities."""
    should_push: bool = True
    """Whether the service stores the results on the entities."""
    where: Literal["auto", "service", "client"] = "auto"
    """`service`: the catalog evaluates. `client`: the run reads the aspects, evaluates them and
    writes the results. `auto`: `client` if the service has no endpoint for evaluation."""
    test_urns: list[Annotated[PublicStr, AfterValidator(_test_urn)]] = Field(default_factory=list)
    """URNs of the tests to evaluate; an empty list means all."""
    test_files: list[RecipePath] = Field(default_factory=list)
    """Files with metadata tests, as for `catalog tests push`. Tests that the catalog lacks are
    created; a test with another definition in the catalog is an error."""
    scope: Literal["written", "all"] = "written"
    """`written` evaluates the changed entities of a run, `all` every entity of the run."""
    write_back: bool = False
    """Whether to write the verdict of a model's tests to its MLflow run or version, as the tags
    `mlcat.tests` and `mlcat.tests_at`. MLflow has to be read over HTTP, as a user with permission
    to edit."""

    verdicts: VerdictsSpec = Field(default_factory=VerdictsSpec)
    """Metadata tests whose failures are shown as tags and incidents."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        shown = {"write_back": self.write_back, "verdicts": self.verdicts.digest}
        for key, is_on in shown.items():
            if is_on and not self.enabled:
                raise ValueError(f"`{key}` requires `enabled: true`")
        return self


class LineageSpec(RecipeModel):
    """Whether the datasets that models used are looked up in the catalog."""

    check: bool = True
    """Whether to report how many of the datasets exist, with similar names for missing ones."""


class LimitsSpec(RecipeModel):
    """Bounds on what one run may do; a run that would pass one stops with exit code 2."""

    max_new_entities: int = Field(default=50_000, ge=0)
    """Maximum number of new entities that a run may create."""
    max_removed_ratio: float = Field(default=0.2, ge=0, le=1)
    """Share of a recipe's entities that a run may remove; ten are always allowed."""


class StateSpec(RecipeModel):
    """The state of a recipe: its database, and how long a checkpoint is trusted."""

    url: RecipeUrl = "sqlite:///.mlcat/state.db"
    """Address of the state database: an SQLite file, or a PostgreSQL database. It is a cache: a
    recipe that loses it reads everything again. A `file` sink keeps no state."""
    full_every: Duration = Duration("1d")
    """Interval between full runs. A full run reads all of the source and compares it with the
    catalog. It finds changes that sources do not report, such as an edit long after the end of an
    MLflow run, or an entry that another writer's upsert deleted."""


def dead_letter_file(folder: Path, name: str) -> Path:
    """Return the file of dead letters of the recipe `name` whose paths start at `folder`."""
    return folder / ".mlcat" / f"{file_stem(name)}.dead.jsonl"


class Recipe(RecipeModel):
    """A recipe: sources, sink, and everything that a run does between and after them."""

    key_hints: ClassVar[Mapping[str, str]] = {
        "transformers": ENRICH_FORM,
        "datahub_api": "is not needed: the connection is that of `sink`; delete it",
        **dict.fromkeys(("run_id", "reporting", "flags", "failure_log", "extractor"), _DATAHUB),
    }

    name: Annotated[PublicStr, NotContent()] = Field(default="recipe", max_length=200)
    """Name of the recipe in base, state, lock and reports. Default: the name of the file. Do not
    change it later: the recipe would lose the ownership of its entries."""
    writer_id: Annotated[PublicStr | None, NotContent()] = Field(
        default=None, pattern=r"^[A-Za-z0-9._-]{1,40}$"
    )
    """Id of the recipe in the base, unlike that of another recipe with the same name. Default: a
    random one, kept in the state. Set it if a run does not find the state of the last one, as in a
    container without a volume, or if several machines run the recipe."""
    # What their own options decide is remembered with each place that a source reads.
    sources: Annotated[list[SourceSpec], NotContent()] = Field(min_length=1)
    """Sources, read in this order; feature sources are read before run sources."""
    enrich: list[EnrichRule] = Field(default_factory=list)
    """Rules that add tags, owners and other metadata to the entities of the sources."""
    sink: Annotated[SinkSpec | None, NotContent()] = None
    """The catalog to write to. Default on a terminal: the embedded catalog."""
    merge: dict[FieldName, Policy] = Field(default_factory=dict)
    """Merge policy of a field, `<aspect>.<field>`: `three_way` (entries of others are kept,
    entries that the source dropped are removed; the default), `union` (nothing is removed), `ours`
    (only the source counts)."""
    reused_names: Literal["keep", "clear"] = "keep"
    """What others put on an experiment, registered model or version that was deleted, once another
    one has its name: `keep` it, with the property `mlcat.reused: true`, or `clear` it. The note
    `name_reused` is in the report either way."""
    evaluate: Annotated[EvaluateSpec, NotContent()] = Field(default_factory=EvaluateSpec)
    """Evaluation of metadata tests."""
    lineage: Annotated[LineageSpec, NotContent()] = Field(default_factory=LineageSpec)
    """Check of lineage to datasets."""
    limits: Annotated[LimitsSpec, NotContent()] = Field(default_factory=LimitsSpec)
    """Limits of one run."""
    # Validated like a written one, so that its relative address starts at the recipe's folder.
    state: Annotated[StateSpec, NotContent()] = Field(default_factory=lambda: cast("StateSpec", {}))
    """The database of checkpoints and fingerprints."""

    dead_letters: Annotated[RecipePath | None, NotContent()] = None
    """File of the last run's dead letters as JSON Lines: proposals that the catalog refused, and
    unusable records. Default: `.mlcat/<name>.dead.jsonl` in the recipe's folder. Without dead
    letters there is no file."""

    report_to_catalog: Annotated[bool, NotContent()] = True
    """Whether to write the report of each run to the catalog, for DataHub's Ingestion page. A
    `file` sink keeps none."""

    _origin: Origin = PrivateAttr(default_factory=Origin)

    @property
    def origin(self) -> Origin:
        """Return where the recipe came from; without file and lines for one made in Python."""
        return self._origin

    @property
    def base_dir(self) -> Path:
        """Return the folder where relative paths of the recipe start."""
        return self._origin.base_dir or Path.cwd()

    @property
    def writer_ids(self) -> tuple[str, ...] | None:
        """Return the writer id of its own that the recipe names, None for none."""
        return None if self.writer_id is None else (self.writer_id,)

    @property
    def dead_letter_file(self) -> Path:
        """Return where the proposals are kept that the catalog refused."""
        return self.dead_letters or dead_letter_file(self.base_dir, self.name)

    @classmethod
    def load(cls, path: str | Path, environ: Mapping[str, str] | None = None) -> Self:
        """Return the recipe in a YAML or JSON file; `-` reads standard input.

        `environ` takes the place of the process's environment for `${VAR}`.

        Examples:
            >>> Recipe.load("recipe.yml").name
            'recipe'

        Raises:
            RecipeError: the file cannot be read.
            RecipeSyntaxError: it is not YAML or JSON.
            RecipeValidationError: it says something wrong; all of it is listed.
        """
        return cls._require_valid(read_draft(path, environ))

    @classmethod
    def parse(
        cls,
        text: str | bytes,
        *,
        label: str = "recipe.yml",
        base_dir: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """Return the recipe in YAML or JSON text, as `load` does; `label` names it in errors."""
        return cls._require_valid(draft_of(text, label, base_dir or Path.cwd(), environ))

    @classmethod
    def for_tracking_uri(cls, uri: str, to: str | None = None, **options: Any) -> Self:
        """Return the recipe of `mlcat-ingest <uri> [--to <to>]`, with options of the source.

        `to` is the address of a catalog service, of a database of the embedded catalog (an
        address, or a path that ends in `.db`), or the path of a file of proposals. An option
        that is None is not set.
        """
        given = {key: value for key, value in options.items() if value is not None}
        config: dict[str, Any] = {"tracking_uri": uri, **given}
        sink = None if to is None else _sink_for(to)
        source = SourceSpec(type="mlflow", config=config)
        if sink is None:
            return cls(name=_name_for(uri), sources=[source])
        return cls(name=_name_for(uri), sources=[source], sink=sink)

    @classmethod
    def from_draft(cls, draft: Draft, configs: Models = ()) -> tuple[Self | None, list[Problem]]:
        """Return the recipe of `draft`, or None, and every problem found so far.

        `configs` are the models of the configurations in it.
        """
        recipe, problems = validate_config(cls, draft.data, (), draft.origin, configs)
        if recipe is not None:
            recipe._origin = draft.origin  # noqa: SLF001 - its own class sets it
            mask_secrets(recipe, draft.data)
        return recipe, [*draft.problems, *problems]

    @classmethod
    def _require_valid(cls, draft: Draft) -> Self:
        recipe, problems = cls.from_draft(draft)
        if recipe is None or problems:
            raise draft.origin.error(problems)
        return recipe
