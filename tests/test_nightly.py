"""What nights find, of planted releases: states and decisions are real, campaigns are drawn."""

import math
import os
import random
import shlex
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from stackgen.campaign.backend import replica_folder
from stackgen.campaign.request import CampaignRequest
from stackgen.commands.nightly import check, mark_reported, nightly
from stackgen.errors import (
    EngineError,
    EvidenceError,
    IndexUnavailableError,
    ResolutionError,
    UsageError,
)
from stackgen.knowledge.database import open_database
from stackgen.measure.effects import LONG_ANALYSES
from stackgen.model.choices import ExecutorChoice
from stackgen.model.findings import (
    Attribution,
    Finding,
    FindingKind,
    FindingStatus,
    NightlyReport,
    NightOutcome,
    NightReport,
)
from stackgen.model.progress import NullProgress
from stackgen.model.reports.campaigns import ExploreReport
from stackgen.nightly.decide import (
    ComparedQuantity,
    Failure,
    FailureStep,
    PairResult,
    Series,
    smallest_detectable,
)
from stackgen.nightly.night import (
    AGAINST_BEST,
    CONFIRM,
    CONFIRM_AGAIN,
    FIRST,
    PERSIST,
    WITHOUT,
)
from stackgen.nightly.releases import Pair, changes, package_page
from stackgen.nightly.site import LiveSite
from stackgen.nightly.store import NightStore, open_store
from stackgen.storage.paths import Paths
from tests.campaign_requests import campaign_request
from tests.local_index import Published, publish
from tests.nights import MEASURE, WATCH, FakeSite, KilledError, Nights, Planted, nights
from tests.samples import FACTS
from tests.spaces import TARGET, artifact
from tests.test_virtualenvs import BASE

NEEDS = ("b",)
GONE = IndexUnavailableError("the index is gone", why="no network", fix="")


@pytest.fixture
def week(tmp_path: Path) -> Nights:
    """Nights after a first one; the index has a 1.0 and b 1.0."""
    return nights(tmp_path)


def kinds(report: NightReport) -> list[tuple[str, str, str, str]]:
    return [(e.package, e.version, e.kind.value, e.measure) for e in report.findings]


@pytest.mark.parametrize(
    ("planted", "kind", "measure"),
    [
        (Planted(time=1.05), "slower", MEASURE),
        (Planted(time=0.9), "faster", MEASURE),
        (Planted(breaks=FailureStep.IMPORT), "broken", "import"),
        (Planted(breaks=FailureStep.CRASH), "broken", "crash"),
        (Planted(wrong=True), "numerically different", MEASURE),
        (Planted(megabytes=14), "larger", "disk"),
        (Planted(memory=1.3), "larger", "import memory"),
        (Planted(time=1.004), None, ""),
        (Planted(memory=0.7), None, ""),
        (Planted(megabytes=7), None, ""),
    ],
)
def test_a_release_is_found_on_its_night_and_quiet_ones_are_not(
    week: Nights, planted: Planted, kind: str | None, measure: str
) -> None:
    assert week.run().outcome is NightOutcome.NOTHING_NEW
    week.site.releases["b"]["2.0"] = planted
    report = week.run()
    assert kinds(report) == ([] if kind is None else [("b", "2.0", kind, measure)])
    assert report.outcome is (NightOutcome.ALL_WELL if kind is None else NightOutcome.FINDINGS)
    assert report.exit_code == (0 if kind is None else 7)
    stages = [(stage.seed, stage.replica) for _, stage in week.site.campaigns]
    assert stages == [(FIRST.seed, 0), (CONFIRM.seed, 1)][: 1 + (kind is not None)]
    after = week.run()
    assert not after.findings
    assert [e.persists for e in after.open_findings] == [True] * (kind is not None)
    assert week.run().outcome is NightOutcome.NOTHING_NEW


def test_two_releases_of_one_night_are_distinguished(week: Nights) -> None:
    week.site.releases["a"]["2.0"] = Planted(needs=NEEDS)
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    report = week.run()
    assert kinds(report) == [("b", "2.0", "slower", MEASURE)]
    changed = [[name for name, _, _ in pair.changes] for pair, _ in week.site.campaigns]
    assert changed == [["a"], ["b"], ["b"], ["b"]]
    assert [pair.new["a"] for pair, _ in week.site.campaigns] == ["2.0", "2.0", "2.0", "1.0"]
    cause = report.findings[0].attribution
    assert cause is not None
    assert cause.answer == "b 2.0 is responsible: it shows without a 2.0, too"


@pytest.mark.parametrize("first", ["a", "b"])
def test_two_releases_that_are_slow_only_together_are_both_named(week: Nights, first: str) -> None:
    other = {"a": "b", "b": "a"}[first]
    slow = Planted(time=1.1, only_with=("b", "2.0"), needs=NEEDS)
    week.site.releases["a"]["2.0"], week.site.releases["b"]["2.0"] = slow, Planted()
    week.site.uploaded = {(first, "2.0"): "2026-01-01", (other, "2.0"): "2026-01-02"}
    (finding,) = week.run().findings
    assert (finding.package, finding.kind.value) == (other, "slower")
    assert finding.attribution is not None
    assert finding.attribution.answer == f"{other} 2.0 and {first} 2.0, only together"


