"""What the embedded catalog costs: writes, reads, a large group, searches, pages, and its size.

    python tests/benchmarks/bench_catalog.py
    python tests/benchmarks/bench_catalog.py --parts writes,reads --rounds 5

Every part runs against `mlcat-ingest catalog serve` over HTTP. CPU is that of the server alone, as
the kernel counts it. Prints the best of the rounds, since whatever else a machine does only adds
to a cost, and beside each figure the budget it is held to.
"""

import argparse
import http.client
import json
import shutil
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.catalog_entities import VOCABULARY, Aspect, mixed, run, small, word, words
from benchmarks.measure import Figure, Server, serving
from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.graphql.execution import answer
from support.catalog_store import group, statements
from support.pages import Reader
from support.ports import free_port
from support.recorded_requests import proposal

BATCH = 200
FILL_BATCH = 2_000
MEMBERS = 1_000
PAGE_METRICS = 30
ALIKE = 12

MODEL_QUERY = """query ($urn: String!) { mlModel(urn: $urn) { name description
  properties { description version type mlFeatures groups { urn name } } } }"""
GROUP_QUERY = """query ($urn: String!) { mlModelGroup(urn: $urn) { name description
  relationships(input: {types: ["MemberOf"], direction: INCOMING, start: 0, count: 1000}) {
    total relationships { entity { urn
      ... on MLModel { name properties { description type } } } } } } }"""


SEARCH_QUERY = """query ($input: SearchAcrossEntitiesInput!) {
  searchAcrossEntities(input: $input) { start count total
    facets { field aggregations { value count } }
    searchResults { entity { urn type } matchedFields { name value } } } }"""

Wire = tuple[str, str, bytes]
"""A request: its method, its path and its body."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the command line asks for, and a folder to work in."""

    folder: Path
    aspects: int
    models: int
    entities: int
    requests: int
    connections: int


@contextmanager
def serving_catalog(database: Path) -> Iterator[Server]:
    """Serve `database` by the command that users run."""
    port = free_port()
    command = [sys.executable, "-m", "mlcat_ingest", "catalog", "serve"]
    command += ["--db", str(database), "--port", str(port)]
    log = database.with_suffix(".log")
    with serving(command, f"http://127.0.0.1:{port}", log=log) as server:
        yield server


def call(connection: http.client.HTTPConnection, method: str, path: str, body: bytes = b"") -> None:
    """Make one request, which has to succeed."""
    connection.request(method, path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200 or b'"errors"' in content[:200]:
        raise RuntimeError(f"{path} was answered with {answer.status}: {content[:500]!r}")


def send(server: Server, requests: Sequence[Wire], connections: int) -> float:
    """Make `requests` over so many connections at once; return how long it took, in seconds."""

    def share(first: int) -> None:
        with closing(http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=300)) as line:
            for method, path, body in requests[first::connections]:
                call(line, method, path, body)

    started = time.perf_counter()
    with ThreadPoolExecutor(connections) as pool:
        list(pool.map(share, range(connections)))
    return time.perf_counter() - started


def in_batches(aspects: Iterable[Aspect]) -> list[Wire]:
    """Return the requests that write `aspects`, ready to be sent."""
    proposals = [proposal(*aspect) for aspect in aspects]
    return [
        (
            "POST",
            "/aspects?action=ingestProposalBatch",
            json.dumps({"proposals": proposals[at : at + BATCH], "async": "false"}).encode(),
        )
        for at in range(0, len(proposals), BATCH)
    ]


def fill(database: Path, aspects: Iterable[Aspect]) -> None:
    """Write `aspects` in this process."""
    with closing(Store.open(database)) as store:
        writes: list[Write] = []
        for aspect in aspects:
            writes.append(Write(*aspect))
            if len(writes) == FILL_BATCH:
                store.write(writes)
                writes = []
        store.write(writes)


