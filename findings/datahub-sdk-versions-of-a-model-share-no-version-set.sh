#!/usr/bin/env bash
# acryl-datahub 1.7.0.17: MLModel(version=…) of datahub.sdk makes the version set from the model's own URN. Versions of
# a model are models with URNs of their own, so no two of them are ever in one set, whatever group they name: each is
# the latest of a set of one, and DataHub's list of versions shows one. set_version() of a model that is in a set, with
# the very version that it has, takes it out of that set without a word.
#
# Output seen:
#   versions 1 and 2 of one group: 2 version sets
#   in the set "churn" before set_version("1"): True, after it: False
#
# Exits with 1 if that changes. Needs Python 3.11 and a package index; installs into a temporary folder.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'acryl-datahub==1.7.0.17'
"$folder/venv/bin/python" - <<'PY'
import sys
import warnings

from datahub.metadata.schema_classes import VersionPropertiesClass, VersionTagClass

warnings.filterwarnings("ignore")
from datahub.sdk import MLModel

GROUP = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,churn,PROD)"
SET = "urn:li:versionSet:(churn,mlModel)"


def set_of(model: MLModel) -> str:
    (properties,) = [
        mcp.aspect for mcp in model.as_mcps() if isinstance(mcp.aspect, VersionPropertiesClass)
    ]
    return properties.versionSet


sets = {
    set_of(MLModel(id=f"churn_{number}", platform="mlflow", version=number, model_group=GROUP))
    for number in ("1", "2")
}
print("versions 1 and 2 of one group:", len(sets), "version sets")
in_a_set = VersionPropertiesClass(
    versionSet=SET, version=VersionTagClass(versionTag="1"), sortId="0000000001"
)
model = MLModel(id="churn_1", platform="mlflow", extra_aspects=[in_a_set])
before = set_of(model) == SET
model.set_version("1")
after = set_of(model) == SET
print(f'in the set "churn" before set_version("1"): {before}, after it: {after}')
sys.exit((len(sets), before, after) != (2, True, False))
PY
