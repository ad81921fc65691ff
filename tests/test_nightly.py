"""What a night calls a finding."""

from dataclasses import dataclass, field, replace

from stackgen.campaign.request import CampaignRequest, StackRequest
from stackgen.commands.nightly import Night, _differences
from stackgen.errors import EvidenceError
from stackgen.model.evidence import Control, Difference
from stackgen.model.identity import IndicatorId
from stackgen.model.progress import NullProgress
from stackgen.model.reports.campaigns import ExploreReport, MeasurementHealth
from stackgen.resolve import Requirements, parse_requirements
from tests.test_render import FASTER, deviating, of_indicator, report

FAILED = Control(name="same stack twice", blocks=10, p_value=0.0, failed=True)


def unreliable(found: ExploreReport) -> ExploreReport:
    """Return the same report with a control that failed."""
    return replace(found, health=MeasurementHealth(controls=(FAILED,)))


def test_a_release_that_is_faster_is_a_difference_unless_controls_failed() -> None:
    found = report(FASTER)
    ((_, _, kind),) = _differences(found)
    assert kind == "faster"
    assert _differences(unreliable(found)) == {}


def test_a_release_that_computes_something_else_is_one_however_fast_or_noisy() -> None:
    found = deviating(Difference.NUMBERS)
    (((_, _, kind), text),) = _differences(found).items()
    assert kind == "numerically different"
    reported = (
        "numpy 1.26.4 computes something else than numpy 2.4.0 on numpy/matmul size=512: numer"
    )
    assert text.startswith(reported)
    assert _differences(unreliable(found)) == _differences(found)


def test_a_baseline_that_is_not_repeatable_is_no_finding_about_a_release() -> None:
    found = _differences(deviating(Difference.NOT_REPEATABLE, at=1))
    assert [kind for _, _, kind in found] == ["faster"]


def on(found: ExploreReport, indicator: str) -> ExploreReport:
    """Return the same report, of another indicator."""
    other = IndicatorId(indicator)
    rows = tuple(
        replace(row, effects=tuple(replace(each, indicator_id=other) for each in row.effects))
        for row in found.ranking
    )
    return of_indicator(replace(found, ranking=rows), indicator_id=other, label=indicator)


def test_what_one_indicator_shows_is_not_confirmed_by_another() -> None:
    first, second = (_differences(on(report(FASTER), each)) for each in ("sort", "fft"))
    assert not first.keys() & second.keys()
    assert [" on sort: 1." in text for text in first.values()] == [True]


@dataclass
class Measured:
    """Explores by taking time, and answers with one report after the other."""

    answers: list[ExploreReport | EvidenceError]
    takes_s: float = 0.0
    now: float = 0.0
    budgets: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def explore(self, request: CampaignRequest) -> ExploreReport:
        self.budgets.append(request.budget.budget_s)
        self.now += self.takes_s or request.budget.budget_s
        answer = self.answers.pop(0)
        if isinstance(answer, EvidenceError):
            raise answer
        return answer


def night(measured: Measured, releases: int) -> tuple[Night, list[str]]:
    """Return a night of 60 seconds that is over, and the versions that are decided."""
    decided: list[str] = []
    found = Night(
        request=CampaignRequest(kind="nightly", stacks=StackRequest(requirements=Requirements())),
        ends=60.0,
        clock=measured.clock,
        explore=measured.explore,
        question=lambda name, version: StackRequest(
            requirements=parse_requirements(f"{name}=={version}")
        ),
        decided=lambda name, versions: decided.extend(versions),  # noqa: ARG005
        progress=NullProgress(),
    )
    found.run([("numpy", f"2.{n}") for n in range(releases)])
    return found, decided


SAME = report([0.0] * 9 + [0.001])
UNDECIDED = replace(SAME, ranking=report(FASTER[:3]).ranking, run=replace(SAME.run, exit_code=3))


def test_the_releases_of_a_night_share_its_budget() -> None:
    measured = Measured([SAME] * 3)
    _, decided = night(measured, 3)
    assert measured.budgets == [20.0, 20.0, 20.0]
    assert decided == ["2.0", "2.1", "2.2"]
    quick = Measured([SAME] * 3, takes_s=6.0)
    night(quick, 3)
    assert quick.budgets == [20.0, 27.0, 48.0]  # what one leaves is for the others


def test_what_the_budget_does_not_allow_is_reported_and_stays_new() -> None:
    found, decided = night(Measured([SAME], takes_s=61.0), 3)
    assert found.postponed == ["numpy 2.1", "numpy 2.2"]
    assert decided == ["2.0"]
    assert found.exit_code == 3


def test_a_night_without_an_answer_says_what_is_missing_and_the_release_stays_new() -> None:
    nothing = EvidenceError("there is only one stack", why="no other fits", fix="")
    found, decided = night(
        Measured([UNDECIDED, nothing, unreliable(SAME)]),
        3,
    )
    assert decided == []
    assert found.exit_code == 3
    assert [each.partition(";")[0] for each in found.undecided] == [
        "numpy 2.0: 3 blocks, the first interim analysis is after 6",
        "numpy 2.1: there is only one stack: no other fits",
        "numpy 2.2: the controls failed, the machine was not quiet enough",
    ]


def test_a_difference_that_is_not_confirmed_for_lack_of_budget_stays_new() -> None:
    found, decided = night(Measured([report(FASTER)], takes_s=61.0), 1)
    assert (found.findings, decided, found.exit_code) == ([], [], 3)
    assert found.undecided == ["numpy 2.0: a difference is not confirmed yet: the budget is spent"]
    found, decided = night(Measured([report(FASTER), UNDECIDED], takes_s=5.0), 1)
    assert decided == []
    assert "not confirmed yet: 3 blocks" in found.undecided[0]
    found, decided = night(Measured([report(FASTER)] * 2, takes_s=5.0), 1)
    assert (len(found.findings), decided, found.exit_code) == (1, ["2.0"], 7)
