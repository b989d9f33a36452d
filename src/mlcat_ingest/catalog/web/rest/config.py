"""`/config` and `/health`: what clients ask before anything else."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from mlcat_ingest.catalog.web.http import Call
from mlcat_ingest.catalog.web.rest.endpoint import CONNECTOR, OPERATOR, TEXT, Endpoint, record


class Config:
    """The endpoints that every client may read, without a token too."""

    def __init__(self) -> None:
        """Find out which version this is."""
        # Every command of DataHub's asks for the configuration, and this reads a file.
        self._version = version("mlcat-ingest")

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        config = record("noCode", noCode={"const": "true"})
        return (
            Endpoint("GET", "/config", self.config, {200: config}, client=CONNECTOR),
            Endpoint(
                "GET",
                "/health",
                self.health,
                {200: record("status", status=TEXT)},
                client=OPERATOR,
            ),
        )

    def config(self, _call: Call) -> dict[str, Any]:
        """Say what this service can do, in the terms in which DataHub's clients ask.

        `noCode` has to be a text. There is no version under DataHub's own name, so its clients
        stay on Rest.li, which alone has conditional writes for them.
        """
        return {
            "noCode": "true",
            "models": {},
            "versions": {"mlcat-ingest": {"version": self._version}},
            "datahub": {"serverType": "mlcat-ingest", "serverEnv": "core"},
            "managedIngestion": {"enabled": False, "defaultCliVersion": None},
            "statefulIngestionCapable": True,
            "supportsImpactAnalysis": False,
            "patchCapable": True,
            "retention": "true",
            "telemetry": {"enabledCli": False, "enabledIngestion": False},
            "timeZone": "GMT",
        }

    def health(self, _call: Call) -> dict[str, Any]:
        """Say that the service answers."""
        return {"status": "ok"}
