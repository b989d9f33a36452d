"""Limits of one request to the catalog service, in one table."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the service; what passes one is refused with a 4xx that names it.

    Attributes:
        body_bytes: longest request body, in bytes. DataHub's clients split at 15 MiB.
        body_seconds: longest time that the body of a request may take to arrive, in seconds.
        requests_at_once: most requests that are answered at the same time; further ones get a 429
            that tells them to come back after a second. DataHub's clients do so by themselves.
        proposals: most proposals, or aspects, in one batch, or changes in one mutation. DataHub's
            clients send 200.
        batch_urns: most URNs in one batch read or batch evaluation.
        page_size: most results in one page; a larger count is cut to it.
        query_depth: deepest nesting of a GraphQL query, in fields; that of a DataHub server.
        query_fields: most fields in a GraphQL query as it is written; those of a named fragment
            count once. So does a DataHub server count.
        query_tokens: most tokens of a GraphQL query; as many as on a DataHub server.
        query_chars: longest GraphQL query, in characters; as on a DataHub server.
        query_values: most values in the answer to a GraphQL query.
        query_seconds: longest time that one GraphQL query may run, in seconds.
    """

    body_bytes: int = 16_000_000
    body_seconds: float = 60
    requests_at_once: int = 100
    proposals: int = 10_000
    batch_urns: int = 10_000
    page_size: int = 10_000
    query_depth: int = 50
    query_fields: int = 2_000
    query_tokens: int = 15_000
    query_chars: int = 1_048_576
    query_values: int = 500_000
    query_seconds: float = 15


DEFAULT_LIMITS: Final = Limits()

NAMES: Final = 1_000
"""Most distinct names of aspects, or of relationships, in one request."""

SEARCH_CRITERIA: Final = 100
"""Most criteria of one search, and most alternatives; SQLite nests conditions 1000 deep at most."""

SEARCH_PATTERNS: Final = 100
"""Most values of one search that are compared otherwise than for equality."""

SEARCH_PATTERN_CHARS: Final = 1_000
"""Longest of those values, and longest pattern of URNs, in characters."""

SEARCH_VALUES: Final = 10_000
"""Most values of one search."""

SORT_KEYS: Final = 10
"""Most fields that one search may be sorted by."""

QUERY_LEVELS: Final = 20
"""Deepest nesting of parentheses in a search query."""

PATCH_OPERATIONS: Final = 10_000
"""Most operations in one patch."""

PATCH_TAKEN_BYTES: Final = 16_000_000
"""Most that the operations `test`, `move` and `copy` of one patch may take, in bytes of JSON."""

PATCH_PATH_PARTS: Final = 50
"""Most parts in a path of a patch."""

PATCH_KEYS: Final = 10
"""Most key fields that a patch may give for one array."""

WRONG_TOKENS: Final = 10
"""Most different wrong tokens from one address within `WRONG_TOKENS_SECONDS`."""

WRONG_TOKENS_SECONDS: Final = 60
"""How long wrong tokens are counted, and how long an address with too many is refused."""

HEAD_SECONDS: Final = 10
"""Longest time that the head of a request may take to arrive, in seconds."""

BODY_TAIL_SECONDS: Final = 60
"""How long the rest of a body may take after the answer, and how long an answer is kept unread."""

FORM_BYTES: Final = 20_000
"""Longest form of the sign-in, in bytes."""

EDIT_BYTES: Final = 1_000_000
"""Longest other form of the pages, in bytes."""

FORM_FIELD_BYTES: Final = 2_000
"""A form may have as many fields as its limit has this many bytes."""

FORM_SECONDS: Final = 5
"""Longest time that a form may take to arrive, in seconds."""

SIGN_INS_AT_ONCE: Final = 5
"""Most forms of the sign-in that arrive from one address at the same time."""

TARGET_BYTES: Final = 65_536
"""Longest path and query of a request, in bytes."""

SESSIONS: Final = 10_000
"""Most browsers that are signed in; beyond it the oldest session ends."""

SESSION_SECONDS: Final = 43_200
"""How long a sign-in lasts."""
