"""pytorch-benchmark's result as YAML: one model (or operation) at several batch sizes.

Where theirs is open, we write:

- ``flops``: multiply-accumulates of one sample, as theirs are, where the indicator gives them;
  an operation that counts FLOP has them halved.
- ``seconds_per_batch_*``: over all samples of all processes; theirs are 100 runs of one process.
  A ``std`` divides by the count, as theirs does.
- ``on_device_inference`` alone: indicators keep copies between host and device out of the time.
- ``memory`` on a GPU alone, as theirs: the most during inference; before and after are null.
  There is no ``energy``.
"""

import json
import math
import statistics
from collections.abc import Callable, Collection, Sequence

from stackgen.errors import UsageError
from stackgen.model.reports.local import LocalReport, LocalResult
from stackgen.report.formats import fields

_KILO, _KIBI = 1000.0, 1024.0


def refuse(varied: Collection[str], steps: Collection[str]) -> None:
    """Refuse what the format cannot hold, before anything is measured.

    Args:
        varied: the parameters with several values.
        steps: the values of ``step``, where an indicator has it.

    Raises:
        UsageError: something else than the batch varies, or it is no inference.
    """
    others = [name for name in varied if name != "batch"]
    if others:
        raise UsageError(
            f"several values of {others[0]} cannot be written as pytorch-benchmark",
            why="its format distinguishes batch sizes, and nothing else",
            fix="give one value, or use --json",
        )
    if "training" in steps:
        raise UsageError(
            "a training step cannot be written as pytorch-benchmark",
            why="its format knows inference alone",
            fix="measure --step inference, or use --json",
        )


def document(report: LocalReport) -> str:
    """Return the YAML text of a report that is not refused."""
    measured = [each for each in report.results if each.observations]
    seen = measured[0].observations[0] if measured else None
    found: dict[str, object] = {
        "device": ("cuda" if fields.on_gpu(seen) else "cpu") if seen else None,
        "flops": _macs(measured[0], report.indicator.unit) if measured else None,
        "machine_info": _machine_info(report),
        "params": _fact(measured[0], "parameters") if measured else None,
        "timing": {
            f"batch_size_{_batch(each)}": {"on_device_inference": _timing(each)}
            for each in measured
        },
    }
    memory = {
        f"batch_size_{_batch(each)}": _memory(each.figures.device_memory_bytes)
        for each in measured
        if each.figures and each.figures.device_memory_bytes
    }
    if memory:
        found["memory"] = memory
    remark = "# flops are multiply-accumulates of one sample\n"
    return remark + "\n".join(yaml_lines(found)) + "\n"


def _batch(result: LocalResult) -> int:
    found = dict(result.arguments).get("batch", "")
    items = result.figures.items if result.figures else None
    return int(found) if found.isdigit() else items or 1


def _fact(result: LocalResult, name: str) -> object:
    facts = dict(result.figures.facts) if result.figures else {}
    return fields.number(facts.get(name, ""))


def _macs(result: LocalResult, unit: str) -> object:
    """Return the multiply-accumulates of one sample."""
    found = _fact(result, "macs")
    if found is not None:
        return found
    work = result.observations[0].work if unit == "FLOP" else None
    return round(work / 2 / _batch(result)) if work else None


def _timing(result: LocalResult) -> dict[str, object]:
    seconds = [value for seen in result.observations for value in seen.values_s]
    batches = [1 / each for each in seconds]
    return {
        "human_readable": {
            "batch_latency": _spelled(seconds, time_text),
            "batches_per_second": _spelled(batches, count_text),
        },
        "metrics": {
            **_moments("batches_per_second", batches),
            **_moments("seconds_per_batch", seconds),
        },
    }


def _moments(name: str, values: Sequence[float]) -> dict[str, object]:
    return {
        f"{name}_max": max(values),
        f"{name}_mean": statistics.fmean(values),
        f"{name}_min": min(values),
        f"{name}_std": statistics.pstdev(values),
    }


def _spelled(values: Sequence[float], spell: Callable[[float], str]) -> str:
    mean, std = statistics.fmean(values), statistics.pstdev(values)
    return f"{spell(mean)} +/- {spell(std)} [{spell(min(values))}, {spell(max(values))}]"


def time_text(seconds: float) -> str:
    """Return a time as theirs is spelled: ``74.439 ms``."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3f} {unit}"
    return f"{seconds * 1e6:.3f} us"


def count_text(value: float) -> str:
    """Return a number as theirs is spelled: ``6.96 K``."""
    return _scaled(value, _KILO)


def bytes_text(value: float) -> str:
    """Return an amount of memory as theirs is spelled: ``119.98 GB``, in steps of 1,024."""
    return f"{_scaled(value, _KIBI)}B"


def _scaled(value: float, step: float) -> str:
    for unit in ("", " K", " M", " G", " T"):
        if abs(value) < step:
            return f"{value:.2f}{unit}"
        value /= step
    return f"{value:.2f} P"


def _known(size: int) -> str | None:
    return bytes_text(size) if size else None


def _memory(most: int) -> dict[str, object]:
    return {
        "pre_inference": None,
        "max_inference": bytes_text(most),
        "post_inference": None,
        "pre_inference_bytes": None,
        "max_inference_bytes": most,
        "post_inference_bytes": None,
    }


def _machine_info(report: LocalReport) -> dict[str, object]:
    machine, host = dict(report.machine.identity), report.host
    platform, mhz = dict(host.platform), fields.mhz(report)
    gpus = [
        {"name": model, "memory": f"{amount} MB" if math.isfinite(amount) else None}
        for model, amount in fields.gpus(machine)
    ]
    return {
        "cpu": {
            "architecture": platform.get("machine"),
            "cores": {
                "physical": fields.whole(machine.get("cores", "")),
                "total": fields.whole(machine.get("cpus", "")),
            },
            "frequency": f"{mhz / _KILO:.2f} GHz" if mhz else None,
            "model": machine.get("cpu_name"),
        },
        "gpus": gpus or None,
        "memory": {
            "available": _known(host.memory_available_bytes),
            "total": _known(host.memory_total_bytes),
            "used": _known(host.memory_used_bytes),
        },
        "system": {name: platform.get(name) for name in ("node", "release", "system")},
    }


def yaml_lines(value: object, indent: str = "") -> list[str]:
    """Return a value as lines of YAML; texts are quoted as in JSON, which YAML reads as well."""
    if isinstance(value, dict) and value:
        lines = []
        for name in sorted(value):
            lines += _entry(f"{indent}{name}:", value[name], indent + "  ")
        return lines
    if isinstance(value, list) and value:
        lines = []
        for each in value:
            first, *rest = yaml_lines(each, indent + "  ")
            lines += [f"{indent}- {first.lstrip()}", *rest]
        return lines
    return [indent + _scalar(value)]


def _entry(head: str, value: object, indent: str) -> list[str]:
    if isinstance(value, dict | list) and value:
        return [head, *yaml_lines(value, indent)]
    return [f"{head} {_scalar(value)}"]


def _scalar(value: object) -> str:
    text = json.dumps(value)
    # YAML 1.1 takes 1e-05 for a text, and 1.0e-05 for a number.
    if isinstance(value, float) and "e" in text and "." not in text:
        return text.replace("e", ".0e")
    return text
