"""`mlcat-ingest get`: the stored aspects of an entity."""

import json

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.options import URN, connect, say_options, service_options
from mlcat_ingest.errors import CatalogRequestError, RecipeError

_NOT_FOUND = 404


@click.command(
    epilog="\b\nExample:\n"
    "  mlcat-ingest get 'urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,iris,PROD)' status"
)
@click.argument("urn", type=URN)
@click.argument("aspect", required=False)
@service_options
@say_options
def command(urn: str, aspect: str | None, server: str | None, token: str | None) -> None:
    """Print ASPECT of the entity URN as JSON, or all its aspects by name."""
    with connect(server, token) as client:
        if aspect is not None:
            value = client.get_aspect(urn, aspect)
            if value is None:
                raise CatalogRequestError(
                    f"the catalog has no {aspect} of {urn}", status=_NOT_FOUND, urn=urn
                )
            output.out(json.dumps(value, indent=2, ensure_ascii=False))
            return
        stored = client.read_many([urn], _aspects_of(urn)).get(urn)
    if not stored:
        raise CatalogRequestError(f"the catalog has no {urn}", status=_NOT_FOUND, urn=urn)
    values = {name: one.value for name, one in stored.items()}
    output.out(json.dumps(values, indent=2, ensure_ascii=False))


def _aspects_of(urn: str) -> list[str]:
    from mlcat_ingest.metadata.registry import ENTITIES
    from mlcat_ingest.metadata.urn import entity_type_of

    entity_type = entity_type_of(urn)
    kind = ENTITIES.get(entity_type)
    if kind is None:
        raise RecipeError(f"which aspects a {entity_type} has is not known", hint="name one")
    return sorted(kind.aspects | {kind.key})
