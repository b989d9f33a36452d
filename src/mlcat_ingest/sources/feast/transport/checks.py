"""What `mlcat-ingest check` says about a Feast registry, whatever fetches it."""

from collections import Counter
from collections.abc import Iterator

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.sources.feast.raw import KINDS, Transport


def findings(transport: Transport, shown: str) -> Iterator[Finding]:
    """Yield whether the registry at `shown` can be read, and how much each project holds.

    Cost: the registry is read once.
    """
    what = "Feast registry"
    counts: dict[str, Counter[str]] = {}
    try:
        for raw in transport.objects():
            counts.setdefault(raw.project, Counter())[raw.kind] += 1
        identity = transport.server_id()
    except MlcatError as error:
        yield Finding(what, "failed", error.message, error.hint)
        return
    total = sum(sum(held.values()) for held in counts.values())
    if not total:
        hint = "has `feast apply` been run, and may the user see anything?"
        yield Finding(what, "warning", f"{shown} is readable, but holds nothing", hint)
        return
    yield Finding(what, "ok", f"{shown} is readable: {total:,} objects")
    yield Finding("Feast server id", "ok", identity)
    for project in sorted(counts):
        yield Finding("Feast project", "ok", f"{project or 'none'}: {_in_words(counts[project])}")


def _in_words(held: Counter[str]) -> str:
    words = []
    for kind in KINDS:
        if kind != "project" and held[kind]:
            name = kind.replace("_", " ")
            plural = f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
            words.append(f"{held[kind]:,} {name if held[kind] == 1 else plural}")
    return ", ".join(words) or "nothing"
