"""Commands that ask a catalog service: `get`, `query`, `evaluate`, `task`, `explain`, `card`."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.options import (
    Command,
    OutputSettings,
    catalog_options,
    checked_name,
    checked_urn,
    connect,
    open_catalog,
    service_options,
)
from mlcat_ingest.core.text import utc_second
from mlcat_ingest.errors import CatalogRequestError, RecipeError
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.pipeline.report.report import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:
    from mlcat_ingest.client.base import TestOutcome
    from mlcat_ingest.client.rest.client import CatalogClient


_json_option = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")


@click.command(
    cls=Command,
    examples=[
        "get iris@3 status",
        "get 'urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,iris,PROD)'",
    ],
)
@click.argument("entity", type=checked_name, metavar="NAME|URN")
@click.argument("aspect", required=False)
@catalog_options
def get(entity: str, aspect: str | None, **catalog: Any) -> None:
    """Print ASPECT of an entity as JSON, or all its aspects by name.

    NAME is that of a model, experiment or run, a run's id, churn@3 or churn:champion.
    """
    from mlcat_ingest.workflows.names import urn_of

    with open_catalog(**catalog) as (opened, *_):
        urn = urn_of(opened, entity)
        names = aspects_of(urn, "name an aspect") if aspect is None else [aspect]
        stored = opened.read_many([urn], names).get(urn)
    if not stored:
        what = f"the catalog has no {urn if aspect is None else f'aspect {aspect} of {urn}'}"
        raise CatalogRequestError(what, status=HTTPStatus.NOT_FOUND, urn=urn)
    values = {name: item.value for name, item in stored.items()}
    output.out_json(values if aspect is None else values[aspect])


def aspects_of(urn: str, hint: str | None = None) -> list[str]:
    """Return the names of the aspects that an entity may have.

    Raises:
        RecipeError: its type is not known; `hint` says what to do then.
    """
    from mlcat_ingest.metadata.registry import ENTITY_TYPES
    from mlcat_ingest.metadata.urn import entity_type_of
    from mlcat_ingest.recipe.loader import nearest

    entity_type = entity_type_of(urn)
    kind = ENTITY_TYPES.get(entity_type)
    if kind is None:
        meant = nearest(entity_type, ENTITY_TYPES)
        raise RecipeError(
            f"unknown entity type {entity_type}",
            hint=f"did you mean {meant}?" if meant else hint,
        )
    return sorted(kind.aspects)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise click.BadParameter("not a JSON object")
    return value


@click.command(
    cls=Command,
    examples=[
        (
            "query '{ mlModelGroup(urn: \"urn:li:mlModelGroup:("
            "urn:li:dataPlatform:mlflow,iris,PROD)\") { name } }'"
        )
    ],
)
@click.argument("graphql")
@click.option(
    "--variables", metavar="JSON", type=_object, help="Variables of the query, one JSON object."
)
@service_options
def query(graphql: str, variables: dict[str, Any] | None, **service: Any) -> None:
    """Send the query GRAPHQL (`-`: standard input) and print the reply's data as JSON."""
    if graphql == "-":
        graphql = sys.stdin.read()
    with connect(**service) as client:
        data = client.graphql(graphql, variables)
    output.out_json(data)


_TIMEOUT_S: Final = 300


@click.command(cls=Command, examples=["task 'oTUltX4IQMOUUVeiohTt8A:124' --wait"])
@click.argument("task", metavar="NODE:ID")
@click.option("--wait", is_flag=True, help="Wait until the task has ended.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help=f"Maximum wait in seconds with --wait. Default: {_TIMEOUT_S}.",
)
@service_options
def task(task: str, timeout_s: float | None, *, wait: bool, **service: Any) -> int:
    """Print the status of the task NODE:ID as JSON.

    Exit status: 0 the task is known; 1 the task is unknown, or --wait timed out.
    """
    if timeout_s is not None and not wait:
        raise click.UsageError("--timeout requires --wait")
    longest_s = _TIMEOUT_S if timeout_s is None else timeout_s
    with connect(**service) as client:
        status = client.wait(task, timeout_s=longest_s) if wait else client.task_status(task)
    if status.error is not None:
        OutputSettings.current().print_error(status.error)
        return EXIT_FAILED
    shown = {
        "completed": status.completed,
        "taskId": status.task,
        "runTimeNanos": status.run_time_ns,
        "status": dict(status.status),
    }
    output.out_json(shown)
    return EXIT_OK


