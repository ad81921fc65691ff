"""Times against releases or nights: points, change points, plots, and the command."""

import math
import random
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.commands.history import history
from stackgen.errors import EvidenceError
from stackgen.knowledge.database import open_database
from stackgen.measure.history import change_points, history_points
from stackgen.model.evidence import CampaignIdentity
from stackgen.model.identity import CampaignId
from stackgen.model.inspections import Inspection, Role
from stackgen.model.reports.history import ChangePoint, HistoryAxis, HistoryPoint, HistoryReport
from stackgen.model.stacks import Environment, Machine
from stackgen.report.history import history_svg, history_text
from stackgen.storage.paths import Paths, shipped_folder
from tests.in_process import run_command
from tests.samples import call, environment, inspection

CALL = call("numpy/sort")
OLD, NEW = environment("1.26.4"), environment("2.0.2")
FIRST, SECOND = CampaignId("first"), CampaignId("second")


def runs(
    campaign: CampaignId, seconds: float, where: Environment, role: Role = Role.CANDIDATE
) -> list[Inspection]:
    """Return six blocks that scatter by a few per mille."""
    return [
        replace(
            inspection(where, CALL, block, seconds * (1 + 0.002 * (block % 3)), role=role),
            campaign_id=campaign,
            started_at=f"2026-01-0{1 + (campaign == SECOND)}T00:00:00+00:00",
        )
        for block in range(1, 7)
    ]


SEEN = [
    *runs(FIRST, 2e-3, OLD, Role.BASELINE),
    *runs(FIRST, 1e-3, NEW),
    *runs(SECOND, 1.1e-3, NEW),
    *runs(SECOND, 9.0, NEW, Role.SEARCH),
]
LABELS = {(OLD.stack.id, FIRST): "old", (NEW.stack.id, FIRST): "new", (NEW.stack.id, SECOND): "new"}


def test_a_point_is_a_mean_over_campaigns_and_no_search_takes_part() -> None:
    old, new = history_points(SEEN, labels=LABELS, order=("old", "new"), excluded=())
    assert (old.campaigns, new.campaigns, new.blocks) == (1, 2, 12)
    assert old.time_s == pytest.approx(2e-3, rel=0.01)
    assert new.time_s == pytest.approx(math.sqrt(1e-3 * 1.1e-3), rel=0.01)
    assert new.low_s < 1e-3 < 1.1e-3 < new.high_s  # what campaigns differ by is in the interval


def test_one_campaign_is_not_more_certain_than_its_blocks_suggest() -> None:
    (point_of_one,) = history_points(
        runs(FIRST, 1e-3, NEW), labels=LABELS, order=("new",), excluded=()
    )
    assert point_of_one.high_s / point_of_one.low_s > 1.05  # the next campaign may differ by 2 %


def test_several_stacks_of_one_campaign_are_one_campaign() -> None:
    seen = [*runs(FIRST, 1e-3, OLD), *runs(FIRST, 4e-3, NEW)]
    labels = {(each.stack.id, FIRST): "2.0" for each in (OLD, NEW)}
    (point,) = history_points(seen, labels=labels, order=("2.0",), excluded=())
    assert (point.campaigns, point.blocks) == (1, 6)
    assert point.time_s == pytest.approx(2e-3, rel=0.01)


def test_disturbed_blocks_are_left_out() -> None:
    found = history_points(SEEN, labels=LABELS, order=("old",), excluded={(FIRST, 1), (FIRST, 2)})
    assert found[0].blocks == 4


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        (HistoryAxis.RELEASE, ["1.26.4", "2.0.2"]),
        (HistoryAxis.NIGHT, ["2026-01-01 2.0.2", "2026-01-02 2.0.2"]),
    ],
)
def test_the_knowledge_base_gives_releases_and_nights(
    axis: HistoryAxis, expected: list[str], tmp_path: Path
) -> None:
    machine = Machine(identity=(("cpu_name", "a CPU"),), circumstances=())
    paths = Paths(cache=tmp_path / "cache", knowledge=tmp_path / "kb.db")
    with open_database(paths.knowledge) as database:
        database.add_machine(machine)
        database.add_indicator(CALL)
        other = call("torch/sort")  # of that name, but of another package; measured first
        database.add_indicator(other)
        for each in (OLD, NEW):
            database.add_stack(each.stack)
        ids = {}
        for seed, name in enumerate((FIRST, SECOND)):
            campaign = CampaignIdentity(
                kind="compare", request="{}", seed=seed, machine_id=machine.id, stackgen_version="1"
            )
            database.add_campaign(campaign, f"2026-01-0{1 + seed}T00:00:00+00:00")
            ids[name] = campaign.id
        others = [replace(each, indicator_id=other.id) for each in SEEN]
        for place, seen in enumerate([*others, *SEEN]):
            own = replace(seen, campaign_id=ids[seen.campaign_id], machine_id=machine.id)
            database.add_inspection(replace(own, position=place))
    for shown in ("sort", "folder/sort.py", ""):
        found = history("NumPy", shown, axis, paths)
        assert [each.label for each in found.points] == expected
        assert (found.indicator, found.machine) == (CALL.label, "a CPU")
    with pytest.raises(EvidenceError, match="nothing was measured"):
        history("scipy", "numpy/sort", axis, paths)


