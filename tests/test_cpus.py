"""CPUs that are set aside: for measuring, and for everything else."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from stackgen.campaign.host import cpu_list, limited_to, refuse_cpus, shared_cores
from stackgen.campaign.indicators import indicator_calls, limits, metered
from stackgen.campaign.request import CampaignRequest
from stackgen.errors import UsageError
from stackgen.model.options import parse_cpu_list
from tests.campaign_requests import campaign_request, changed
from tests.dying_parts import recorded, serve, watch
from tests.laboratory import INDICATOR, WORK, Laboratory
from tests.tiny_index import TinyIndex, serving

REQUEST = campaign_request(indicators=("python/pure",))
REQUEST = changed(REQUEST, parameters=(("rounds", "9"),))
BOTH = changed(REQUEST, measure_cpus=(2, 3), build_cpus=(0, 1))
REPORTED = "import os; print(sorted(os.sched_getaffinity(0)))"

needs_affinity = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="no program chooses its CPUs on this system"
)
needs_two_cpus = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="there are no two CPUs that this process may choose from",
)


def reported_by_a_child() -> str:
    return subprocess.run(
        [sys.executable, "-c", REPORTED], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", ()),
        ("3", (3,)),
        ("0,2-5", (0, 2, 3, 4, 5)),
        (" 4-5, 1 ,5", (1, 4, 5)),
    ],
)
def test_a_list_names_single_cpus_and_ranges(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpu_list(text, "--build-cpus") == cpus
    assert parse_cpu_list(cpu_list(cpus), "--build-cpus") == cpus


@pytest.mark.parametrize("text", ["x", "1-", "-1", "3-2", "1,,2", "1;2", "0x1", "²", "1.5", "all"])
def test_what_is_no_list_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"--measure-cpus 2-3") as refused:
        parse_cpu_list(text, "--measure-cpus")
    assert text in refused.value.what


@needs_affinity
@pytest.mark.parametrize(
    ("campaign", "usable", "words"),
    [
        (BOTH, (0, 1), "--measure-cpus: the CPUs 2-3 cannot be used"),
        (BOTH, (0, 2, 3), "--build-cpus: CPU 1 cannot be used"),
        (changed(BOTH, build_cpus=(1, 2)), range(4), "CPU 2 cannot be for measuring and for"),
        (changed(BOTH, measure_cpus=()), range(4), "--build-cpus alone keeps nothing apart"),
        (changed(BOTH, threads=3), range(4), "3 threads cannot be measured on CPUs 2-3"),
        (changed(BOTH, parameters=(("threads", "4"),)), range(4), "4 threads cannot be measured"),
        (changed(REQUEST, threads=99999), (0, 1), "99999 threads cannot be measured on CPUs 0-1"),
    ],
)
def test_cpus_that_cannot_be_reserved_are_refused(
    campaign: CampaignRequest, usable: tuple[int, ...], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        refuse_cpus(campaign, usable)


@needs_affinity
def test_cpus_that_are_there_and_apart_are_taken() -> None:
    refuse_cpus(BOTH, range(4))
    refuse_cpus(changed(BOTH, build_cpus=(), threads=2), range(4))
    refuse_cpus(REQUEST, ())
    refuse_cpus(changed(REQUEST, threads=2), (0, 1))


@needs_affinity
def test_threads_and_cpus_of_inspections_come_from_those_set_aside() -> None:
    assert limits(0, among=(2, 5, 7)).cpus == (2, 5, 7)
    assert limits(0, among=(2, 5, 7)).threads == 3
    assert limits(2, among=(2, 5, 7)).cpus == (5, 7)
    (call,), control = indicator_calls(BOTH, (), frozenset())
    assert dict(control.arguments)["threads"] == "2"
    counts = metered(changed(BOTH, cpus=(1, 2)), [call], range(8))
    assert sorted(each.cpus for each in counts.limits.values()) == [(2, 3), (3,)]
    with pytest.raises(UsageError, match="cannot be measured on 3 CPUs") as refused:
        metered(changed(BOTH, cpus=(3,)), [call], range(8))
    assert "--measure-cpus names 2" in refused.value.why


@needs_two_cpus
def test_what_is_started_meanwhile_keeps_to_the_cpus_and_all_is_as_before_afterwards() -> None:
    before = os.sched_getaffinity(0)
    one = min(before)
    with limited_to((one,)):
        assert reported_by_a_child() == f"[{one}]"
    assert reported_by_a_child() == str(sorted(before))
    with contextlib.suppress(KeyboardInterrupt), limited_to((one,)):
        raise KeyboardInterrupt
    assert reported_by_a_child() == str(sorted(before))
    with limited_to(()):
        assert os.sched_getaffinity(0) == before


def test_halves_of_one_core_are_noticed(tmp_path: Path) -> None:
    for cpu, siblings in enumerate(["0,4", "1,5", "2-3", "2-3", "0,4", "1,5"]):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    assert shared_cores((3, 5), (0, 1, 2), tmp_path) == (1, 2)
    assert shared_cores((3, 5), (0, 4), tmp_path) == ()
    assert shared_cores((9,), (0,), tmp_path) == ()


@pytest.fixture
def index() -> Iterator[TinyIndex]:
    with serving() as found:
        yield found


@pytest.mark.journey
@pytest.mark.usefixtures("signals_as_usual")
@needs_two_cpus
def test_inspections_run_on_the_measured_cpu_and_all_else_on_the_other(
    index: TinyIndex, tmp_path: Path
) -> None:
    for version in ("2.0", "1.0"):
        serve(index, tmp_path / "wheels", version, WORK.format(size=5_000))
    (tmp_path / "work.py").write_text(INDICATOR)
    laboratory = Laboratory(root=tmp_path, index=index.simple)
    build, measure = sorted(os.sched_getaffinity(0))[:2]
    options = ("--measure-cpus", str(measure), "--build-cpus", str(build))
    with laboratory.exploring("speedy", "--stacks", "2", "--budget", "90s", *options) as running:
        watch(laboratory, running, lambda seen: any(each.block for each in seen))
        ours = psutil.Process(running.pid)
        assert ours.cpu_affinity() == [build]
        running.terminate()
        _, err = running.communicate()
    assert running.returncode in (0, 3, 6, 128 + signal.SIGTERM), err
    reported = {
        dict(each.observation.circumstances)["cpus"] if each.observation else each.log
        for each in recorded(laboratory)
    }
    assert reported == {str(measure)}


def test_a_cpu_that_is_not_there_ends_it_with_2_before_anything_is_requested(
    index: TinyIndex, tmp_path: Path
) -> None:
    laboratory = Laboratory(root=tmp_path, index=index.simple)
    done = laboratory.explore("speedy", "--stacks", "2", "--measure-cpus", "4000")
    assert done.returncode == 2, done.stderr
    assert "--measure-cpus: CPU 4000 cannot be used" in done.stderr
    assert "Traceback" not in done.stderr
    assert index.requested == []
