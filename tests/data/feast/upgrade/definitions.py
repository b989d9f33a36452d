from datetime import timedelta

import pandas as pd
from feast import Entity, FeatureService, FeatureView, Field, FileSource, RequestSource, ValueType
from feast.on_demand_feature_view import on_demand_feature_view
from feast.types import Float64, Int64

driver = Entity(name="driver", join_keys=["driver_id"], value_type=ValueType.INT64)
source = FileSource(name="lake", path="s3://lake/drivers.parquet", timestamp_field="ts")
stats = FeatureView(
    name="stats",
    entities=[driver],
    ttl=timedelta(days=30),
    schema=[Field(name="rate", dtype=Float64), Field(name="trips", dtype=Int64)],
    source=source,
    tags={"team": "maps"},
)
hour = RequestSource(name="hour", schema=[Field(name="hour", dtype=Int64)])


@on_demand_feature_view(  # type: ignore[untyped-decorator]
    sources=[stats, hour], schema=[Field(name="rate_now", dtype=Float64)]
)
def at_hour(inputs: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"rate_now": inputs["rate"] * inputs["hour"]})


both = FeatureService(name="both", features=[stats, at_hour])