def point(label: str, time_s: float, *, factor: float = 1.02) -> HistoryPoint:
    return HistoryPoint(
        label=label, time_s=time_s, low_s=time_s / factor, high_s=time_s * factor,
        campaigns=3, blocks=18,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_has_no_change_point(seed: int) -> None:
    dice = random.Random(seed)
    points = [point(str(n), math.exp(dice.gauss(0, 0.01))) for n in range(30)]
    assert change_points(points) == ()


@pytest.mark.parametrize("ratio", [1.1, 0.9, 2.0])
def test_a_change_is_found_where_it_is(ratio: float) -> None:
    dice = random.Random(1)
    levels = [1.0] * 8 + [ratio] * 8
    points = [point(str(n), each * math.exp(dice.gauss(0, 0.01))) for n, each in enumerate(levels)]
    (found,) = change_points(points)
    assert (found.before, found.label) == ("7", "8")
    assert found.ratio == pytest.approx(ratio, rel=0.02)


def test_a_change_after_the_first_or_before_the_last_release_is_found_there() -> None:
    first = change_points([point("1.26", 7.5), *(point(f"2.{n}", 1.09) for n in range(5))])
    assert [(each.before, each.label) for each in first] == [("1.26", "2.0")]
    assert first[0].ratio == pytest.approx(1.09 / 7.5)
    last = change_points([*(point(f"2.{n}", 1.09) for n in range(5)), point("3.0", 2.0)])
    assert [(each.before, each.label) for each in last] == [("2.4", "3.0")]


def test_few_points_show_no_change() -> None:
    assert change_points([point("1", 1.0), point("2", 2.0), point("3", 2.0)]) == ()


REPORT = HistoryReport(
    package="numpy",
    indicator="numpy/sort",
    axis=HistoryAxis.RELEASE,
    machine="a CPU",
    where="Python 3.11 (Debian)",
    elsewhere=False,
    points=(point("1.26.4", 2e-3), point("2.0.2", 1e-3), point("2.1.<3>", 1e-3)),
    changes=(ChangePoint(label="2.0.2", before="1.26.4", ratio=0.5),),
    knowledge_base="kb.db",
)


def test_the_plot_has_a_bar_for_each_release() -> None:
    lines = history_text(REPORT).splitlines()
    bars = [line for line in lines if "o" in line and "blocks" in line]
    assert len(bars) == 3
    assert bars[0].index("o") > bars[1].index("o")  # the first took longer
    assert "  1.26.4 to 2.0.2: 0.500 times the time" in lines
    assert any("secondary evidence" in line for line in lines)


def test_the_picture_is_valid_and_names_each_release() -> None:
    root = ET.fromstring(history_svg(REPORT))  # noqa: S314 (our own)
    texts = [each.text for each in root.iter() if each.text]
    assert {"1.26.4", "2.0.2", "2.1.<3>", "0.50 times"} <= set(texts)
    assert "http" not in "".join(texts)


def environ(folder: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(folder), "STACKGEN_KB": str(folder / "kb.db"), **more}


def test_a_fresh_installation_shows_what_comes_with_stackgen(tmp_path: Path) -> None:
    own = environ(tmp_path, STACKGEN_SEED=str(shipped_folder("kb") / "seed"))
    first, again, other = (
        run_command(*words, folder=tmp_path, environ=own)
        for words in (
            ("history", "numpy", "--pi", "sort"),
            ("history", "numpy", "--pi", "sort"),
            ("kb", "why", "numpy==2.3.5"),
        )
    )
    assert "were measured elsewhere" in first.stderr
    assert "2.3.5" in first.stdout
    assert (again.stdout, again.stderr) == (first.stdout, "")
    assert "numpy/sort" in other.stdout


def test_nothing_measured_is_said_with_the_command_that_measures(tmp_path: Path) -> None:
    done = run_command(
        "history", "numpy", "--pi", "sort", folder=tmp_path,
        environ=environ(tmp_path),
    )  # fmt: skip
    assert done.returncode != 0
    assert "error: " in done.stderr
    assert not done.stdout