def test_a_release_that_needs_another_one_is_measured_beside_it(tmp_path: Path) -> None:
    week = nights(tmp_path, b={"1.0": Planted(), "1.1": Planted()})
    week.site.releases["a"]["2.0"] = Planted(needs=("b>=2",), time=1.05)
    week.site.releases["b"]["2.0"] = Planted()
    report = week.run()
    assert kinds(report) == [("a", "2.0", "slower", MEASURE)]
    assert [name for name, _, _ in report.findings[0].changes] == ["a"]  # both with b 2.0


def test_the_cause_is_looked_for_once_and_only_where_several_packages_changed(
    tmp_path: Path,
) -> None:
    week = nights(tmp_path, b={"1.0": Planted(), "1.1": Planted()})
    week.site.releases["a"] = {"1.0": Planted(needs=("b<2",))}
    requested: list[tuple[str, float]] = []

    def attribute(finding: Finding, pair: Pair, budget_s: float) -> Attribution:
        requested.append((finding.title, budget_s))
        assert [name for name, _, _ in pair.changes] == ["a", "b"]
        return Attribution(culprits=(("b", 0.97),), answer="b is responsible")

    week.attribute = attribute
    week.site.releases["b"]["2.0"] = Planted(time=1.1)
    assert "other packages do not admit it" in " ".join(week.run().events)
    assert requested == []
    week.site.releases["a"]["2.0"] = Planted(needs=("b>=2",))
    (finding,) = week.run().findings
    assert finding.attribution is not None
    assert finding.attribution.answer == "b is responsible"
    ((_, budget_s),) = requested
    assert 0 < budget_s < week.watch.budget_s
    week.run()
    assert len(requested) == 1
    assert week.store.findings()[0].finding.attribution == finding.attribution


def test_a_later_release_that_is_as_fast_as_the_good_one_is_reported_as_fixed(week: Nights) -> None:
    week.site.releases["b"]["2.0"] = Planted(time=1.10)
    week.run()
    week.site.releases["b"]["3.0"] = Planted()
    report = week.run()
    assert kinds(report) == [("b", "3.0", "fixed again", MEASURE)]
    assert [e.finding.kind for e in report.open_findings] == [FindingKind.FIXED]
    (closed,) = [e for e in week.store.findings() if e.status is FindingStatus.CLOSED]
    assert closed.note == "fixed in 3.0"


@pytest.mark.parametrize(
    ("bad", "measure"),
    [
        (Planted(wrong=True), MEASURE),
        (Planted(megabytes=14), "disk"),
        (Planted(memory=1.3), "import memory"),
    ],
)
def test_what_a_later_release_no_longer_has_is_fixed_once_it_was_measured(
    week: Nights, bad: Planted, measure: str
) -> None:
    week.site.releases["b"]["2.0"] = bad
    week.run()
    week.site.releases["b"]["3.0"] = Planted()
    fails = PairResult(
        failures=(Failure(is_new=False, step=FailureStep.CRASH, reason="the best one"),)
    )
    week.site.troubles = [None, None, fails]  # persistence, the release, against the best stack
    assert kinds(week.run()) == []
    week.site.releases["b"]["4.0"] = Planted()
    assert kinds(week.run()) == [("b", "4.0", "fixed again", measure)]


def test_an_old_release_that_appears_late_makes_no_newer_one_fixed(week: Nights) -> None:
    week.site.releases["a"]["2.0"] = Planted(time=1.1, needs=NEEDS)
    week.site.releases["b"]["2.0"] = Planted()
    assert kinds(week.run()) == [("a", "2.0", "slower", MEASURE)]
    week.site.releases["a"]["3.0"] = Planted(needs=NEEDS)
    week.site.releases["b"]["1.1"] = Planted(wrong=True)
    assert sorted(kinds(week.run())) == [
        ("a", "3.0", "fixed again", MEASURE),
        ("b", "1.1", "numerically different", MEASURE),
    ]
    notes = {each.finding.package: each.note for each in week.store.findings() if each.note}
    assert notes["b"] == "2.0, which is newer, does not have it"


def test_a_broken_release_is_left_out_and_its_successor_is_fixed(week: Nights) -> None:
    week.site.releases["b"]["2.0"] = Planted(breaks=FailureStep.IMPORT)
    week.run()
    week.site.releases["b"]["2.1"] = Planted()
    report = week.run()
    assert kinds(report) == [("b", "2.1", "fixed again", "import")]
    assert report.examined[-1].previous == "1.0"


def test_a_yank_is_reported_with_its_reason() -> None:
    before = package_page([artifact("b", "1.0")], TARGET)
    now = package_page([artifact("b", "1.0", yanked="loses data,\n often")], TARGET)
    assert [each.text for each in changes("b", before, now)] == [
        "b 1.0: yanked (loses data, often)"
    ]


