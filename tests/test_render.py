"""Reports as people read them: golden files, rewritten by ``make golden``."""

import io
import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stackgen.knowledge.failures import FailureGroup, Separation, Trait
from stackgen.measure import INTERIM_ANALYSES, effect
from stackgen.model.evidence import (
    Advice,
    Answer,
    Change,
    Control,
    Deviation,
    Difference,
    Nearest,
    NextComparison,
    Proposal,
    Provenance,
    Ranked,
    Scope,
    Verdict,
)
from stackgen.model.findings import (
    Attribution,
    ExaminedRelease,
    Finding,
    FindingKind,
    FindingState,
    NightlyReport,
    NightOutcome,
    NightReport,
)
from stackgen.model.inspections import Outcome
from stackgen.model.packages import LockFile
from stackgen.model.reports.campaigns import (
    ChosenStack,
    Cost,
    CostReport,
    CpuScaling,
    Estimate,
    ExplorePlan,
    ExploreReport,
    FailedStack,
    MeasuredIndicator,
    MeasurementHealth,
    MeasurementSetup,
    PredictedSpeed,
    RunSummary,
    SearchReport,
)
from stackgen.model.reports.local import Check
from stackgen.model.reports.locks import AdviceReport
from stackgen.report.advice import advice_markdown, advice_text
from stackgen.report.explore import plan_text, report_text
from stackgen.report.listings import bases_text, failures_text, verification_text
from stackgen.report.nightly import finding_text, nightly_markdown, nightly_text
from stackgen.report.tables import as_json, checks_text
from stackgen.report.terminal import Plain
from tests.base_reports import BASE_REPORTS
from tests.samples import MACHINE, call, environment
from tests.verifications import VERIFICATIONS

GOLDEN = Path(__file__).parent / "golden"
NEW, OLD = environment("2.4.0"), environment("1.26.4")
MATMUL = call()

PLAN = ExplorePlan(
    requirements=("tensorflow>=2.7",),
    varied=("tensorflow", "numpy"),
    setup=MeasurementSetup(
        executor="docker", base="bookworm-py311", python="3.11.2", machine="AMD EPYC"
    ),
    count=4 * 10**55,
    choices=280,
    chosen=(("tensorflow 2.21.0, numpy 2.4.0", 10**37), ("tensorflow 2.20.0, numpy 1.26.4", 12)),
    estimate=Estimate(
        wheels=44,
        download_bytes=1_930_000_000,
        disk_bytes=6_800_000_000,
        free_bytes=67 * 10**9,
        seconds=240,
    ),
    budget_s=1800,
    seed=0,
    strategy="newest",
    searched=False,
)


CONTROL = Control(name="same stack twice: numpy/matmul", blocks=10, p_value=0.41, failed=False)


def report(contrasts: list[float], *, failed: bool = False) -> ExploreReport:
    found = effect(a=OLD.stack.id, b=NEW.stack.id, indicator_id=MATMUL.id, contrasts=contrasts)
    rows = [
        Ranked(stack_id=OLD.stack.id, label="numpy 1.26.4", effects=(found,), best=found.high > 1),
        Ranked(
            stack_id=NEW.stack.id,
            label="numpy 2.4.0",
            effects=(),
            is_baseline=True,
            best=found.low <= 1,
        ),
    ]
    return ExploreReport(
        plan=PLAN,
        stacks=(
            ChosenStack(
                stack_id=OLD.stack.id,
                label="numpy 1.26.4",
                completion="newest-working",
                lock=OLD.stack.lock,
                held_back=(("protobuf", "3.20.3"),),
            ),
        ),
        failed=(
            FailedStack(
                label="numpy 2.3.0", outcome=Outcome.IMPORT_FAILED, reason="ImportError: no"
            ),
        ),
        ranking=tuple(rows),
        health=MeasurementHealth(controls=(replace(CONTROL, failed=failed),)),
        indicators=(
            MeasuredIndicator(
                indicator_id=MATMUL.id, label="numpy/matmul size=512", baseline_s=0.00321
            ),
        ),
        run=RunSummary(
            blocks=len(contrasts),
            to_analysis=(
                next(each for each in INTERIM_ANALYSES if each > len(contrasts)) - len(contrasts)
                if found.verdict is Verdict.INCONCLUSIVE
                else 0
            ),
            new_inspections=60,
            seconds=754,
            untried=278,
            stopped="the budget is spent",
            interrupted=False,
            exit_code=0,
        ),
        knowledge_base="stackgen.db",
        margin=0.02,
    )


