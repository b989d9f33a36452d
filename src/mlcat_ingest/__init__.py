"""Keep a metadata catalog true about machine learning: MLflow runs become models in it.

Examples:
    >>> from mlcat_ingest import Pipeline, Recipe
    >>> Pipeline(Recipe.load("recipe.yml")).run().exit_code
    0

Names are imported when they are first used, so that `import mlcat_ingest` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlcat_ingest.client.rest.client import CatalogClient
    from mlcat_ingest.errors import (
        AspectChangedError,
        AspectRejectedError,
        AspectTooLargeError,
        AuthenticationError,
        CatalogRequestError,
        CatalogUnavailableError,
        CodecError,
        DefinitionError,
        FatalError,
        InvalidUrnError,
        LimitError,
        MissingExtraError,
        MlcatError,
        NotAuthorizedError,
        ProtocolMismatchError,
        RateLimitedError,
        RecipeError,
        RecipeLockedError,
        RecipeSyntaxError,
        RecipeValidationError,
        RecordError,
        RetryableError,
        SkippableError,
        SourceUnavailableError,
        StateDamagedError,
        StateUnavailableError,
        UnknownPluginError,
    )
    from mlcat_ingest.metadata.proposal import Entity, Proposal
    from mlcat_ingest.pipeline.report.report import Report
    from mlcat_ingest.recipe.model import Recipe
    from mlcat_ingest.workflows.ingest import Pipeline

    __version__: str

__all__ = [
    "AspectChangedError",
    "AspectRejectedError",
    "AspectTooLargeError",
    "AuthenticationError",
    "CatalogClient",
    "CatalogRequestError",
    "CatalogUnavailableError",
    "CodecError",
    "DefinitionError",
    "Entity",
    "FatalError",
    "InvalidUrnError",
    "LimitError",
    "MissingExtraError",
    "MlcatError",
    "NotAuthorizedError",
    "Pipeline",
    "Proposal",
    "ProtocolMismatchError",
    "RateLimitedError",
    "Recipe",
    "RecipeError",
    "RecipeLockedError",
    "RecipeSyntaxError",
    "RecipeValidationError",
    "RecordError",
    "Report",
    "RetryableError",
    "SkippableError",
    "SourceUnavailableError",
    "StateDamagedError",
    "StateUnavailableError",
    "UnknownPluginError",
    "__version__",
]

_ELSEWHERE = {
    "CatalogClient": "client.rest.client",
    "Entity": "metadata.proposal",
    "Pipeline": "workflows.ingest",
    "Proposal": "metadata.proposal",
    "Recipe": "recipe.model",
    "Report": "pipeline.report.report",
}


def __getattr__(name: str) -> Any:
    """Import a public name on its first use (PEP 562)."""
    if name == "__version__":
        from mlcat_ingest.core.environment import package_version

        value: Any = package_version()
    elif name in __all__:
        module = import_module(f"{__name__}.{_ELSEWHERE.get(name, 'errors')}")
        value = getattr(module, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
