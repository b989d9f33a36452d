"""`compat: datahub`, for sources that write to the entities of DataHub's own source."""

from typing import Protocol, TypeVar


class _TakesCompat(Protocol):
    @property
    def compat(self) -> str | None: ...

    @property
    def instance(self) -> str | None: ...


ConfigT = TypeVar("ConfigT", bound=_TakesCompat)


def without_instance(config: ConfigT) -> ConfigT:
    """Return `config`.

    Raises:
        ValueError: it has an instance, too.
    """
    if config.compat is not None and config.instance is not None:
        raise ValueError(
            "`compat: datahub` and `instance` exclude each other: DataHub's own source knows "
            "no instances, so no name of the two would be the same"
        )
    return config