@click.command(
    cls=Command,
    examples=["evaluate --push 'urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,iris,PROD)'"],
)
@click.argument("urns", nargs=-1, required=True, type=checked_urn, metavar="URN...")
@click.option("--push", is_flag=True, help="Have the service store the results.")
@click.option(
    "--test",
    "tests",
    multiple=True,
    type=checked_urn,
    metavar="URN",
    help="Evaluate only this test; repeatable.",
)
@service_options
def evaluate(urns: tuple[str, ...], tests: tuple[str, ...], *, push: bool, **service: Any) -> int:
    """Evaluate the metadata tests of the entities URN and print their outcomes.

    Exit status: 0 all entities were evaluated, passing or failing; 1 some could not be evaluated,
    or are not in the catalog.
    """
    from mlcat_ingest.core.paging import chunks

    print_error = OutputSettings.current().print_error
    code = EXIT_OK
    with connect(**service) as client:
        for batch in chunks(urns, MAX_REQUEST_ITEMS):
            evaluation = client.evaluator.evaluate_batch(batch, should_push=push, test_urns=tests)
            for urn, outcome in evaluation.outcomes.items():
                _show(urn, outcome)
            left = [urn for urn in batch if urn not in evaluation.outcomes]
            absent = _absent(client, left)
            for urn in absent:
                print_error(f"{urn} is not in the catalog")
            if absent:
                code = EXIT_FAILED
            if evaluation.not_evaluated is not None and len(absent) < len(left):
                print_error(f"not evaluated: {evaluation.not_evaluated}")
                return EXIT_FAILED
    return code


def _absent(client: "CatalogClient", urns: Sequence[str]) -> list[str]:
    """Return those of `urns` that the catalog does not hold; removed ones it does."""
    from mlcat_ingest.client.base import each_type
    from mlcat_ingest.metadata.registry import key_aspect_name

    there = each_type(client.read_many, urns, lambda kind: [key_aspect_name(kind)])
    return [urn for urn in urns if urn not in there]


def _show(urn: str, outcome: "TestOutcome") -> None:
    output.out(f"{urn}: {len(outcome.passing)} passing, {len(outcome.failing)} failing")
    for kind in ("passing", "failing"):
        for test in getattr(outcome, kind):
            output.out(f"  {kind}  {test}")


@click.command(
    cls=Command,
    examples=["explain iris:champion", "explain --recipe recipe.yml --json 'urn:li:mlModel:(…)'"],
)
@click.argument("entity", type=checked_name, metavar="NAME|URN")
@catalog_options
@_json_option
def explain_command(entity: str, *, as_json: bool, **catalog: Any) -> int:
    """Show who wrote each entry of an entity, and from which record.

    NAME is that of a model, experiment or run, a run's id, churn@3 or churn:champion.

    An entry belongs to a recipe if the recipe's base claims it, on the entity or in the state of
    --recipe. Other entries were written by a person or another tool, or are computed by the
    catalog. A user with a name is named where the catalog kept the version. Nothing is written.
    `plan` shows the effect of a recipe's next run.

    Exit status: 0 the entity was found; 1 the catalog does not have the entity, or it failed; 2
    invalid command or recipe, or several entities have the name; 130 interrupted.
    """
    from mlcat_ingest.client.rest.client import CatalogClient
    from mlcat_ingest.workflows.card import kept_versions
    from mlcat_ingest.workflows.explain import explain, explanation_lines, with_users
    from mlcat_ingest.workflows.names import urn_of

    with open_catalog(**catalog) as (opened, name, bases_of):
        urn = urn_of(opened, entity)
        explanation = explain(opened, urn, aspects_of(urn), bases_of(urn))
        # The versions of all aspects are many: only those in which others wrote are read.
        others = {one.aspect for one in explanation.entries if one.written_by == "person or tool"}
        if others and isinstance(opened, CatalogClient):
            explanation = with_users(explanation, kept_versions(opened, urn, others))
    as_json = as_json or OutputSettings.current().log_format == "json"
    lines = explanation_lines(explanation, name)
    output.out_either(asdict(explanation), lines, as_json=as_json)
    return EXIT_OK


