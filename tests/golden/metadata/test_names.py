"""The URNs of hostile names, written down: a change of identity must not pass unseen."""

import json
from pathlib import Path

from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.urn import dataset, encode_foreign
from support.names import HOSTILE

GOLDEN = Path(__file__).with_name("names.json")


def test_the_urns_of_hostile_names_do_not_change(update_golden: bool) -> None:  # noqa: FBT001 - a fixture
    plain, prefixed = Naming(), Naming(instance="eu.west", workspace="team")
    table = Naming("feast").feature_table("project", "view")
    made = {
        kind: {
            "model": plain.model(name).urn,
            "group": plain.group(name).urn,
            "group of an instance": prefixed.group(name).urn,
            "registered model": plain.registered_group(name).urn,
            "version": plain.version(name, "7").urn,
            "feature": Naming("feast").feature(table, name).urn,
            "dataset": dataset("hive", name[:40], "PROD"),
        }
        for kind, name in HOSTILE.items()
    }
    assert all(encode_foreign(name[:40]) in made[kind]["dataset"] for kind, name in HOSTILE.items())
    text = json.dumps(made, indent=1) + "\n"
    if update_golden:
        GOLDEN.write_text(text)
    assert GOLDEN.read_text() == text