def test_what_is_withdrawn_while_it_is_measured_is_no_finding(week: Nights) -> None:
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    week.site.during = [("b", "2.0", Planted(time=1.05, yanked=True))]
    report = week.run()
    assert (kinds(report), report.outcome) == ([], NightOutcome.UNDECIDED)
    assert "withdrawn" in report.undecided[0]
    assert week.run().events == ("b 2.0: yanked",)
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    report = week.run()
    assert report.events == ("b 2.0: no longer yanked",)
    assert kinds(report) == [("b", "2.0", "slower", MEASURE)]


def test_a_yanked_release_closes_its_findings_and_leaves_the_stack(week: Nights) -> None:
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    week.run()
    week.site.releases["b"]["2.0"] = Planted(time=1.05, yanked=True)
    report = week.run()
    assert report.open_findings == ()
    state = week.store.load(week.watch.key("virtualenv"))
    assert state is not None
    assert state.newest["b"] == "1.0"
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    report = week.run()
    assert kinds(report) == [("b", "2.0", "slower", MEASURE)]  # it counts again
    assert len(report.open_findings) == 1


def test_releases_that_disappear_for_a_night_are_not_measured_again(tmp_path: Path) -> None:
    old = {f"0.{n}": Planted() for n in range(1, 9)}
    week = nights(tmp_path, b={**old, "1.0": Planted()})
    for number in old:
        del week.site.releases["b"][number]
    assert week.run().events == tuple(f"b {number}: gone" for number in old)
    week.site.releases["b"] |= old
    report = week.run()
    assert (week.site.campaigns, report.outcome) == ([], NightOutcome.NOTHING_NEW)
    assert "b 0.1 is back, with the same files: not measured again" in report.events


def test_the_newest_release_that_disappears_for_a_night_is_found_again(week: Nights) -> None:
    week.site.releases["b"]["2.0"] = slow = Planted(time=1.05)
    week.run()
    week.run()
    del week.site.releases["b"]["2.0"]
    assert week.run().open_findings == ()
    week.site.releases["b"]["2.0"] = slow
    assert kinds(week.run()) == [("b", "2.0", "slower", MEASURE)]
    pairs = [pair for pair, stage in week.site.campaigns if stage == FIRST]
    assert pairs[0] == pairs[1]  # its campaign, which is done


def test_a_project_whose_releases_all_disappear_for_a_night_comes_back_as_it_was(
    week: Nights,
) -> None:
    week.site.releases["b"]["1.1"] = Planted(breaks=FailureStep.IMPORT)
    week.run()
    releases = dict(week.site.releases["b"])
    week.site.releases["b"].clear()  # as where it is in quarantine (PEP 792)
    report = week.run()
    (title,) = (each.finding.title for each in week.store.findings())
    assert report.events == ("b 1.0: gone", "b 1.1: gone", f"withdrawn: {title}")
    week.site.releases["b"] |= releases
    report = week.run()
    assert report.events == (
        "b 1.0: offered again",
        "b 1.1: offered again",
        "b 1.0 is back, with the same files: not measured again",
    )
    assert kinds(report) == [("b", "1.1", "broken", "import")]  # it counts again


def test_a_yanked_release_whose_predecessor_cannot_be_had_stops_no_night(tmp_path: Path) -> None:
    usual = {"1.0": Planted(needs=("c",)), "2.0": Planted()}
    week = nights(tmp_path, b=usual, c={"1.0": Planted()})
    del week.site.releases["c"]
    week.site.releases["b"]["2.0"] = Planted(yanked=True)
    report = week.run()
    assert report.error == ""
    assert any("b 2.0 stays in the newest stack" in each for each in report.events)


def test_a_new_release_of_a_package_that_disappears_waits_for_it(week: Nights) -> None:
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    week.watch = replace(week.watch, budget_s=0.0)
    week.run()
    week.watch = replace(week.watch, budget_s=3600.0)
    gone = week.site.releases.pop("b")
    for _ in range(3):
        report = week.run()
        assert (kinds(report), report.undecided) == ([], ("b 2.0: no index has b at present",))
    week.site.releases["b"] = gone
    assert kinds(week.run()) == [("b", "2.0", "slower", MEASURE)]


def test_a_half_updated_index_is_stated_and_measured_once_it_is_whole(week: Nights) -> None:
    week.site.releases["b"]["2.0"] = Planted(time=1.05, fits=False)
    report = week.run()
    assert (report.events, kinds(report)) == (("b 2.0: no wheel for this platform yet",), [])
    assert week.run().outcome is NightOutcome.NOTHING_NEW
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    assert kinds(week.run()) == [("b", "2.0", "slower", MEASURE)]


