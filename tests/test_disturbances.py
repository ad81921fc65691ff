"""Blocks that something disturbed: which are excluded, and that the timings have no say in it."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.indicators.output import parse_output
from stackgen.measure import block_times, controls, exclude_disturbed, rank
from stackgen.model.inspections import Inspection, Observation, Outcome, Role
from stackgen.model.reports.campaigns import MeasurementHealth
from stackgen.report.explore import report_text
from stackgen.storage.paths import shipped_folder
from tests.samples import CAMPAIGN, call, environment, inspection
from tests.test_render import FASTER, report

MATMUL, PURE = call(), call("python/pure")
NEW, OLD = environment("2.0"), environment("1.9")
LABELS = {NEW.stack.id: "new", OLD.stack.id: "old"}
CALM = {"wall_s": "1.0", "cpu_time_s": "1.0", "pressure_cpu_s": "0.0", "env OMP_NUM_THREADS": "1"}
BESIDE_ANOTHER = {**CALM, "cpu_time_s": "0.69", "pressure_cpu_s": "0.4"}


def reported(each: Inspection, circumstances: dict[str, str], samples: int = 30) -> Inspection:
    """Return an inspection with other circumstances, and as many samples as inspections have."""
    assert each.observation is not None
    values = each.observation.values_s * samples
    pairs = tuple(sorted(circumstances.items()))
    return replace(each, observation=Observation(values_s=values, loops=1, circumstances=pairs))


def runs(blocks: Sequence[dict[str, str]], seconds: float = 0.04) -> list[Inspection]:
    """Return blocks of the baseline and another stack; the circumstances are those of the one."""
    found = []
    for block, circumstances in enumerate(blocks, start=1):
        one = inspection(NEW, MATMUL, block, seconds, role=Role.BASELINE)
        found += [
            reported(one, CALM),
            reported(inspection(OLD, MATMUL, block, seconds), circumstances),
        ]
    return found


def reason(circumstances: dict[str, str]) -> str | None:
    return exclude_disturbed(runs([circumstances])).excluded.get((CAMPAIGN, 1))


def calibration(seconds: float, loops: int = 1) -> Inspection:
    ran = inspection(NEW, MATMUL, 0, seconds, role=Role.CALIBRATION)
    return replace(ran, observation=Observation(values_s=(seconds,), loops=loops))


def test_a_calm_block_counts() -> None:
    assert reason(CALM) is None
    assert reason({}) is None  # a system that counts nothing of this


@pytest.mark.parametrize(
    ("circumstances", "expected"),
    [
        (BESIDE_ANOTHER, "other processes had its CPU for 31% of a run"),
        (
            {**BESIDE_ANOTHER, "env OMP_NUM_THREADS": "4"},
            "processes waited for a CPU for 40% of a run",
        ),
        (
            {**CALM, "steal_s": "1.0", "cpu_count": "4"},
            "the machine's host had its CPU for 25% of a run",
        ),
        ({**CALM, "throttled_s": "0.5"}, "a CPU quota stopped it for 50% of a run"),
        (
            {**CALM, "gpu clocks_throttle_reasons.active after": "0x0000000000000040"},
            "its GPU slowed itself down",
        ),
    ],
)
def test_what_disturbed_a_block_is_reported_in_words(
    circumstances: dict[str, str], expected: str
) -> None:
    assert reason(circumstances) == expected


def test_waiting_for_a_disk_while_others_wait_for_a_cpu_is_no_disturbance() -> None:
    assert reason({**CALM, "cpu_time_s": "0.1", "pressure_cpu_s": "0.1"}) is None
    assert reason({**CALM, "cpu_time_s": "0.99", "pressure_cpu_s": "0.9"}) is None


def test_what_was_stolen_is_that_of_all_cpus_together() -> None:
    assert reason({**CALM, "steal_s": "1.0", "cpu_count": "64"}) is None


def test_a_gpu_at_its_power_cap_is_as_usual() -> None:
    assert reason({**CALM, "gpu clocks_throttle_reasons.active after": "0x4"}) is None


@pytest.mark.parametrize("text", ["", "nan", "inf", "-1", "much"])
def test_circumstances_that_are_no_numbers_disturb_nothing(text: str) -> None:
    assert reason({**CALM, "pressure_cpu_s": text, "cpu_time_s": text}) is None
    assert reason({**BESIDE_ANOTHER, "wall_s": text}) is None


def test_short_samples_are_not_disturbed_by_others_on_their_cpu() -> None:
    busy = runs([BESIDE_ANOTHER])
    assert not exclude_disturbed([calibration(0.0002, loops=10), *busy]).excluded
    assert exclude_disturbed([calibration(0.0002, loops=100), *busy]).excluded
    threads = {**BESIDE_ANOTHER, "env OMP_NUM_THREADS": "2"}  # each waits for the one held up
    assert exclude_disturbed([calibration(0.0002, loops=10), *runs([threads])]).excluded


def test_how_long_samples_are_is_what_the_first_calibration_found() -> None:
    long, short = calibration(1.0), calibration(0.001)
    assert exclude_disturbed([long, short, *runs([BESIDE_ANOTHER])]).excluded
    assert not exclude_disturbed([short, long, *runs([BESIDE_ANOTHER])]).excluded


def test_a_single_sample_has_all_of_a_disturbance() -> None:
    slightly = {**CALM, "cpu_time_s": "0.9", "pressure_cpu_s": "0.1"}
    assert reason(slightly) is None
    once = reported(inspection(OLD, MATMUL, 1, 0.04), slightly, samples=1)
    assert exclude_disturbed([once]).excluded


def test_a_machine_that_was_suspended_sets_its_block_aside() -> None:
    def at(before: float, during: float = 0.0) -> dict[str, str]:
        since_boot = before + during
        return {**CALM, "suspended_s": str(during), "suspended_since_boot_s": str(since_boot)}

    def block(*circumstances: dict[str, str]) -> list[Inspection]:
        return [
            reported(inspection(OLD, MATMUL, 1, 0.04, position=place), each)
            for place, each in enumerate(circumstances)
        ]

    expected = {(CAMPAIGN, 1): "the machine was suspended in between"}
    assert exclude_disturbed(block(at(70), at(70))).excluded == {}
    assert (
        exclude_disturbed(block(at(70, during=30), at(100))).excluded == expected
    )  # within the first run
    assert exclude_disturbed(block(at(70), at(100))).excluded == expected  # between two runs
    assert exclude_disturbed(block(at(70), at(70, during=30))).excluded == expected
    assert exclude_disturbed(block(at(70), at(70, during=0.01))).excluded == {}


def test_a_clock_on_the_wall_that_jumps_disturbs_nothing() -> None:
    blocks = runs([CALM] * 3)
    back = [replace(each, started_at="1999-12-31T23:59:59+00:00") for each in blocks[3:]]
    assert not exclude_disturbed(blocks[:3] + back).excluded
    assert rank_of(blocks) == rank_of(blocks[:3] + back)


def rank_of(inspections: list[Inspection]) -> object:
    return rank(inspections, labels=LABELS, baseline=NEW.stack.id, calls=[MATMUL])


def test_a_rare_disturbance_is_excluded_however_late_it_comes() -> None:
    found = exclude_disturbed(runs([*[CALM] * 20, BESIDE_ANOTHER, CALM]))
    assert list(found.excluded) == [(CAMPAIGN, 21)]
    assert not found.tolerated


def test_on_a_machine_that_is_always_busy_three_blocks_are_lost_and_no_more() -> None:
    found = exclude_disturbed(runs([BESIDE_ANOTHER] * 20))
    assert [number for _, number in found.excluded] == [1, 2, 3]
    assert [number for _, number in found.tolerated] == list(range(4, 21))
    assert found.tolerated


@given(st.lists(st.booleans(), max_size=40))
def test_at_most_every_second_block_is_excluded_after_the_first_three(busy: list[bool]) -> None:
    found = exclude_disturbed(runs([BESIDE_ANOTHER if each else CALM for each in busy]))
    assert len(found.excluded) <= max(3, len(busy) // 2)
    disturbed = [(CAMPAIGN, number) for number, each in enumerate(busy, start=1) if each]
    assert sorted([*found.excluded, *found.tolerated]) == disturbed


@given(st.lists(st.booleans(), max_size=30), st.integers(0, 30))
def test_what_comes_later_never_changes_the_fate_of_a_block(busy: list[bool], until: int) -> None:
    seen = runs([BESIDE_ANOTHER if each else CALM for each in busy])
    now, later = exclude_disturbed(seen[: 2 * until]), exclude_disturbed(seen)
    assert now.excluded.items() <= later.excluded.items()
    assert now.tolerated.items() <= later.tolerated.items()


@given(st.lists(st.floats(1e-6, 1e3), min_size=8, max_size=8))
def test_the_timings_have_no_say(seconds: list[float]) -> None:
    blocks = runs([CALM, BESIDE_ANOTHER] * 4)
    others = [
        reported(
            replace(each, observation=Observation(values_s=(took,), loops=1)),
            dict(each.observation.circumstances) if each.observation else {},
        )
        for each, took in zip(blocks, [*seconds, *seconds], strict=True)
    ]
    assert exclude_disturbed(others) == exclude_disturbed(blocks)


def test_failed_runs_of_a_block_are_no_evidence_and_break_nothing() -> None:
    failed = inspection(OLD, MATMUL, 1, None, outcome=Outcome.CRASHED)
    assert not exclude_disturbed([failed, *runs([CALM])]).excluded


def test_neither_effects_nor_controls_see_blocks_that_are_excluded() -> None:
    seen = runs([*[CALM] * 9, BESIDE_ANOTHER])
    twins = [
        replace(each, role=Role.TWIN, started_at="twin")
        for each in seen
        if each.role is Role.BASELINE
    ]
    rows = rank(seen, labels=LABELS, baseline=NEW.stack.id, calls=[MATMUL])
    (judged,) = controls(seen + twins, baseline=NEW.stack.id, calls=[MATMUL], pure=PURE)
    times = block_times(seen, indicator=MATMUL.id, stack=NEW.stack.id)
    assert {row.effects[0].blocks for row in rows if row.effects} == {6}  # the look before ten
    assert judged.blocks == len(times) == 9
    everything = block_times(seen, indicator=MATMUL.id, stack=NEW.stack.id, excluded=())
    assert len(everything) == 10


def test_what_a_search_ran_takes_no_part_in_effects() -> None:
    seen = runs([CALM] * 8)
    fast = [
        replace(each, role=Role.SEARCH, block=each.block + 100, started_at="search")
        for each in runs([CALM] * 8, seconds=0.001)
    ]
    assert rank_of(seen) == rank_of(seen + fast)
    stack = OLD.stack.id
    assert set(block_times(seen + fast, indicator=MATMUL.id, stack=stack).values()) == {0.04}


def test_blocks_of_a_search_are_excluded_as_well() -> None:
    seen = [replace(each, role=Role.SEARCH) for each in runs([CALM, BESIDE_ANOTHER])]
    assert list(exclude_disturbed(seen).excluded) == [(CAMPAIGN, 2)]


@pytest.mark.parametrize(
    ("excluded", "tolerated", "expected"),
    [
        ((), (), []),
        (("it slept",), (), ["1 block was excluded: it slept."]),
        (("a", "b"), (), ["2 blocks were excluded: for example b."]),
        (
            ("a",) * 3,
            ("a",) * 9,
            [
                "3 blocks were excluded: a.",
                "More than half of all blocks are disturbed on this machine, so that 9 of them "
                "count nevertheless: a.",
            ],
        ),
    ],
)
def test_reports_say_what_was_excluded_and_what_counts_though_disturbed(
    excluded: tuple[str, ...], tolerated: tuple[str, ...], expected: list[str]
) -> None:
    text = report_text(
        replace(report(FASTER), health=MeasurementHealth(excluded=excluded, tolerated=tolerated))
    )
    assert [line for line in text.splitlines() if "nevertheless" in line or "excluded" in line] == (
        expected
    )


INDICATOR = """
import time
import harness
harness.WARM_UP_S = 0.01
{first}
INDICATOR = {{"summary": "ours", "component": "python"}}

