"""A DataHub server (GMS) to test against: the embedded catalog, answering as GMS does.

`running_gms` serves it on loopback. A `GmsProfile` says which of GMS's behaviours it has, each
switched by one option; `V1_6` is the default, other releases are beside it. Faults that a server
meets now and then, such as an exhausted database or an index that has to catch up, are methods of
the running server. The embedded catalog itself computes the latest version of a set, refuses one
that is sent, and lets searches find the latest only; `gms.store` adds the fate of several versions
in one request::

    profile = replace(V1_6, refusal_form="sentence", index_refresh_s=math.inf)
    with running_gms(tmp_path / "gms.db", profile) as gms:
        gms.fail_writes(2)
        ...  # write to gms.url
        gms.catch_up()
        assert gms.calls("/aspects")[0].json()["async"] == "false"
"""

from support.gms.profile import V0_15, V1_0, V1_6, V1_7, GmsProfile
from support.gms.requests import SeenRequest
from support.gms.server import RunningGms, running_gms

__all__ = [
    "V0_15",
    "V1_0",
    "V1_6",
    "V1_7",
    "GmsProfile",
    "RunningGms",
    "SeenRequest",
    "running_gms",
]