def test_a_release_whose_dependency_is_late_is_broken_only_on_the_second_night(
    week: Nights,
) -> None:
    week.site.releases["a"]["2.0"] = Planted(needs=("c",))
    assert "cannot be resolved yet" in week.run().undecided[0]
    assert kinds(week.run()) == [("a", "2.0", "broken", "resolve")]
    assert week.run().outcome is NightOutcome.NOTHING_NEW
    week.site.releases["c"] = {"1.0": Planted()}
    report = week.run()
    assert [each.version for each in report.examined] == ["2.0"]
    assert report.open_findings == ()


def test_a_package_that_disappears_changes_nothing(week: Nights) -> None:
    gone = week.site.releases.pop("b")
    report = week.run()
    assert "no index has this package" in report.events[0]
    assert report.outcome is NightOutcome.NOTHING_NEW
    week.site.releases["b"] = gone
    assert week.run().events == ()


@pytest.mark.parametrize(
    ("trouble", "missing"),
    [
        (GONE, "the index is gone"),
        (PairResult(complete=False, missing="3 blocks"), "3 blocks"),
        (PairResult(controls_failed=True), "the controls failed"),
        (
            PairResult(failures=(Failure(is_new=True, step=None, reason="disk"),)),
            "tried again: disk",
        ),
        (
            PairResult(failures=(Failure(is_new=False, step=FailureStep.CRASH, reason="x"),)),
            "does not run",
        ),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_what_is_not_decided_goes_on_the_next_night(
    tmp_path: Path, trouble: PairResult, missing: str, first: bool
) -> None:
    week = nights(tmp_path, b={"0.9": Planted(), "1.0": Planted()})
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    week.site.troubles = [trouble] if first else [None, trouble]
    report = week.run()
    assert (kinds(report), report.exit_code) == ([], EvidenceError.exit_code)
    assert missing in report.undecided[0]
    assert kinds(week.run()) == [("b", "2.0", "slower", MEASURE)]


def slower(share: float, *, controls_failed: bool = False, complete: bool = True) -> PairResult:
    """Return sixty blocks that scatter by 4 %, a share slower."""
    dice = random.Random(1)
    noise = [dice.gauss(0, 0.04) for _ in range(30)]
    contrasts = tuple(sign * each - share for each in noise for sign in (1, -1))
    series = Series(quantity=ComparedQuantity.TIME, measure=MEASURE, contrasts=contrasts)
    return PairResult(
        series=(series,), blocks=60, controls_failed=controls_failed, complete=complete,
        missing="too few blocks",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("second", "third", "ratio", "undecided"),
    [
        (slower(0.05), None, 0.951, ""),
        (slower(0.0), None, None, ""),
        (slower(-0.05), None, None, ""),
        (slower(0.021), slower(0.021), 0.979, ""),
        (slower(0.021), slower(0.03), 0.975, ""),
        (slower(0.021), slower(0.01), None, ""),
        (slower(0.021), slower(-0.05), None, ""),
        (slower(0.021), slower(0.05, controls_failed=True), None, "controls"),
        (slower(0.021), slower(0.0, complete=False), None, "too few blocks"),
    ],
)
def test_a_third_campaign_decides_where_the_second_does_not(
    week: Nights, second: PairResult, third: PairResult | None, ratio: float | None, undecided: str
) -> None:
    week.site.releases["b"]["2.0"] = Planted()
    week.site.troubles = [slower(0.05), second, *([third] if third else [])]
    report = week.run()
    stages = [FIRST, CONFIRM, *([CONFIRM_AGAIN] if third else [])]
    assert [stage.replica for _, stage in week.site.campaigns] == [e.replica for e in stages]
    assert [each.ratio for each in report.findings] == pytest.approx(
        [ratio] * bool(ratio), abs=1e-3
    )
    assert undecided in " ".join(report.undecided)
    assert bool(undecided) is bool(report.undecided)


@pytest.mark.parametrize("noise", [0.01, 0.02, 0.04, 0.08])
def test_what_a_night_says_it_would_have_shown_is_no_less_than_it_can(noise: float) -> None:
    dice = random.Random(2)
    contrasts = tuple(dice.gauss(0, noise) for _ in range(60))
    series = Series(quantity=ComparedQuantity.TIME, measure=MEASURE, contrasts=contrasts)
    stated = smallest_detectable(PairResult(series=(series,) * 7), 0.0) - 1
    # The tolerance, what builds differ by, and what sixty blocks leave of the noise.
    assert stated > 0.01 + 0.012 + 5 * noise / math.sqrt(60)
    assert stated < 0.045 + 9 * noise / math.sqrt(60)


@pytest.mark.parametrize(
    ("noise", "blocks", "least", "most"), [(0.02, 16, 0.05, 0.0501), (0.08, 60, 0.055, 0.1)]
)
def test_where_an_effect_is_excluded_no_less_is_stated_than_all_blocks_would_show(
    noise: float, blocks: int, least: float, most: float
) -> None:
    dice = random.Random(2)
    half = [dice.gauss(0, noise) for _ in range(blocks // 2)]
    contrasts = tuple(sign * each for each in half for sign in (1, -1))
    series = Series(quantity=ComparedQuantity.TIME, measure=MEASURE, contrasts=contrasts)
    stated = smallest_detectable(PairResult(series=(series,) * 7), 0.05) - 1
    assert least - 1e-9 <= stated <= most
    assert stated < smallest_detectable(PairResult(series=(series,) * 7), 0.0) - 1


def test_a_night_without_an_engine_could_not_run_and_its_successor_makes_up_for_it(
    week: Nights,
) -> None:
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    week.site.troubles = [EngineError("the engine went away", why="killed", fix="")]
    report = week.run()
    assert (report.outcome, report.exit_code) == (NightOutcome.COULD_NOT_RUN, EngineError.exit_code)
    assert kinds(week.run()) == [("b", "2.0", "slower", MEASURE)]


def test_the_pair_of_a_release_stays_the_same_over_nights(week: Nights) -> None:
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    week.site.troubles = [PairResult(complete=False, missing="3 blocks")]
    week.run()
    week.site.releases["a"]["2.0"] = Planted(needs=NEEDS)
    week.run()
    pairs = [pair for pair, stage in week.site.campaigns if pair.new["b"] == "2.0"][:2]
    assert pairs[0] == pairs[1]  # so that its campaign goes on where it was


def test_releases_share_the_budget_and_what_it_does_not_allow_stays_new(week: Nights) -> None:
    week.watch = replace(week.watch, budget_s=60.0)
    week.site.takes_s = 61.0
    week.site.releases["b"] |= {"1.1": Planted(), "1.2": Planted(), "1.3": Planted()}
    report = week.run()
    assert week.site.budgets[0] == 20.0
    assert [e.version for e in report.examined] == ["1.1", "1.2", "1.3"]
    week.site.takes_s, week.site.budgets = 1e9, []
    week.site.releases["b"] |= {"1.4": Planted(time=1.05), "1.5": Planted()}
    report = week.run()
    assert report.undecided == ("b 1.5: a difference is not confirmed yet",)
    assert week.site.budgets[0] == 30.0


def test_waiting_for_other_measurements_costs_no_budget(week: Nights) -> None:
    week.watch = replace(week.watch, budget_s=20.0)
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    drawn = FakeSite.measure

    def waiting(*args: object) -> PairResult:
        week.site.now += 500.0
        return replace(drawn(week.site, *args), waited_s=500.0)  # type: ignore[arg-type]

    week.site.measure = waiting  # type: ignore[method-assign,assignment]
    assert kinds(week.run()) == [("b", "2.0", "slower", MEASURE)]


def test_two_nights_of_a_watch_never_overlap(tmp_path: Path) -> None:
    paths = Paths(cache=tmp_path / "cache", knowledge=tmp_path / "kb.db")
    store = NightStore(
        path=tmp_path / "state.db", knowledge_base="", now=datetime.now().astimezone()
    )
    watch = replace(WATCH, metrics=(f"file:{tmp_path}",))
    with store.night(watch.name):
        report = nightly([watch], {}, NullProgress(), paths)
    assert report.nights[0].outcome is NightOutcome.COULD_NOT_RUN
    assert "another night of this watch is under way" in report.summary
    assert not list(tmp_path.glob("*.prom"))  # the metrics are those of the other night


def test_a_watch_that_cannot_be_used_hides_no_report_of_another(tmp_path: Path) -> None:
    index = publish(tmp_path, {"a": {"1.0": Published()}, "b": {"1.0": Published()}})
    paths = Paths(cache=tmp_path / "cache", knowledge=tmp_path / "kb.db")
    environ = {"PIP_INDEX_URL": index, "PIP_CONFIG_FILE": os.devnull}
    store = NightStore(
        path=tmp_path / "state.db", knowledge_base="", now=datetime.now().astimezone()
    )
    unusable = replace(WATCH, name="other", parameters=("no value",))
    with store.night(WATCH.name):  # stands for any night
        report = nightly([WATCH, unusable], environ, NullProgress(), paths)
    assert [each.watch for each in report.nights] == ["w", "other"]
    assert "no value" in report.nights[1].error
    with pytest.raises(UsageError, match="no value"):
        nightly([unusable, WATCH], environ, NullProgress(), paths)


def test_findings_are_reported_until_the_user_has_them(week: Nights) -> None:
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    week.dies_before_report = True
    night = week.run()
    report = NightlyReport(summary="", nights=(night,), exit_code=7)
    paths = Paths(cache=week.folder / "cache", knowledge=week.folder / "kb.db")
    with open_database(paths.knowledge) as database:
        assert database.base_id
    own = open_store(paths)
    for each in week.store.findings():
        own.put(each)
    mark_reported(report, [WATCH], {}, paths)
    assert [each.reported for each in own.findings()] == [True]


def test_an_acknowledgement_during_a_campaign_is_kept(week: Nights) -> None:
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    week.run()
    drawn = FakeSite.measure

    def measured(*args: object) -> PairResult:
        week.store.acknowledge(week.store.findings()[0], days=None, note="known")
        return drawn(week.site, *args)  # type: ignore[arg-type]

    week.site.measure = measured  # type: ignore[method-assign,assignment]
    assert week.run().open_findings == ()
    (found,) = week.store.findings()
    assert (found.status, found.note) == (FindingStatus.ACKNOWLEDGED, "known")
    assert found.persists


def test_a_package_that_no_index_has_is_refused_before_a_base_is_made(tmp_path: Path) -> None:
    index = publish(tmp_path, {"a": {"1.0": Published()}})
    paths = Paths(cache=tmp_path / "cache", knowledge=tmp_path / "kb.db")
    environ = {"PIP_INDEX_URL": index, "PIP_CONFIG_FILE": os.devnull}
    watch = replace(
        WATCH, vary=("missing",), bases=("no such base",), executor=ExecutorChoice.VIRTUALENV
    )
    report = nightly([watch], environ, NullProgress(), paths)
    assert report.nights[0].outcome is NightOutcome.COULD_NOT_RUN
    assert "there is no package missing: no index has it" in report.summary
    with pytest.raises(ResolutionError, match="there is no package missing"):
        check([watch], environ, NullProgress(), paths)


def test_a_killed_night_is_made_up_for(week: Nights) -> None:
    week.site.releases["b"] |= {"1.1": Planted(), "1.2": Planted(time=1.05)}
    week.site.dies_at = 1
    with pytest.raises(KeyboardInterrupt):
        week.run()
    week.site.dies_at = None
    assert kinds(week.run()) == [("b", "1.2", "slower", MEASURE)]
    assert [p.new["b"] for p, s in week.site.campaigns if s == FIRST] == ["1.1", "1.2"]


def test_a_night_that_is_killed_before_its_report_leaves_the_findings_to_the_next_one(
    week: Nights,
) -> None:
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    week.dies_before_report = True
    week.run()
    week.dies_before_report = False
    report = week.run()
    assert (kinds(report), report.exit_code) == ([("b", "2.0", "slower", MEASURE)], 7)
    assert report.examined == ()
    assert week.run().outcome is NightOutcome.NOTHING_NEW


def test_what_a_killed_night_found_and_the_next_one_does_not_show_is_not_reported(
    week: Nights,
) -> None:
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    week.dies_before_report = True
    assert len(week.run().findings) == 1
    week.dies_before_report = False
    week.site.releases["b"]["2.0"] = Planted()
    report = week.run()
    assert (report.findings, report.open_findings, report.exit_code) == ((), (), 0)
    assert "not shown again, closed: b 2.0 is slower" in report.events[0]


def _days(folder: Path, killed_at: int | None) -> tuple[int, object]:
    """Return how often days of events are written, and what is known and was seen after them.

    A night that is killed before it writes for the ``killed_at``-th time is followed by another
    one of the same day.
    """
    folder.mkdir()
    week = nights(folder)
    most = 10**4
    week.writes = [None] * (most if killed_at is None else killed_at)
    late, planted = Planted(needs=("b", "c")), Planted(time=1.05)
    days: list[dict[tuple[str, str], Planted | None]] = [
        {("a", "2.0"): late, ("b", "1.1"): Planted()},  # a needs what is not there yet
        {("b", "2.0"): planted},
        {("c", "1.0"): Planted(), ("b", "2.0"): replace(planted, yanked=True)},
        {("b", "2.0"): planted, ("b", "3.0"): Planted()},  # un-yanked, and fixed
        {("b", "4.0"): Planted(breaks=FailureStep.IMPORT), ("b", "3.0"): None},
        {("b", "3.0"): Planted()},
    ]
    for day in days:
        for (name, version), release in day.items():
            releases = week.site.releases.setdefault(name, {})
            releases.pop(version, None)
            if release is not None:
                releases[version] = release
        try:
            week.run()
        except KilledError:
            week.writes = [None] * most
            week.run()
    used = most - len(week.writes)
    state = week.store.load(week.watch.key("virtualenv"))
    assert state is not None
    week.run()  # one night more checks what persists, as that after a killed one does
    findings = {(e.finding.title, e.status, e.reported) for e in week.store.findings()}
    seen = {each for report in week.shown for each in kinds(report)}
    return used, (seen, findings, state.newest, state.best, state.pending, state.unusable)


def test_a_night_that_is_killed_before_any_write_loses_and_repeats_nothing(tmp_path: Path) -> None:
    writes, expected = _days(tmp_path / "whole", None)
    assert writes > 20
    for place in range(writes):
        _, found = _days(tmp_path / str(place), place)
        assert found == expected, place


def test_a_night_that_is_killed_while_it_finds_the_cause_finds_it_the_next_time(
    week: Nights,
) -> None:
    week.site.releases["a"]["2.0"] = Planted(needs=NEEDS)
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    week.site.dies_at = 3
    with pytest.raises(KeyboardInterrupt):
        week.run()
    week.site.dies_at = None
    (finding,) = week.run().findings
    assert finding.attribution is not None
    assert finding.attribution.answer.startswith("b 2.0 is responsible")
    assert [each.persists for each in week.run().open_findings] == [True]


def test_a_persistence_check_whose_controls_failed_begins_anew(week: Nights) -> None:
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    week.run()
    week.site.troubles = [PairResult(controls_failed=True)]
    assert "the controls failed" in week.run().undecided[0]
    assert [each.persists for each in week.run().open_findings] == [True]
    seeds = [stage.seed for _, stage in week.site.campaigns]
    assert seeds[-2:] == [PERSIST.seed, PERSIST.seed + 10]


@pytest.mark.parametrize("recheck", [False, True])
def test_a_machine_whose_controls_fail_night_after_night_could_not_run(
    week: Nights, recheck: bool
) -> None:
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    if recheck:
        week.run()
    week.site.troubles = [PairResult(controls_failed=True)] * 4
    reports = [week.run() for _ in range(4)]
    assert [each.exit_code for each in reports] == [3, 3, 6, 6]
    assert reports[2].outcome is NightOutcome.COULD_NOT_RUN
    assert "failed in 3 nights: equal stacks differ" in reports[2].summary
    assert "failed in 4 nights" in reports[3].undecided[0]
    assert week.run().outcome in (NightOutcome.FINDINGS, NightOutcome.NOTHING_NEW)  # quiet again


def test_controls_of_the_comparison_with_the_best_stack_count_in_a_row_alone(
    week: Nights,
) -> None:
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    week.run()
    week.site.releases["b"]["3.0"] = Planted(time=1.05)
    failed, fewer = PairResult(controls_failed=True), PairResult(complete=False)
    week.site.troubles = [None, None, failed]  # persistence, the release, against the best stack
    codes = [week.run().exit_code]
    for trouble in (failed, fewer, failed, failed, failed):
        week.site.troubles = [trouble]
        codes.append(week.run().exit_code)
    assert codes == [3, 3, 3, 3, 3, 6]


@pytest.mark.parametrize("days", [-400, 400])
def test_a_clock_that_jumps_repeats_nothing(week: Nights, days: int) -> None:
    week.site.releases["b"]["2.0"] = Planted()
    week.run()
    week.day += days
    assert week.run().outcome is NightOutcome.NOTHING_NEW


def test_the_first_night_may_measure_the_last_releases(tmp_path: Path) -> None:
    releases = {"1.0": Planted(), "2.0": Planted(time=1.05), "3.0": Planted(time=1.05)}
    usual = {"a": {"1.0": Planted(needs=NEEDS)}, "b": releases}
    week = Nights(folder=tmp_path, site=FakeSite(releases=usual))
    week.watch = replace(week.watch, requirements=("b",), vary=())
    report = week.run(releases=2)
    assert kinds(report) == [("b", "2.0", "slower", MEASURE)]
    assert [(e.previous, e.version) for e in report.examined] == [("1.0", "2.0"), ("2.0", "3.0")]


def test_what_the_next_night_does_not_show_is_closed(week: Nights) -> None:
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    week.run()
    week.site.releases["b"]["2.0"] = Planted()
    report = week.run()
    assert week.site.campaigns[-1][1] == PERSIST
    assert report.open_findings == ()
    assert week.store.findings()[0].note == "the next night did not show it"


STEPS: dict[str, Callable[[Nights], object]] = {
    "acknowledged for good": lambda w: w.store.acknowledge(
        w.store.findings()[0], days=None, note="known"
    ),
    "acknowledged for a week": lambda w: w.store.acknowledge(
        w.store.findings()[0], days=7, note=""
    ),
    "left open": lambda _: None,
}


@pytest.mark.parametrize(
    ("step", "days", "status"),
    [
        ("acknowledged for good", 100, FindingStatus.ACKNOWLEDGED),
        ("acknowledged for a week", 3, FindingStatus.ACKNOWLEDGED),
        ("acknowledged for a week", 9, FindingStatus.OPEN),
        ("left open", 9, FindingStatus.OPEN),
        ("left open", 40, FindingStatus.EXPIRED),
    ],
)
def test_a_finding_is_acknowledged_and_expires(
    week: Nights, step: str, days: int, status: FindingStatus
) -> None:
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    week.run()
    week.run()
    STEPS[step](week)
    week.day += days
    week.run()
    week.run()  # time has passed where two nights agree on that
    assert week.store.findings()[0].status is status
    week.store.reopen(week.store.findings()[0])
    assert week.store.findings()[0].status is FindingStatus.OPEN
    assert week.store.now - timedelta(days=1) < week.store.now


CLOCKS = {
    "ahead for one night": ((2, 3, 60, 4), "open open open open"),
    "ahead for two nights": ((2, 3, 60, 61, 4), "open open open expired open"),
    "ahead when it was found": ((100, 3, 4, 33, 36, 37), "open open open open open expired"),
    "behind for one night": ((2, 3, -400, 4, 34, 35), "open open open open open expired"),
    "once a month": ((2, 33, 64, 95), "open open expired expired"),
}


@pytest.mark.parametrize("case", CLOCKS)
def test_a_clock_that_is_wrong_for_a_night_expires_nothing_for_good(
    week: Nights, case: str
) -> None:
    days, expected = CLOCKS[case]
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    seen: list[str] = []
    notes: list[str] = []
    for day in days:
        week.day = day - 1
        notes += week.run().events
        seen += [each.status.value for each in week.store.findings()]
    assert " ".join(seen) == expected
    jumps = [note for note in notes if "clock" in note]
    assert len(jumps) == {"ahead for two nights": 3, "once a month": 3}.get(case, 2), jumps


def test_an_acknowledgement_outlives_a_night_with_a_wrong_clock(week: Nights) -> None:
    week.site.releases["b"]["2.0"] = Planted(time=1.05)
    week.run()
    week.store.acknowledge(week.store.findings()[0], days=7, note="")
    for day, status in ((60, "acknowledged"), (3, "acknowledged"), (10, "acknowledged"),
                        (11, "open")):  # fmt: skip
        week.day = day
        week.run()
        assert week.store.findings()[0].status.value == status, day


def test_a_confirmed_difference_that_one_indicator_raised_is_not_confirmed_by_another(
    week: Nights,
) -> None:
    def shows(measure: str) -> PairResult:
        slow = tuple(-0.1 + 0.001 * (n % 3) for n in range(26))
        other = tuple(0.001 * (n % 3 - 1) for n in range(26))
        both = [MEASURE, "other"]
        return PairResult(
            series=tuple(
                Series(
                    quantity=ComparedQuantity.TIME,
                    measure=each,
                    contrasts=slow if each == measure else other,
                )
                for each in both
            ),
            blocks=26,
        )

    week.site.releases["b"]["2.0"] = Planted()
    week.site.troubles = [shows(MEASURE), shows("other")]
    assert kinds(week.run()) == []


def test_a_repetition_is_a_campaign_of_its_own_in_a_folder_of_its_own(tmp_path: Path) -> None:
    paths = Paths(cache=tmp_path, knowledge=tmp_path / "kb.db")
    requests = [campaign_request(replica=number) for number in range(3)]
    identities = {each.identity("virtualenv", FACTS, where="") for each in requests}
    folders = {replica_folder(paths, each.replica) for each in requests}
    assert [len(identities), len(folders), len({e.padding for e in requests})] == [3, 3, 3]
    assert len({len(str(each)) for each in folders}) == 3  # addresses of files move, too


def test_only_what_screens_ends_where_the_effect_to_detect_is_excluded(tmp_path: Path) -> None:
    requests: list[CampaignRequest] = []

    def run_pair(_: str, __: str, request: CampaignRequest) -> ExploreReport:
        requests.append(request)
        raise EngineError("no engine", why="", fix="")

    site = LiveSite(
        watch=replace(WATCH, detect=0.03), request=campaign_request(), base="", where=BASE,
        environ={}, paths=Paths(cache=tmp_path, knowledge=tmp_path / "kb.db"),
        progress=NullProgress(), run_pair=run_pair,
    )  # fmt: skip
    for stage in (FIRST, AGAINST_BEST, CONFIRM, CONFIRM_AGAIN, PERSIST, WITHOUT):
        with pytest.raises(EngineError):
            site.measure(Pair(old={"a": "1.0"}, new={"a": "2.0"}), stage, 1.0)
    assert [each.measurement.detect for each in requests] == [0.03, 0, 0, 0, 0, 0]
    assert {each.measurement.analyses for each in requests} == {LONG_ANALYSES}
    identities = {each.identity("virtualenv", FACTS, where="") for each in requests[:2]}
    assert len(identities) == 1, "how much is measured makes no other campaign"


def test_a_finding_is_reproduced_by_a_command_with_all_that_the_watch_says(tmp_path: Path) -> None:
    watch = replace(
        WATCH,
        executor=ExecutorChoice.VIRTUALENV,
        indicators=("matmul",),
        parameters=("size=64",),
    )
    site = LiveSite(
        watch=watch, request=campaign_request(), base="3.11", where=BASE, environ={},
        paths=Paths(cache=tmp_path, knowledge=tmp_path / "kb.db"), progress=NullProgress(),
        run_pair=lambda *_: pytest.fail("nothing is measured"),
    )  # fmt: skip
    pair = Pair(old={"a": "1.0", "aa": "1.0", "b": "1.0"}, new={"aa": "2.0", "b": "1.1"})
    assert shlex.split(site.command(pair)) == [
        "stackgen", "compare", "a==1.0 b==1.0 aa==1.0", "b==1.1 aa==2.0", "--pi", "matmul",
        "--param", "size=64", "--base", "3.11", "--executor", "virtualenv",
    ]  # fmt: skip