def _span(_: click.Context, __: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """Return the first and the last millisecond of a day, or of a time; those of UTC."""
    if text is None:
        return None
    try:
        start = datetime.fromisoformat(text)
        start = (start if start.tzinfo else start.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        known = "such as 2026-01-31, 2026-01-31T12:00 or 2026-01-31T12:00+01:00"
        raise click.BadParameter(f"{text!r} is no day and no time of ISO 8601, {known}") from error
    if start > datetime.now(UTC):
        raise click.BadParameter(f"{text} is in the future")
    begin_ms = (start - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
    return begin_ms, begin_ms + (0 if len(text) > 10 or "T" in text else 86_399_999)


def _on_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option of a day or a time, with its help."""
    return click.option("--on", "on", metavar="DATE", callback=_span, help=text)


@click.command(
    cls=Command,
    examples=["card iris:champion", "card iris@3 --format annex-iv --on 2026-06-30 --out annex.md"],
)
@click.argument("model", type=checked_name, metavar="NAME|URN")
@click.option(
    "--format",
    "form",
    type=click.Choice(["md", "hf", "cyclonedx", "annex-iv", "json"]),
    default="md",
    show_default=True,
    help="Markdown, a model card of Hugging Face, a bill of materials of CycloneDX 1.6 (JSON), the "
    "parts of Annex IV of the EU AI Act (Markdown), or all as JSON.",
)
@_on_option("As it was at the end of this day or at this time (UTC, 2026-01-31T12:00).")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write it there."
)
@catalog_options
def card(
    model: str, form: str, on: tuple[int, int] | None, out: Path | None, **catalog: Any
) -> None:
    """Print the card of a model: a run, or a version of a registered model.

    NAME is that of a run, a run's id, churn@3 or churn:champion. An alias means the version that
    has it now, with --on, too: `when` shows which had it on a date.

    Each line has the aspect and version that it is from, and who wrote that and when. What the
    catalog does not have is listed as missing. The same versions make the same card again.

    Exit status: 0 the card is written; 1 the catalog does not have the model, or did not have it
    then, or it failed; 2 invalid command or recipe, or several models have the name; 130
    interrupted.
    """
    from mlcat_ingest.cli.files import write_whole
    from mlcat_ingest.metadata.card_formats import FORMS
    from mlcat_ingest.workflows.card import read_passport
    from mlcat_ingest.workflows.names import urn_of

    with open_catalog(**catalog) as (opened, *_):
        urn = urn_of(opened, model, ("version", "run", "model"))
        text = FORMS[form](read_passport(opened, urn, on and on[1]))
    if out is None:
        output.out(text.removesuffix("\n"))
        return
    try:
        write_whole(out, [text])
    except OSError as error:
        why = f"{error.strerror}; name a file in a folder that is there and that you may write to"
        raise click.UsageError(f"--out: {out} cannot be written: {why}") from error


@click.command(
    cls=Command,
    examples=[
        "when champion of churn --on 2026-03-01",
        "when champion of churn --recipe recipe.yml",
    ],
)
@click.argument("alias")
@click.argument("of", type=click.Choice(["of"]), metavar="of")
@click.argument("model", type=checked_name, metavar="MODEL")
@_on_option("A day or a time (UTC, 2026-01-31 or 2026-01-31T12:00). Default: now.")
@catalog_options
@_json_option
def when_command(
    alias: str, of: str, model: str, on: tuple[int, int] | None, *, as_json: bool, **catalog: Any
) -> int:
    """Show which version of the registered model MODEL had ALIAS on a date.

    "exact": it had it at a moment of that day, which an event or a pass proves. "interval": nothing
    proves that for the day, and the moves nearest to it are shown. "not known": the first evidence
    is later. An alias that moved away and back unseen is in no answer. A stage of MLflow, such as
    Production, is answered by the versions of tags that the catalog keeps, for all that were in it.

    Exit status: 0 something is known; 1 nothing is, or the catalog failed; 2 invalid command or
    recipe, or several models have the name; 130 interrupted.
    """
    from mlcat_ingest.workflows.when import when, when_data, when_lines

    del of
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    begin_ms, end_ms = on or (now_ms, now_ms)
    with open_catalog(**catalog) as (opened, *_):
        found = when(opened, alias, model, begin_ms, end_ms)
    second = utc_second(begin_ms)
    shown = second if begin_ms == end_ms else second.partition(" ")[0]
    lines = when_lines(found, f"{alias} of {model} on {shown}")
    output.out_either(when_data(found), lines, as_json=as_json)
    return EXIT_OK if found.certainty != "not known" else EXIT_FAILED
