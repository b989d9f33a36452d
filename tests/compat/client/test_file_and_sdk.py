"""What the file sink writes is what DataHub's own file source reads."""

import json
from pathlib import Path

from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.metadata.schema_classes import MLModelPropertiesClass

from mlcat_ingest.client.config import FileSinkConfig
from mlcat_ingest.client.file import FileCatalog
from mlcat_ingest.metadata.proposal import Proposal
from support.fakes import group_urn, model_urn


def test_the_sdk_reads_every_proposal(tmp_path: Path) -> None:
    path = tmp_path / "proposals.json"
    sink = FileCatalog(FileSinkConfig(path=path))
    sink.open()
    value = {"name": "größe", "groups": [group_urn("g")], "trainingMetrics": [{"name": "loss"}]}
    assert sink.write([Proposal(model_urn("m"), "mlModelProperties", value)]) == []
    sink.close()
    [line] = json.loads(path.read_bytes())
    read = MetadataChangeProposalWrapper.from_obj(line)
    assert read.entityUrn == model_urn("m")
    assert read.entityType == "mlModel"
    assert isinstance(read.aspect, MLModelPropertiesClass)
    assert read.aspect.name == "größe"
    assert read.aspect.groups == [group_urn("g")]
    assert read.aspect.trainingMetrics is not None
    assert read.aspect.trainingMetrics[0].name == "loss"
