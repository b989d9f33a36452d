"""Deleting an entity for good, with its history; only the doctor's probe entity ever is.

Source: DataHub's Rest.li resource ``/entities``, action ``delete``.
"""

from typing import Final

from mlcat_ingest.client.connection import Connection
from mlcat_ingest.metadata.codec import dumps

_DELETE: Final = "/entities?action=delete"


def delete_entity(connection: Connection, urn: str) -> None:
    """Delete an entity with all it has; one that does not exist is no error.

    Raises:
        CatalogRequestError: the service has no such call, or refused it.
        CatalogUnavailableError, AuthenticationError, NotAuthorizedError,
        ProtocolMismatchError: as their names say.

    Cost: one request.
    """
    reply = connection.post(_DELETE, dumps({"urn": urn}))
    if not reply.ok:
        raise connection.refusal(reply, what="the deletion", urn=urn)