SLOWER = [-0.2 + 0.01 * (i % 3) for i in range(10)]
FASTER = [0.2 + 0.01 * (i % 3) for i in range(10)]
UNDECIDED = [0.2 * (-1) ** i for i in range(10)]


def deviating(kind: Difference, *, at: int = 0, difference: float = 0.024) -> ExploreReport:
    """Return a report in which one row (by default the fastest) computes something else."""
    found = report(FASTER)
    deviation = Deviation(
        indicator_id=MATMUL.id,
        kind=kind,
        checksum=None if kind is Difference.TEXT else 0.5123,
        expected=None if kind is Difference.TEXT else 0.5,
        difference=difference,
        tolerance=1e-4,
    )
    rows = list(found.ranking)
    rows[at] = replace(rows[at], deviations=(deviation,), best=rows[at].is_baseline)
    if not rows[at].is_baseline:
        rows = [replace(rows[1], best=True), rows[0]]
    return replace(found, ranking=tuple(rows))


PRICED = replace(
    report(FASTER),
    cost=CostReport(
        by_stack=tuple(
            Cost(
                stack_id=each.stack.id,
                indicator_id=MATMUL.id,
                seconds=seconds,
                items=32,
                per_hour=0.42,
                per_million=seconds / 32 / 3600 * 0.42 * 1e6,
                per_unit=3600 * 32 / seconds / 0.42,
            )
            for each, seconds in ((OLD, 0.0041), (NEW, 0.00505))
        ),
        currency="EUR",
        by_cpus=tuple(
            CpuScaling(
                stack_id=each.stack.id,
                indicator="numpy/matmul size=512",
                cpus=cpus,
                time=time,
                low=low,
                high=high,
                blocks=10,
                cost=time * cpus,
            )
            for each, cpus, time, low, high in (
                (OLD, 1, 0.812, 0.8, 0.83),
                (OLD, 2, 0.5, 0.0, math.inf),
                (NEW, 1, 1.0, 1.0, 1.0),
                (NEW, 2, 0.55, 0.52, 0.58),
            )
        ),
    ),
)

UNPRICED = replace(PRICED.cost, by_stack=())


def of_indicator(found: ExploreReport, **changes: object) -> ExploreReport:
    """Return a report with changes to its only indicator."""
    (indicator,) = found.indicators
    return replace(found, indicators=(replace(indicator, **changes),))  # type: ignore[arg-type]


def of_figure(contrasts: list[float]) -> ExploreReport:
    """Return a report on a command that prints a figure and writes a result."""
    return of_indicator(
        report(contrasts),
        label="python train.py (loss: ([0-9.]+), threads=1)",
        is_figure=True,
        baseline_s=None,
        checked_file="result.json",
    )


ADVICE = AdviceReport(
    lockfile=LockFile(path="Pipfile.lock", format="pipfile", packages=()),
    advice=Advice(
        answer=Answer.FASTER,
        lock=OLD.stack.lock,
        changes=(Change(name="numpy", current="1.23.5", recommended="1.26.4"),),
        effects=report(FASTER).ranking[0].effects,
        caveats=("known vulnerabilities were not checked",),
        same_machine=True,
        provenance=(
            Provenance(
                indicator_id=MATMUL.id,
                indicator="numpy/matmul size=512",
                compared=(Change(name="numpy", current="1.23.5", recommended="1.26.4"),),
                machine="AMD EPYC",
                python="3.11.2",
                first="2026-01-01T22:00:00+00:00",
                last="2026-01-02T01:00:00+00:00",
                family="linear algebra",
            ),
        ),
        scope=Scope.OPERATIONS,
        families=("linear algebra",),
    ),
    indicators=((MATMUL.id, "numpy/matmul size=512"),),
    knowledge_base="stackgen.db",
    explore_command="stackgen explore --from Pipfile.lock",
)


def advised(report: AdviceReport, **changes: object) -> AdviceReport:
    """Return a report with changes to its advice."""
    return replace(report, advice=replace(report.advice, **changes))  # type: ignore[arg-type]


