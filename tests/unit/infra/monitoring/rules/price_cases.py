"""What GPUs cost."""

from infra.instance_types import INSTANCE_TYPES
from tests.unit.infra.monitoring.rules.promtool import RecordingCase

_PRICED = next(kind for kind in INSTANCE_TYPES.values() if kind.gpus > 1 and kind.price_cny_per_hour)
_TYPE = "label_node_kubernetes_io_instance_type"

CASES = (
    RecordingCase(
        record="node:gpu_price_cny_per_hour:list",
        says="one GPU's share of the instance's price, where there is a price",
        series={
            f'kube_node_labels{{node="n1", {_TYPE}="{_PRICED.name}"}}': "1x10",
            f'kube_node_labels{{node="n2", {_TYPE}="no.such"}}': "1x10",
        },
        at="5m",
        gives={f'{{node="n1", instance_type="{_PRICED.name}"}}': round(_PRICED.price_cny_per_hour / _PRICED.gpus, 4)},
    ),
)
