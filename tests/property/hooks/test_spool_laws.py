"""Laws of the spool: whatever happens in whichever order, each event arrives, once a claim."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from mlcat_ingest.hooks.spool import Event, EventSpool
from support.examples import examples

STEPS = st.lists(st.sampled_from(["put", "done", "release", "killed"]), min_size=1, max_size=25)


@settings(max_examples=examples(40))
@given(STEPS)
def test_no_event_is_lost_and_none_comes_back_after_it_is_done(steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spool = EventSpool(Path(folder) / "spool")
        there: set[str] = set()
        for number, step in enumerate(steps):
            if step == "put":
                assert spool.put(Event(f"r{number}"))
                there.add(f"r{number}")
                continue
            with spool.drain_lock() as mine:
                assert mine
                found = spool.claim(2, bool)
                ids = {one.event.run_id for one in found}
                assert ids <= there
                assert len(ids) == len(found) == min(2, len(there))
                names = [one.name for one in found]
                if step == "done":
                    spool.delete(names)
                    there -= ids
                elif step == "release":
                    spool.release(names)
            assert spool.pending() == len(there)


@given(st.text(), st.text(), st.integers())
def test_an_event_survives_any_text(run_id: str, uri: str, at_ms: int) -> None:
    event = Event(run_id or "r", "FINISHED", uri, "", "", at_ms)
    assert Event.from_json(event.to_json()) == event


@given(st.binary(max_size=200))
def test_no_bytes_make_reading_raise(text: bytes) -> None:
    Event.from_json(text)
