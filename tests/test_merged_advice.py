"""An advice says how much of its evidence was merged from other knowledge bases."""

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.campaign.indicators import CONTROL
from stackgen.campaign.options import IndexOptions
from stackgen.commands.advise import advise, open_sources
from stackgen.commands.advise_request import ADVISE, AdviseRequest
from stackgen.commands.options import AdviceOptions
from stackgen.executors.machine import this_machine
from stackgen.knowledge.database import open_database
from stackgen.knowledge.recommendation import alpha_after
from stackgen.model.evidence import Answer
from stackgen.model.inspections import (
    Indicator,
    IndicatorCall,
    Inspection,
    LoadedDistribution,
    Observation,
    Role,
)
from stackgen.model.progress import NullProgress
from stackgen.model.reports.locks import AdviceReport
from stackgen.model.stacks import Machine, Stack
from stackgen.report.advice import advice_text
from stackgen.storage.paths import Paths
from tests.knowledge import samples
from tests.local_index import Published, publish

OLD, NEW = samples.stack(numpy="1.26.4"), samples.stack(numpy="2.0.0")
PURE = IndicatorCall(
    indicator=Indicator(name=CONTROL, component="python", summary="", sha256="2e", path="")
)
BLOCKS = 12
HERE = this_machine()


def ran(
    block: int, call: IndicatorCall, role: Role, stack: Stack, seconds: float, machine: Machine
) -> Inspection:
    own = tuple(
        LoadedDistribution(name=name, version=version, compiled=True)
        for name, version in stack.lock.versions.items()
    )
    return replace(
        samples.inspection(block, of=stack),
        indicator_id=call.id,
        machine_id=machine.id,
        role=role,
        observation=Observation(values_s=(seconds,), loops=4, loaded=own),
    )


def measured(
    path: Path,
    seed: int,
    machine: Machine = HERE,
    old: Stack = OLD,
    new: Stack = NEW,
    kind: str = samples.CAMPAIGN.kind,
) -> Path:
    """Write a campaign in which the new stack, with NumPy 2.0, takes half the time."""
    noise = random.Random(seed)
    campaign = replace(samples.CAMPAIGN, seed=seed, machine_id=machine.id, kind=kind)
    with open_database(path) as database:
        samples.prepare(database, old, new)
        database.add_machine(machine)
        database.add_indicator(PURE)
        database.add_campaign(campaign, samples.STARTED)
        for block in range(1, BLOCKS + 1):
            for call, role, stack, seconds in (
                (samples.CALL, Role.BASELINE, old, 0.020),
                (samples.CALL, Role.TWIN, old, 0.020),
                (samples.CALL, Role.CANDIDATE, new, 0.010),
                (PURE, Role.BASELINE, old, 0.005),
                (PURE, Role.CANDIDATE, new, 0.005),
            ):
                each = ran(block, call, role, stack, seconds * noise.uniform(0.995, 1.005), machine)
                database.add_inspection(replace(each, campaign_id=campaign.id))
    return path


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "requirements.txt").write_text("numpy==1.26.4\n")
    return Paths(cache=tmp_path / "cache", knowledge=measured(tmp_path / "mine.db", 1))


def request(paths: Paths) -> AdviseRequest:
    folder = paths.knowledge.parent
    index = publish(folder, {"numpy": {"1.26.4": Published(), "2.0.0": Published()}})
    return AdviseRequest(
        path=folder / "requirements.txt",
        index=IndexOptions(index_url=index),
        options=AdviceOptions(allow_major=True),
    )


def advised(paths: Paths) -> AdviceReport:
    return advise(request(paths), paths, {"PIP_CONFIG_FILE": os.devnull}, NullProgress())


def test_an_advice_from_own_inspections_names_no_other_knowledge_base(paths: Paths) -> None:
    report = advised(paths)
    assert report.advice.lock is not None
    assert (report.inspections, report.merged) == (3 * BLOCKS, ())
    assert "Merged" not in advice_text(report)


def test_an_advice_counts_what_was_merged_and_names_the_file(paths: Paths) -> None:
    theirs = measured(paths.knowledge.parent / "team" / "team.db", 2)
    with open_database(paths.knowledge) as database:
        database.merge(theirs)
    report = advised(paths)
    ((origin, count),) = report.merged
    assert (count, report.inspections) == (3 * BLOCKS, 6 * BLOCKS)
    source = f"team.db (origin {origin.id[:12]}, {origin.first_seen[:10]})"
    assert f"Merged from {source}: 36 of 72 inspections" in advice_text(report).splitlines()


def test_what_another_machine_measured_is_shown_and_not_recommended(paths: Paths) -> None:
    elsewhere = Machine(identity=(("cpu_name", "Some CPU"), ("cpu_vendor", "Other")))
    there = measured(paths.knowledge.parent / "there.db", 3, elsewhere)
    report = advised(replace(paths, knowledge=there))
    assert (report.advice.answer, report.advice.lock) == (Answer.ELSEWHERE, None)
    assert report.exit_code == 11
    text = advice_text(report)
    assert "Measured elsewhere" in text
    assert "measured on Some CPU" in text
    assert samples.STARTED[:10] in text
    assert " --measure 15m --allow-major --index-url " in report.measure_command
    assert report.measure_command in text


def test_campaigns_that_decided_the_same_versions_of_another_file_are_counted(paths: Paths) -> None:
    """A comment in the lock, or a copy of it, makes no new question of an answer that repeats."""
    for seed in (5, 6, 7):
        measured(paths.knowledge, seed, kind=ADVISE)
    environ = {"PIP_CONFIG_FILE": os.devnull}
    with open_sources(request(paths), paths, environ, NullProgress()) as sources:
        assert sources.advisor().alpha == alpha_after(3)
    other = replace(request(paths), path=paths.knowledge.parent / "other.txt")
    other.path.write_text("numpy==1.26.3\n")
    with open_sources(other, paths, environ, NullProgress()) as sources:
        assert sources.advisor().alpha == alpha_after(0)
