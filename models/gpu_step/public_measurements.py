"""Measurements that others published, read of the rows of `data/public`."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from models.gpu_step.gpu_time import Timing
from models.gpu_step.measurements import Measurements
from models.gpu_step.profiled_steps import profiled_steps, speedups
from models.gpu_step.public_rows import rows_by_set
from models.gpu_step.scaling import read_scalings
from models.gpu_step.steps_elsewhere import internevo_speedups, milabench_steps, qwen_steps
from models.gpu_step.timed_calls import (
    benchmarks,
    ceilings,
    kernels,
    products,
    transformer_operators,
)
from models.gpu_step.timed_collectives import read_collectives
from models.gpu_step.timed_passes import (
    neusight_passes,
    pycls_passes,
    sailor_layers,
    timm_inference,
    timm_passes,
    two_layouts,
)
from models.system import Tables

_DRAWN = 40
"""Calls of an operator on a device that count where their sides were drawn by chance: more of them
would outweigh those of networks."""
_OF_LAYERS = 400
"""The same, where sides are those of layers of transformers."""

_OF_SERVING = 150
"""The same, of products that are served."""


def read_measurements(tables: Tables) -> Measurements:
    """Return what rows of `run`, `source` and `external` tell; of sets that are not there, none."""
    rows = rows_by_set(tables)
    steps, of_steps = profiled_steps(rows)
    passes, of_passes = neusight_passes(rows)
    timings = (
        *of_steps,
        *of_passes,
        *ceilings(rows["gpu_h100", "ceilings"]),
        *_thinned(benchmarks(rows["neusight", "operation_benchmarks"]), _DRAWN),
        *_thinned(transformer_operators(rows), _OF_LAYERS),
        *_thinned(products(rows["aiconfigurator", "gemm_bf16"]), _OF_SERVING),
    )
    return Measurements(
        timings,
        steps,
        (*passes, *pycls_passes(rows), *timm_passes(rows), *timm_inference(rows)),
        (*speedups(rows), *internevo_speedups(rows)),
        read_collectives(rows),
        read_scalings(rows),
        (*milabench_steps(rows), *qwen_steps(rows)),
        tuple(sailor_layers(rows["sailor", "layers"])),
        tuple(kernels(rows["flagperf", "operators"])),
        tuple(two_layouts(rows)),
    )


def _thinned(timings: Iterable[Timing], most: int) -> Iterator[Timing]:
    """Yield `most` calls of each operator on each device, evenly spaced."""
    groups: dict[tuple[str, str], list[Timing]] = defaultdict(list)
    for timing in timings:
        groups[timing.device.name, timing.work.name].append(timing)
    for group in groups.values():
        count = min(len(group), most)
        yield from (group[place * len(group) // count] for place in range(count))