NOTHING = advised(
    ADVICE,
    answer=Answer.NO_DIFFERENCE,
    lock=None,
    changes=(),
    effects=(replace(report(UNDECIDED).ranking[0].effects[0], low=0.964, high=1.039),),
    possible=1.039,
)
OPEN = advised(
    NOTHING,
    answer=Answer.UNDECIDED,
    effects=report(UNDECIDED).ranking[0].effects,
    possible=1.553,
    next=(
        NextComparison(
            changes=ADVICE.advice.changes,
            pins=(("numpy", "1.26.4"),),
            why="1.00 times as fast (0.644 to 1.553) on numpy/matmul: not decided",
            error=0.19,
            expected_error=0.03,
        ),
    ),
)
ALL_SLOWER = advised(NOTHING, effects=report(SLOWER).ranking[0].effects, possible=None)
REFUSED = advised(
    NOTHING,
    answer=Answer.REFUSED,
    effects=(),
    provenance=(),
    caveats=(
        "not considered, because they compute something else than this lock's versions: "
        "2 of the measured stacks",
    ),
)
NOT_ADMITTED = advised(
    ADVICE,
    answer=Answer.REFUSED,
    lock=None,
    changes=(),
    refused="numpy 1.23.5 -> 1.26.4: the rest of the lock does not admit it: numba requires "
    "numpy<1.25",
)
ELSEWHERE = advised(
    ADVICE,
    answer=Answer.ELSEWHERE,
    lock=None,
    changes=(),
    same_machine=False,
    caveats=("measured on another machine (AMD EPYC), not on this one",),
)
INDIRECT = advised(
    ADVICE,
    provenance=(
        replace(ADVICE.advice.provenance[0], path=("numpy 1.23.5", "numpy 1.25.2", "numpy 1.26.4")),
    ),
)
SEVERAL = advised(
    ADVICE,
    effects=(*ADVICE.advice.effects, *OPEN.advice.effects),
    provenance=(
        *ADVICE.advice.provenance,
        replace(ADVICE.advice.provenance[0], indicator="numpy/sort kind=quicksort"),
    ),
)
MIXED = advised(
    SEVERAL,
    answer=Answer.NO_DIFFERENCE,
    lock=None,
    changes=(),
    effects=(*ADVICE.advice.effects, *report(SLOWER).ranking[0].effects),
)
UNKNOWN = advised(
    NOTHING,
    answer=Answer.UNKNOWN,
    effects=(),
    provenance=(),
    caveats=(),
    why="no measured stack holds numpy 1.24.0",
    pins=(("numpy", "1.24.0"),),
    proposals=(
        Proposal(
            changes=(Change(name="numpy", current="1.24.0", recommended="1.26.4"),),
            indicator="numpy/matmul size=512",
            ratio=1.25,
            low=0.9,
            high=1.7,
            command="stackgen explore numpy==1.26.4 --from Pipfile.lock",
        ),
    ),
    nearest=(
        Nearest(
            versions=(("numpy", "1.23.5"),),
            effects=ADVICE.advice.effects,
            provenance=ADVICE.advice.provenance,
        ),
    ),
)
CHECKS = (
    Check(name="Python", passed=True, found="3.11.2", essential=True),
    Check(name="Container engine", passed=False, found="none answers", fix="start it"),
    Check(
        name="Package index",
        passed=False,
        found="not reached",
        fix="see --index-url",
        essential=True,
    ),
)


def failed_alike(outcome: Outcome | Difference, reason: str, **facts: Any) -> FailureGroup:
    """Return a group of failures, by default of one run of one stack that nothing ran."""
    usual = {"machine_id": MACHINE, "stacks": (OLD.stack.id,), "runs": 1, "running": 0}
    given: dict[str, Any] = {**usual, **facts}
    return FailureGroup(outcome=outcome, reason=reason, **given)