def work():
    {work}
    sum(range(2000))

def setup(parameters):
    return harness.Operation(work)

if __name__ == "__main__":
    harness.main(INDICATOR, setup)
"""


def observed(folder: Path, first: str = "", work: str = "pass", samples: int = 5) -> Observation:
    """Run an indicator of our own as executors do, and read what it prints."""
    script = folder / "mine.py"
    script.write_text(INDICATOR.format(first=first, work=work))
    done = subprocess.run(
        [sys.executable, "-s", "-B", str(script), "--samples", str(samples), "--threads", "1"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(shipped_folder("pis"))},
    )
    found = parse_output(done.stdout).observation
    assert found is not None
    return found


def test_samples_are_taken_by_a_monotonic_clock_that_is_not_adjustable(tmp_path: Path) -> None:
    clock = time.get_clock_info("perf_counter")
    assert clock.monotonic
    assert not clock.adjustable
    jumping = "walls = iter(range(10**9, 0, -3600))\ntime.time = lambda: next(walls)"
    found = observed(tmp_path, first=jumping, work="time.time()")
    assert all(0 < each < 1 for each in found.values_s)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's clocks")
def test_a_suspension_within_the_samples_is_seen_by_the_clocks(tmp_path: Path) -> None:
    """Only a machine that sleeps could show it for good: here one clock is set forward."""
    asleep = (
        "real, calls = time.clock_gettime, []\n"
        "def read(clock):\n"
        "    calls.append(clock)\n"
        "    return real(clock) + (40 if clock == 7 and calls.count(7) > 1 else 0)\n"
        "time.clock_gettime = read"
    )
    calm, slept = observed(tmp_path), observed(tmp_path, first=asleep)
    one = dict(calm.circumstances)
    assert float(one["suspended_s"]) == pytest.approx(0, abs=0.05)
    assert float(one["suspended_since_boot_s"]) >= 0
    assert int(one["cpu_count"]) == os.cpu_count()
    assert one["env OMP_NUM_THREADS"] == "1"
    assert float(dict(slept.circumstances)["suspended_s"]) == pytest.approx(40, abs=0.05)
    block = replace(inspection(OLD, MATMUL, 1, 0.04), observation=slept)
    assert (
        exclude_disturbed([block]).excluded[CAMPAIGN, 1] == "the machine was suspended in between"
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux counts pressure")
def test_a_run_beside_a_loop_on_its_cpu_is_seen_to_be_disturbed(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    local = f"import os\nos.sched_setaffinity(0, {{{cpu}}})\n"
    loop = local + "import time\nend = time.time() + 30\nwhile time.time() < end:\n    pass"
    other = subprocess.Popen([sys.executable, "-c", loop])
    try:
        seen = observed(tmp_path, first=local, work="sum(range(300000))", samples=60)
    finally:
        other.kill()
        other.wait()
    if "pressure_cpu_s" not in dict(seen.circumstances):
        pytest.skip("this kernel was built or started without pressure stall information")
    (told_so,) = exclude_disturbed(
        [replace(inspection(OLD, MATMUL, 1, 1.0), observation=seen)]
    ).excluded
    assert told_so == (CAMPAIGN, 1)
