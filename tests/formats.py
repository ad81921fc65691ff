"""A report of ``stackgen pi run`` that holds everything which formats tell of."""

from collections.abc import Mapping
from dataclasses import replace

from stackgen.measure.figures import figures
from stackgen.model.identity import CampaignId, IndicatorId
from stackgen.model.inspections import (
    Indicator,
    Inspection,
    LoadedDistribution,
    Observation,
    Outcome,
    Parameter,
    Role,
)
from stackgen.model.reports.local import LocalHost, LocalReport, LocalResult
from stackgen.model.stacks import Machine
from tests.samples import environment

RUSAGE = "1.5 0.25 81920 0 0 0 4096 2 0 8 16 0 0 0 30 40"
MACHINE = Machine(
    identity=(
        ("architecture", "x86_64"),
        ("cache_l1d", "32K"),
        ("cache_l1i", "32K"),
        ("cache_l2", "1024K"),
        ("cache_l3", "32M"),
        ("cores", "4"),
        ("cpu_family", "6"),
        ("cpu_model", "85"),
        ("cpu_name", "Some Xeon"),
        ("cpu_stepping", "7"),
        ("cpu_vendor", "GenuineIntel"),
        ("cpus", "8"),
        ("sockets", "1"),
        ("system", "Linux"),
    ),
    circumstances=(("cpu_flags", "avx2 lm mmx pni sse sse2 ssse3"), ("cpu_mhz_max", "3100")),
)
WITH_GPU = replace(
    MACHINE,
    identity=tuple(sorted({**dict(MACHINE.identity), "gpu0": "Tesla T4 15360 MiB"}.items())),
    circumstances=(*MACHINE.circumstances, ("gpu_cuda", "12.4"), ("gpu_driver", "550.54.15")),
)
HOST = LocalHost(
    name="box",
    os_release=(("id", "debian"), ("name", "Debian GNU/Linux"), ("version_id", "12")),
    platform=(
        ("machine", "x86_64"),
        ("node", "box"),
        ("release", "6.1.0"),
        ("system", "Linux"),
        ("version", "#1 SMP"),
    ),
    memory_total_bytes=16 << 30,
    memory_available_bytes=15 << 30,
    memory_used_bytes=700 << 20,
)
MODEL = Indicator(
    name="torch/small_cnn",
    component="torch",
    summary="A small network for images",
    sha256="5" * 64,
    path="pis/torch/small_cnn.py",
    unit="FLOP",
    parameters=(
        Parameter(name="batch", type="int", default="8", help="samples processed together"),
        Parameter(name="step", type="str", default="inference", allowed=("inference", "training")),
        Parameter(name="threads", type="int", default="auto"),
    ),
)
REPORTED = (
    ("component_version", "2.13.0"),
    ("cpu_mhz", "2900.5"),
    ("cpu_time_s", "1.2"),
    ("cpus", "0,1"),
    ("env OMP_NUM_THREADS", "1"),
    ("items", "8"),
    ("load", "0.10 0.20 0.30"),
    ("macs", "1000000"),
    ("parameters", "25000"),
    ("rusage", RUSAGE),
    ("wall_s", "2.4"),
)


def ran(
    *values: float,
    reported: Mapping[str, str] | None = None,
    block: int = 0,
    outcome: Outcome = Outcome.OK,
    log: str = "",
) -> Inspection:
    circumstances = tuple(sorted({**dict(REPORTED), **(reported or {})}.items()))
    seen = (
        Observation(
            values_s=values,
            loops=1,
            work=16e6,
            peak_memory_bytes=80 << 20,
            circumstances=circumstances,
            loaded=(LoadedDistribution(name="torch", version="2.13.0", compiled=True),),
        )
        if values
        else None
    )
    return Inspection(
        stack_id=environment("1").stack.id,
        machine_id=MACHINE.id,
        indicator_id=IndicatorId("indicator"),
        campaign_id=CampaignId("here"),
        block=block,
        position=0,
        role=Role.CANDIDATE,
        outcome=outcome,
        started_at="2026-01-02T03:04:05.500+00:00",
        duration_s=2.5,
        observation=seen,
        log=log,
    )


def result(*inspections: Inspection, **arguments: str) -> LocalResult:
    given = {"batch": "8", "step": "inference", "threads": "1", **arguments}
    made = LocalResult(
        arguments=tuple(sorted(given.items())), figures=None, inspections=inspections
    )
    return replace(made, figures=figures(made.observations))


def report(*results: LocalResult, varied: tuple[str, ...] = (), **changes: object) -> LocalReport:
    made = LocalReport(
        indicator=MODEL,
        script_sha256="7" * 64,
        python="/usr/bin/python3",
        python_version="CPython 3.11.2",
        machine=MACHINE,
        host=HOST,
        results=results,
        varied=varied,
        began_at="2026-01-02T03:04:05.000+00:00",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


ONE = report(result(ran(0.004, 0.005, 0.006)))
BATCHES = report(
    result(ran(0.001, 0.0012, reported={"items": "1"}), batch="1"),
    result(ran(0.004, 0.005, 0.006), ran(0.004, 0.0052, 0.006, block=1), batch="8"),
    varied=("batch",),
)
FAILED = report(
    result(ran(0.004, 0.005, 0.006)),
    result(
        ran(outcome=Outcome.CRASHED, log="loading\nSegmentation fault\nkilled by SIGSEGV"),
        batch="32",
    ),
    varied=("batch",),
    variables=("XLA_FLAGS",),
)