GROUPS = (
    failed_alike(
        Outcome.IMPORT_FAILED,
        "ImportError: numpy",
        stacks=(OLD.stack.id, NEW.stack.id),
        runs=3,
        running=4,
        shared=(Trait(kind="package", name="protobuf", value="6.0"),),
        separations=(Separation(name="numpy", failing=("2.0.0", "2.4.0"), running=("1.26.4",)),),
        log="Traceback (most recent call last):\n  from numpy import nothing\nImportError: numpy",
    ),
    failed_alike(
        Outcome.CRASHED,
        "killed by SIGSEGV",
        running=2,
        pairs=(
            (
                Trait(kind="package", name="numpy", value="1.26.4"),
                Trait(kind="setting", name="TF_ENABLE_ONEDNN_OPTS", value="0"),
            ),
        ),
        log="killed by SIGSEGV",
    ),
    failed_alike(
        Outcome.BUILD_FAILED,
        "tables-3.0 is refused",
        shared=(
            Trait(kind="base", name="Python", value="CPython 3.11.2"),
            Trait(kind="package", name="tables", value="3.0"),
        ),
        log="tables-3.0 is refused",
    ),
    failed_alike(
        Outcome.TIMEOUT,
        "stopped after its time limit of 300 s",
        stacks=(NEW.stack.id,),
        log="stopped after its time limit of 300 s",
        sometimes=True,
    ),
    failed_alike(
        Difference.NUMBERS,
        "numpy/matmul size=512",
        runs=12,
        running=2,
        shared=(Trait(kind="package", name="numpy", value="1.26.4"),),
    ),
    failed_alike(
        Difference.NOT_REPEATABLE,
        "numpy/matmul size=512",
        stacks=(NEW.stack.id,),
        runs=12,
        shared=(Trait(kind="package", name="numpy", value="2.4.0"),),
    ),
)
NIGHT = NightReport(
    watch="training",
    base="docker bookworm-py311",
    outcome=NightOutcome.FINDINGS,
    started_at="2026-01-02T01:30:00+00:00",
    events=("numpy 2.4.0: released", "torch 2.9.1: yanked"),
    examined=(
        ExaminedRelease(
            package="numpy",
            version="2.4.0",
            previous="2.3.5",
            result="slower (numpy/matmul size=512)",
            blocks=32,
            seconds=212.0,
        ),
    ),
    findings=(
        Finding(
            watch="training",
            base="docker bookworm-py311",
            package="numpy",
            version="2.4.0",
            previous="2.3.5",
            kind=FindingKind.SLOWER,
            measure="numpy/matmul size=512",
            found_at="2026-01-02T01:30:00+00:00",
            ratio=0.951,
            low=0.942,
            high=0.960,
            changes=(("numpy", "2.3.5", "2.4.0"),),
            command='stackgen compare "numpy==2.3.5" "numpy==2.4.0"',
        ),
    ),
    exit_code=7,
)
NIGHTLY = NightlyReport(summary=NIGHT.summary, nights=(NIGHT,), exit_code=7)
UNDECIDED_NIGHT = replace(
    NIGHT,
    outcome=NightOutcome.UNDECIDED,
    findings=(),
    examined=(),
    undecided=("numpy 2.4.0: 3 blocks; stopped: the budget is spent",),
)

SEARCH = SearchReport(
    strategy="racing",
    leader=NEW.stack.id,
    leader_label="numpy 2.4.0",
    confidence=0.962,
    required_confidence=0.95,
    margin=0.02,
    blocks=11,
    inspections=44,
    machine_s=132.0,
    comparison_inspections=48,
    comparison_s=140.0,
    uniform_inspections=272,
    uniform_s=816.0,
    predictions=(
        PredictedSpeed(
            label="numpy 2.4.0", ratio=1.08, low=1.05, high=1.11, within=0.97, measured=9
        ),
        PredictedSpeed(
            label="numpy 2.2.6", ratio=1.04, low=0.98, high=1.10, within=0.08, measured=0
        ),
        PredictedSpeed(label="numpy 1.26.4", ratio=1.0, low=1.0, high=1.0, within=0.0, measured=6),
        PredictedSpeed(label="numpy 1.24.4", ratio=0.7, low=0.2, high=0.93, within=0.0, measured=1),
    ),
    calibration=(37, 40),
)
SEARCHED = replace(report(FASTER), search=SEARCH)

