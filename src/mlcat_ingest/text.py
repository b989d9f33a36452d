"""Words for people that several layers write alike."""


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a count with its noun in the number that agrees: "1 event", "2,000 events"."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"