def writes(chosen: Chosen) -> Iterator[Figure]:
    """Write new small aspects and new models, change them, and write them once more as they are."""
    kinds = (
        ("small aspects", "≥ 8,000", small, chosen.aspects),
        ("models with 20 params and 20 metrics", "≥ 2,500", run, chosen.models),
    )
    with serving_catalog(chosen.folder / "writes.db") as server:
        for kind, budget, make, count in kinds:
            made = [make(number) for number in range(count)]
            changed = [(urn, name, {**value, "description": "new"}) for urn, name, value in made]
            for what, aspects, held_to in (
                ("new", made, budget),
                ("changed", changed, ""),
                ("unchanged", changed, ""),
            ):
                requests = in_batches(aspects)
                before = server.cpu_s()
                wall_s = send(server, requests, chosen.connections)
                cpu_s = server.cpu_s() - before
                yield Figure(f"{what} {kind}", count / wall_s, "a second", held_to)
                yield Figure(f"{what} {kind}, CPU", 1000 * cpu_s / count, "ms each")


def reads(chosen: Chosen) -> Iterator[Figure]:
    """Read single models by every endpoint, and 200 at once."""
    database = chosen.folder / "reads.db"
    made = [run(number) for number in range(1_000)]
    fill(database, made)
    fill(database, mixed(2_000))
    urns = [made[number % len(made)][0] for number in range(chosen.requests)]
    some = json.dumps([{"urn": urn, "mlModelProperties": {}} for urn, _, _ in made[:BATCH]])
    batch = ("POST", "/openapi/v3/entity/mlModel/batchGet", some.encode())
    one = "≤ 1.2"
    kinds: tuple[tuple[str, str, list[Wire]], ...] = (
        (
            "GET /aspects",
            one,
            [
                ("GET", f"/aspects/{quoted(urn)}?aspect=mlModelProperties&version=0", b"")
                for urn in urns
            ],
        ),
        ("GET /entitiesV2", one, [("GET", f"/entitiesV2/{quoted(urn)}", b"") for urn in urns]),
        ("GraphQL mlModel", one, [graphql(MODEL_QUERY, urn) for urn in urns]),
        (f"batchGet of {BATCH}", "", [batch] * max(1, chosen.requests // 40)),
    )
    with serving_catalog(database) as server:
        for name, budget, requests in kinds:
            yield Figure(f"{name}, CPU", cpu_ms(server, requests, chosen), "ms a request", budget)


def members(chosen: Chosen) -> Iterator[Figure]:
    """Read a group with a thousand models and a page of fields of each."""
    database = chosen.folder / "group.db"
    made = [run(number) for number in range(MEMBERS)]
    urn = group("all")
    fill(database, [(urn, "mlModelGroupProperties", {"name": "all"})])
    fill(database, [(one, name, {**value, "groups": [urn]}) for one, name, value in made])
    request = graphql(GROUP_QUERY, urn)
    with serving_catalog(database) as server:
        spent = cpu_ms(server, [request] * max(1, chosen.requests // 40), chosen)
    yield Figure(f"GraphQL group of {MEMBERS} models, CPU", spent, "ms a request")
    with closing(Store.open(database)) as store, statements(store) as seen:
        answer(store, GROUP_QUERY, {"urn": urn})
    yield Figure(f"GraphQL group of {MEMBERS} models, SQL", len(seen), "statements")


def full(chosen: Chosen) -> Iterator[Figure]:
    """Fill a catalog; search it, and look at what it takes on the disk and in memory."""
    database = chosen.folder / "full.db"
    started = time.perf_counter()
    fill(database, mixed(chosen.entities))
    filled_s = time.perf_counter() - started
    yield Figure("filled in process", chosen.entities / filled_s, "entities a second")
    yield Figure("database", database.stat().st_size / chosen.entities, "bytes an entity")
    with serving_catalog(database) as server:
        yield Figure("memory at the start", server.peak_mib(), "MiB")
        for name, budget, found in searches(min(chosen.entities, 1_000)):
            requests = [found[at % len(found)] for at in range(max(1, chosen.requests // 20))]
            spent = cpu_ms(server, requests, chosen)
            yield Figure(f"{name}, CPU", spent, "ms a search", budget)
            wall_s = send(server, requests, 1)
            yield Figure(f"{name}, one after the other", 1000 * wall_s / len(requests), "ms")
        yield Figure("memory after searches", server.peak_mib(), "MiB")
        send(server, in_batches(run(number) for number in range(chosen.models)), chosen.connections)
        yield Figure("memory after writes", server.peak_mib(), "MiB")


def pages(chosen: Chosen) -> Iterator[Figure]:
    """Open pages about a group with a twentieth of all entities, and about one of its runs."""
    database = chosen.folder / "pages.db"
    urn, made = fill_group(database, chosen.entities)
    count = len(made)
    first, second = (f"/entity/{quoted(one)}" for one, _, _ in made[:2])
    many = f"/entity/{quoted(urn)}"
    compared = urlencode([("urn", one) for one, _, _ in made[:10]])
    kinds = {
        "home": ["/"],
        "search for a common word": [f"/search?q={word(at)}" for at in (0, 3, 10)],
        "search by a metric": ["/search?q=metrics.metric_00>0.99"],
        "all models": ["/kind/mlModel"],
        "what changed": ["/changes", "/changes?by=people", f"/changes?group={quoted(urn)}"],
        "a group": [many, f"{many}?start={count - 50}"],
        "a group by a metric": [f"{many}?sort=-metrics.metric_07"],
        "a group, filtered": [f"{many}?filter=metrics.metric_07>0.5+params.param_03<0.5"],
        "a group with its chart": [f"{many}?chart=metrics.metric_07&over=params.param_03"],
        "a comparison of ten": [f"/compare?{compared}"],
        "a run": [first, second],
        "a run's lineage": [f"{first}?tab=lineage"],
        "a run's history": [f"{first}?tab=history"],
    }
    times = max(1, chosen.requests // 100)
    with serving_catalog(database) as server:
        for name, addresses in kinds.items():
            spent = (cpu_ms(server, [("GET", at, b"")] * times, chosen) for at in addresses)
            yield Figure(f"page: {name}, CPU", max(spent), "ms", "≤ 200")


def fill_group(database: Path, entities: int) -> tuple[str, Sequence[Aspect]]:
    """Write so many entities; return a group of a twentieth of them, and what its runs have."""
    urn, count = group("many"), entities // 20
    fill(database, mixed(entities - count))
    fill(database, [(urn, "mlModelGroupProperties", {"name": "many"})])
    made = [run(entities + at, metrics=PAGE_METRICS) for at in range(count)]
    fill(database, ((one, name, value | {"groups": [urn]}) for one, name, value in made))
    return urn, made


def crawl(chosen: Chosen) -> Iterator[Figure]:
    """Follow the links of all kinds of pages of a catalog with a large group."""
    database = chosen.folder / "crawl.db"
    fill_group(database, chosen.entities)
    with serving_catalog(database) as server:
        times_ms = sorted(follow_links(server))
    yield Figure("crawl", len(times_ms), "pages")
    yield Figure("crawl, median", times_ms[len(times_ms) // 2], "ms a page", "≤ 25")
    yield Figure("crawl, 99 of 100", times_ms[len(times_ms) * 99 // 100], "ms a page", "≤ 150")


def follow_links(server: Server) -> Iterator[float]:
    """Follow the links of pages from the first one; yield how long each page took, in ms.

    Of addresses that differ in names and values only, `ALIKE` are opened; downloads are no pages.
    """
    waiting, known, alike = deque(["/"]), {"/"}, Counter[tuple[str, ...]]()
    with closing(http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=300)) as line:
        while waiting:
            started = time.perf_counter()
            line.request("GET", waiting.popleft())
            answer = line.getresponse()
            content = answer.read().decode()
            yield 1000 * (time.perf_counter() - started)
            if answer.status >= 500:
                raise RuntimeError(f"a page was answered with {answer.status}: {content[:500]}")
            is_page = "text/html" in answer.headers["content-type"]
            for href in Reader(content).links if is_page else ():
                parts = urlsplit(href)
                named = unquote(parts.path).split("(")[0], *sorted(dict(parse_qsl(parts.query)))
                is_new = href.startswith("/") and href not in known
                if is_new and "export" not in named and alike[named] < ALIKE:
                    known.add(href)
                    alike[named] += 1
                    waiting.append(href)


def searches(sample: int) -> Iterator[tuple[str, str, list[Wire]]]:
    """Yield kinds of searches: a name, its budget and requests; words are of `sample` entities."""
    texts = [words(number, 14) for number in range(0, sample, 20)]
    by_rank = {word(rank): rank for rank in range(VOCABULARY)}
    rare = sorted({max(text, key=by_rank.__getitem__) for text in texts}, key=by_rank.__getitem__)
    yield "a rare word", "≤ 15", [search(query) for query in rare[-20:]]
    prefixes = [f"{first} {second[:3]}" for first, second, *_ in texts[:20]]
    yield "the beginning of a name", "≤ 15", [search(query) for query in prefixes]
    common = [f"{word(at)} {word(at + 1)}" for at in range(5)]
    yield "a common word", "≤ 40", [search(word(at)) for at in (0, 3, 10, 20, 50)]
    yield "two common words", "≤ 40", [search(query) for query in common]
    yield "two common words with facets", "", [search(query, facets=True) for query in common]
    best = [f"0.99{digit}" for digit in range(10)]
    yield "metrics.metric_00 > 0.99", "", [search("*", above=value) for value in best]


def search(query: str, above: str | None = None, *, facets: bool = False) -> Wire:
    """Return the request for the first ten results; `above` is what a metric has to pass."""
    wanted: dict[str, object] = {"query": query, "start": 0, "count": 10}
    wanted["searchFlags"] = {"skipAggregates": not facets, "skipHighlighting": True}
    if above is not None:
        passes = {"field": "metrics.metric_00", "values": [above], "condition": "GREATER_THAN"}
        wanted["orFilters"] = [{"and": [passes]}]
    body = {"query": SEARCH_QUERY, "variables": {"input": wanted}}
    return "POST", "/api/graphql", json.dumps(body).encode()


def quoted(urn: str) -> str:
    return quote(urn, safe="")


def graphql(query: str, urn: str) -> Wire:
    body = {"query": query, "variables": {"urn": urn}}
    return "POST", "/api/graphql", json.dumps(body).encode()


def cpu_ms(server: Server, requests: Sequence[Wire], chosen: Chosen) -> float:
    """Return the server's CPU for each of `requests`, in milliseconds; the first warm it up."""
    send(server, requests[: len(requests) // 10], 1)
    before = server.cpu_s()
    send(server, requests, chosen.connections)
    return 1000 * (server.cpu_s() - before) / len(requests)


PARTS: dict[str, Callable[[Chosen], Iterator[Figure]]] = {
    "writes": writes,
    "reads": reads,
    "group": members,
    "full": full,
    "pages": pages,
    "crawl": crawl,
}


def main() -> None:
    """Run the parts that the command line names and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated, of these")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--aspects", type=int, default=20_000, help="small aspects to write")
    parser.add_argument("--models", type=int, default=6_000, help="models to write")
    parser.add_argument("--entities", type=int, default=200_000, help="entities of a full catalog")
    parser.add_argument("--requests", type=int, default=2_000, help="reads of each kind")
    parser.add_argument("--connections", type=int, default=4)
    options = vars(parser.parse_args())
    parts, rounds = options.pop("parts").split(","), options.pop("rounds")
    for part in parts:
        seen: dict[str, list[Figure]] = {}
        for _ in range(rounds):
            folder = Path(tempfile.mkdtemp(prefix="bench-"))
            try:
                for figure in PARTS[part](Chosen(folder=folder, **options)):
                    seen.setdefault(figure.name, []).append(figure)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        for numbers in seen.values():
            best = max if numbers[0].unit.endswith("a second") else min
            print(best(numbers, key=lambda figure: figure.value), flush=True)


if __name__ == "__main__":
    main()