TEXTS = {
    "plan": plan_text(PLAN),
    "plan-searched": plan_text(replace(PLAN, strategy="racing", searched=True)),
    "report-faster": report_text(report(FASTER)),
    "report-undecided": report_text(report(UNDECIDED)),
    "report-slower": report_text(report(SLOWER)),
    "report-too-few": report_text(report(FASTER[:3])),
    "report-numerically-different": report_text(deviating(Difference.NUMBERS)),
    "report-different-result": report_text(deviating(Difference.TEXT, difference=math.inf)),
    "report-not-repeatable": report_text(deviating(Difference.NOT_REPEATABLE)),
    "report-baseline-not-repeatable": report_text(deviating(Difference.NOT_REPEATABLE, at=1)),
    "report-searched": report_text(SEARCHED),
    "report-searched-in-vain": report_text(
        replace(
            SEARCHED,
            ranking=(),
            search=replace(SEARCH, confidence=0.4, blocks=1, calibration=(0, 0)),
            run=replace(SEARCHED.run, stopped="the budget is spent"),
        )
    ),
    "report-priced": report_text(PRICED),
    "report-on-several-cpus": report_text(replace(PRICED, cost=UNPRICED)),
    "report-figure-on-several-cpus": report_text(
        replace(
            PRICED,
            cost=replace(UNPRICED, by_cpus=tuple(replace(e, cost=None) for e in UNPRICED.by_cpus)),
        )
    ),
    "report-figure-better": report_text(of_figure(FASTER)),
    "report-figure-worse": report_text(of_figure(SLOWER)),
    "report-figure-undecided": report_text(of_figure(UNDECIDED)),
    "report-controls-failed": report_text(report(FASTER, failed=True)),
    "advice": advice_text(ADVICE),
    "advice-markdown": advice_markdown(ADVICE),
    "advice-nothing-faster": advice_text(NOTHING),
    "advice-not-decided": advice_text(OPEN),
    "advice-all-slower": advice_text(ALL_SLOWER),
    "advice-mixed": advice_text(MIXED),
    "advice-nothing-considered": advice_text(REFUSED),
    "advice-not-admitted": advice_text(NOT_ADMITTED),
    "advice-elsewhere": advice_text(ELSEWHERE),
    "advice-indirect": advice_text(INDIRECT),
    "advice-several": advice_text(SEVERAL),
    "advice-unknown": advice_text(UNKNOWN),
    "doctor": checks_text(CHECKS),
    "failures": failures_text(GROUPS),
    "finding": finding_text(FindingState(finding=NIGHT.findings[0])),
    "nightly": nightly_text(NIGHTLY),
    "nightly-markdown": nightly_markdown(NIGHTLY),
    "nightly-undecided": nightly_text(
        NightlyReport(summary=UNDECIDED_NIGHT.summary, nights=(UNDECIDED_NIGHT,), exit_code=3)
    ),
    **{name: bases_text(each) for name, each in BASE_REPORTS.items()},
    **{f"verify-{name}": verification_text(each) for name, each in VERIFICATIONS.items()},
}


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_reports_read_as_they_did(name: str) -> None:
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("STACKGEN_GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(TEXTS[name] + "\n")
    assert TEXTS[name] + "\n" == golden.read_text()


def test_every_golden_file_has_its_report() -> None:
    others = {"indicator_ids"}  # of test_indicator_declaration
    assert {each.stem for each in GOLDEN.glob("*.txt")} - others == set(TEXTS)


def test_json_holds_every_field_and_no_infinity() -> None:
    document = json.loads(as_json(report(FASTER[:3])))
    (effect_document,) = document["ranking"][0]["effects"]
    assert effect_document["high"] is None
    assert effect_document["verdict"] == "inconclusive"
    assert document["plan"]["count"] == 4 * 10**55
    assert math.isfinite(document["run"]["seconds"])


def test_json_reports_what_a_stack_computes_and_what_it_should() -> None:
    document = json.loads(as_json(deviating(Difference.NUMBERS)))
    (row,) = (row for row in document["ranking"] if row["deviations"])
    assert row["best"] is False
    assert row["deviations"] == [
        {
            "indicator_id": MATMUL.id,
            "kind": "numerically different",
            "checksum": 0.5123,
            "expected": 0.5,
            "difference": 0.024,
            "tolerance": 1e-4,
        }
    ]


@pytest.mark.parametrize("kind", [Difference.NUMBERS, Difference.TEXT, Difference.NOT_REPEATABLE])
def test_a_file_is_called_the_same_only_where_it_is(kind: Difference) -> None:
    file = "result.json"
    printed = "result.json is the same in every stack that was compared"
    assert printed in report_text(of_indicator(report(FASTER), checked_file=file))
    assert printed not in report_text(of_indicator(deviating(kind), checked_file=file))
    unmeasured = [replace(row, effects=()) for row in report(FASTER).ranking]
    assert printed not in report_text(
        replace(of_indicator(report(FASTER), checked_file=file), ranking=tuple(unmeasured))
    )


@pytest.mark.parametrize("contrasts", [FASTER, SLOWER, UNDECIDED])
def test_a_figure_is_never_called_fast(contrasts: list[float]) -> None:
    text = report_text(of_figure(contrasts)).lower()
    assert not any(word in text for word in ("speed", "fast", "slow"))


def test_of_several_indicators_the_star_is_for_all_of_them_together() -> None:
    found = report(FASTER)
    second = replace(found.ranking[0].effects[0], indicator_id=call("numpy/sort").id)
    rows = (
        replace(found.ranking[0], effects=(*found.ranking[0].effects, second)),
        found.ranking[1],
    )
    assert "all indicators taken together" in report_text(replace(found, ranking=rows))
    assert "all indicators taken together" not in report_text(found)


def test_where_all_agree_but_the_baseline_that_is_said() -> None:
    found = deviating(Difference.NUMBERS)
    baseline, odd = found.ranking
    text = report_text(replace(found, ranking=(baseline, odd, replace(odd, label="numpy 1.25.2"))))
    assert "All of them agree with each other" in text
    assert "All of them agree" not in report_text(found)


def test_a_log_names_each_activity_once_and_then_now_and_then() -> None:
    now = [0.0]
    stream = io.StringIO()
    progress = Plain(stream, clock=lambda: now[0])
    for done in range(5):
        progress.doing("resolving: reading", done=done, total=5)
    now[0] = 11
    progress.doing("resolving: reading", done=5, total=5)
    progress.note("a note")
    assert stream.getvalue().splitlines() == [
        "resolving: reading (0/5)",
        "resolving: reading (5/5)",
        "a note",
    ]


def test_what_others_wrote_does_not_steer_a_terminal() -> None:
    stream = io.StringIO()
    Plain(stream).note("yanked: \x1b]52;c;c2g=\x07 caf\u00e9\n\tnext")
    assert stream.getvalue() == "yanked: \\x1b]52;c;c2g=\\x07 caf\u00e9\n\tnext\n"


def test_what_is_over_soon_is_not_reported_and_notes_are_reported_at_once() -> None:
    now, stream = [0.0], io.StringIO()
    reported = Plain(stream, lambda: now[0], delay_s=1.0)
    reported.doing("reading", done=1, total=9)
    reported.note("careful")
    assert stream.getvalue() == "careful\n"
    now[0] = 2.0
    reported.doing("reading", done=8, total=9)
    assert stream.getvalue() == "careful\nreading (8/9)\n"


@pytest.mark.parametrize(("blocks", "reported"), [(1, False), (5, False), (6, True)])
def test_a_ratio_of_too_few_blocks_is_no_number_in_a_report(blocks: int, reported: bool) -> None:
    text = report_text(report([math.log(1.744) + 0.001 * each for each in range(blocks)]))
    assert ("1.74" in text) is reported
    assert ("(too few blocks)" in text) is not reported


def test_a_plan_that_does_not_fit_on_the_disk_says_so() -> None:
    small = replace(PLAN, estimate=replace(PLAN.estimate, free_bytes=10**9))
    assert "More than is free: without --dry-run it is refused." in plan_text(small)
    assert "More than is free" not in plan_text(PLAN)


def test_a_plan_with_one_release_says_how_others_take_part() -> None:
    chosen = (("torch 2.13.0, numpy 2.4.0", 12), ("torch 2.13.0, numpy 2.3.5", 12))
    plan = replace(PLAN, varied=("torch", "numpy"), chosen=chosen, too_large=("2.15.0",))
    assert "So every stack has torch 2.13.0: to compare releases" in plan_text(plan)
    other = (*chosen, ("torch 2.14.0, numpy 2.4.0", 12))
    assert "So every stack has" not in plan_text(replace(plan, chosen=other))
    assert "So every stack has" not in plan_text(replace(plan, too_large=()))


def test_a_night_in_markdown_names_the_cause_of_a_finding() -> None:
    cause = Attribution(culprits=(("scipy", 0.97),), answer="scipy is responsible")
    found = replace(NIGHT.findings[0], attribution=cause)
    night = replace(NIGHTLY, nights=(replace(NIGHT, findings=(found,)),))
    assert "\n\nCause: scipy is responsible\n\n```\n" in nightly_markdown(night)
