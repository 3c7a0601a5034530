"""The scheduler's counters, which live in the engine's process, as this process can see them."""

from __future__ import annotations

from vllm.v1.metrics.prometheus import get_prometheus_registry

_PREFIX = "radixflow_"
_SKIPPED = ("_bucket", "_created")


def scheduler_series() -> dict[str, float]:
    """Return every `radixflow_*` sample by name and labels, summed over processes; histograms without their buckets.

    Empty where the engine is another process and `PROMETHEUS_MULTIPROC_DIR` was not set before the start.
    """
    found: dict[str, float] = {}
    for family in get_prometheus_registry().collect():
        if not family.name.startswith(_PREFIX):
            continue
        for sample in family.samples:
            if sample.name.endswith(_SKIPPED):
                continue
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            key = f"{sample.name}{{{labels}}}" if labels else sample.name
            found[key] = found.get(key, 0.0) + float(sample.value)
    return dict(sorted(found.items()))
