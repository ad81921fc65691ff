"""Which package makes a stack fail or slower? Real stacks from an index with planted events."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stackgen.campaign.candidates import pinned, read_pins
from stackgen.campaign.hybrids import Hybrids, hybrids
from stackgen.index import PackageIndex, load_config
from stackgen.knowledge.database import open_database
from stackgen.measure.attribution import Hybrid
from stackgen.model.inspections import Role
from stackgen.model.packages import Lock
from stackgen.model.progress import NullProgress
from stackgen.model.reports.bisect import (
    BisectAnswer,
    BisectReport,
    ChangedPackage,
    FirstBad,
    Hypothesis,
)
from stackgen.model.reports.campaigns import Estimate, ExplorePlan, MeasurementSetup
from stackgen.report.bisect import bisect_text
from stackgen.resolve.candidates import Policy
from tests.laboratory import INDICATOR, Laboratory
from tests.local_index import Published, publish
from tests.spaces import TARGET

SPEEDY = """
import cog, gear, lens, peg
if cog.NEW and lens.NEW:
    raise RuntimeError("cog and lens clash")
if gear.BROKEN:
    raise ValueError("gear is broken")
if peg.NEW == "broken":
    raise KeyError("peg is broken")
SIZE = int(4000 * gear.FACTOR)
def work():
    return sum(i * i for i in range(SIZE))
"""
GEAR = "FACTOR, BROKEN = {factor}, {broken}"
GOOD = "speedy==1.0 gear==1.0 cog==1.0 lens==1.0 peg==1.0"
BROKEN = "speedy==1.0 gear==1.5 cog==1.0 lens==2.0 peg==2.0"
CLASH = "speedy==1.0 gear==1.0 cog==2.0 lens==2.0 peg==2.0"
SLOW = "speedy==1.0 gear==2.0 cog==2.0 lens==1.0 peg==2.0"


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    """gear is broken from 1.3 on, and twice as slow in 2.0; peg 3.0 needs the new lens.

    lens 2.1 was yanked. peg 4.0 is broken, and needs the new lens.
    """
    toggle = {"1.0": Published(source="NEW = False"), "2.0": Published(source="NEW = True")}
    gears = {f"1.{i}": Published(source=GEAR.format(factor=1, broken=i >= 3)) for i in range(6)}
    gears["2.0"] = Published(source=GEAR.format(factor=2, broken=False))
    index = publish(
        tmp_path,
        {
            "speedy": {"1.0": Published(source=SPEEDY, requires=["gear", "cog", "lens", "peg"])},
            "gear": gears,
            "cog": toggle,
            "lens": toggle | {"2.1": Published(source="NEW = True", yanked="it clashes with cog")},
            "peg": toggle
            | {
                "3.0": Published(source="NEW = True", requires=["lens>=2", "pin"]),
                "4.0": Published(source="NEW = 'broken'", requires=["lens>=2"]),
            },
            "pin": {"1.0": Published()},
        },
    )
    (tmp_path / "work.py").write_text(INDICATOR)
    return Laboratory(root=tmp_path, index=index)


def run(laboratory: Laboratory, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = ("--executor", "virtualenv", "--pi", str(laboratory.root / "work.py"))
    return laboratory.run("bisect", *arguments, *own)


def parsed(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# Hybrids


def between(laboratory: Laboratory, good: str, bad: str) -> Hybrids:
    """Return the hybrids of two lists of versions, resolved by pins alone."""
    config = load_config(environ=laboratory.environ)
    with PackageIndex(config, laboratory.root / "cache") as index:

        def lock(text: str) -> Lock:
            path = laboratory.root / "pins.txt"
            path.write_text(text.replace(" ", "\n"))
            return pinned(index, read_pins(path), TARGET)

        return hybrids(index, lock(good), lock(bad), TARGET, Policy(), NullProgress())


EVENTS: list[tuple[str, str, Callable[[Hybrids], object], object]] = [
    (GOOD, CLASH, lambda found: found.packages, ("cog", "lens", "peg")),
    (GOOD, CLASH, lambda found: found.find(frozenset(), frozenset(["cog"])), frozenset()),
    (GOOD, CLASH, lambda found: found.find(frozenset(["lens"]), frozenset()), frozenset(["lens"])),
    (
        GOOD,
        "speedy==1.0 gear==1.0 cog==1.0 lens==2.0 peg==3.0 pin==1.0",
        lambda found: found.find(frozenset(["peg"]), frozenset()),
        frozenset(["peg", "lens"]),
    ),
    (
        GOOD,
        "speedy==1.0 gear==1.0 cog==1.0 lens==2.0 peg==3.0 pin==1.0",
        lambda found: found.find(frozenset(["peg"]), frozenset(["lens"])),
        None,
    ),
    (
        GOOD,
        CLASH.replace("lens==2.0", "lens==2.1"),
        lambda found: found.find(frozenset(["lens"]), frozenset(["cog"])),
        frozenset(["lens"]),
    ),
    (
        "speedy==1.0 gear==1.0 cog==1.0 lens==2.0 peg==3.0 pin==1.0",
        "speedy==1.0 gear==1.0 cog==2.0 lens==2.0 peg==2.0",
        lambda found: found.changes(),
        (("cog", "1.0", "2.0"), ("peg", "3.0", "2.0"), ("pin", "1.0", "")),
    ),
]


@pytest.mark.parametrize(("good", "bad", "view", "expected"), EVENTS)
def test_hybrids_are_what_the_search_space_admits(
    laboratory: Laboratory,
    good: str,
    bad: str,
    view: Callable[[Hybrids], object],
    expected: object,
) -> None:
    assert view(between(laboratory, good, bad)) == expected


def test_what_comes_with_a_package_is_part_of_its_stacks(laboratory: Laboratory) -> None:
    bad = "speedy==1.0 gear==1.0 cog==1.0 lens==2.0 peg==3.0 pin==1.0"
    found = between(laboratory, GOOD, bad)
    assert "pin" not in found.packages
    both: Hybrid = frozenset(["peg", "lens"])
    assert found.find(frozenset(["peg"]), frozenset()) == both
    assert found.lock(both).versions["pin"] == "1.0"
    lens = found.find(frozenset(["lens"]), frozenset(["peg"]))
    assert lens is not None
    assert "pin" not in found.lock(lens).versions


def test_a_package_that_nothing_requires_is_exchanged_by_itself(laboratory: Laboratory) -> None:
    found = between(laboratory, GOOD, f"{GOOD} pin==1.0".replace("cog==1.0", "cog==2.0"))
    assert found.packages == ("cog", "pin")
    alone = found.find(frozenset(["pin"]), frozenset(["cog"]))
    assert alone == frozenset(["pin"])
    assert found.lock(alone).versions["cog"] == "1.0"
    assert found.hybrid(found.lock(alone)) == alone


def test_another_hybrid_takes_the_place_of_one_that_is_of_no_use(laboratory: Laboratory) -> None:
    found = between(laboratory, GOOD, CLASH)
    found.unusable.add(frozenset(["lens"]))
    assert found.find(frozenset(["lens"]), frozenset()) == frozenset(["cog", "lens", "peg"])
    found.unusable.add(frozenset(["cog", "lens", "peg"]))
    assert found.find(frozenset(["lens"]), frozenset()) is None


# The answer in words

SETUP = MeasurementSetup(executor="virtualenv", base="b", python="3.11", machine="m")
PLAN = ExplorePlan(
    requirements=("a", "b"), varied=("x",), setup=SETUP, count=2, choices=2, chosen=(),
    estimate=Estimate(wheels=0, download_bytes=0, disk_bytes=0, free_bytes=1, seconds=0),
    budget_s=60.0, seed=0, strategy="newest", searched=False,
)  # fmt: skip
CHANGES = (
    ChangedPackage(package="x", good="1", bad="2"),
    ChangedPackage(package="y", good="1", bad="2"),
)
REPORT = BisectReport(
    plan=PLAN, changes=CHANGES, answer=BisectAnswer.CULPRIT, packages=("x",), posterior=0.97,
    ratio=(1.1, 1.2, 1.3),
)  # fmt: skip
SLOWER = "BAD taking 1.200 times the time of GOOD (1.100 to 1.300)"
_SHARES = (("x", 1.1, 1.2, 1.3), ("y", 0.8, 0.9, 1.0))
ANSWERS: list[tuple[dict[str, Any], str]] = [
    ({}, f"x is responsible for {SLOWER} (posterior 0.970)."),
    ({"failure": "E"}, "x is responsible for the failure (posterior 0.970)."),
    ({"packages": ("x", "y")}, "x and y always change together: they are responsible for"),
    ({"answer": BisectAnswer.TOGETHER, "packages": ("x", "y")}, "but only together"),
    (
        {"answer": BisectAnswer.BOTH, "packages": ("x", "y"), "shares": _SHARES},
        "x 1.200 times (1.100 to 1.300), y 0.900 times (0.800 to 1.000).",
    ),
    (
        {"answer": BisectAnswer.BOTH, "packages": ("x", "y", "z")},
        f"x, y and z are responsible for {SLOWER}, each for a part (posterior 0.970).",
    ),
    (
        {"answer": BisectAnswer.BOTH, "packages": ("x", "y"), "failure": "E"},
        "x and y: each suffices for the failure",
    ),
    ({"answer": BisectAnswer.INVOLVED}, "x takes part in BAD taking 1.200"),
    ({"answer": BisectAnswer.INVOLVED}, "whether others do, too, is not decided."),
    ({"answer": BisectAnswer.NO_DIFFERENCE}, "No difference between GOOD and BAD was found"),
    ({"answer": BisectAnswer.NONE}, "None of the packages is responsible"),
    (
        {"answer": BisectAnswer.INVOLVED, "partners": ("y",), "failure": "E"},
        "x takes part in the failure (posterior 0.970); no valid stack shows whether y must be",
    ),
    ({"answer": BisectAnswer.MANY}, "No single package and no pair explains"),
    ({"answer": BisectAnswer.UNDECIDED}, "Not decided whether GOOD and BAD differ"),
    (
        {
            "answer": BisectAnswer.UNDECIDED,
            "ranking": (Hypothesis(kind="single", packages=("x",), posterior=0.5),),
        },
        f"Not decided which package is responsible for {SLOWER}.",
    ),
]


@pytest.mark.parametrize(("changes", "words"), ANSWERS)
def test_the_answer_comes_first(changes: dict[str, Any], words: str) -> None:
    assert words in bisect_text(replace(REPORT, **changes)).splitlines()[0]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            FirstBad(package="x", release="1.5", before="1.4", posterior=0.98),
            "First bad release: x 1.5 (posterior 0.980); 1.4 is good.",
        ),
        (
            FirstBad(package="x", release="", before="1", posterior=0.5, among=("1.5", "2")),
            "First bad release of x: not decided among 1.5 and 2.",
        ),
    ],
)
def test_the_first_bad_release_comes_second(found: FirstBad, words: str) -> None:
    assert bisect_text(replace(REPORT, first_bad=found)).splitlines()[1] == words


# The command


@pytest.mark.journey
def test_a_failure_is_traced_to_a_package_and_its_first_bad_release(
    laboratory: Laboratory,
) -> None:
    plan = run(laboratory, GOOD, BROKEN, "--dry-run")
    assert plan.stdout.startswith("GOOD to BAD: gear 1.0 -> 1.5, lens 1.0 -> 2.0, peg 1.0 -> 2.0.")
    assert not laboratory.kb.exists()

    done = run(laboratory, GOOD, BROKEN, "--releases")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("gear is responsible for the failure (posterior 0.9")
    assert lines[1].startswith("First bad release: gear 1.3 (posterior ")
    with open_database(laboratory.kb) as database:
        (campaign,) = database.campaigns()
        inspections = list(database.inspections())
        contrasts = database.contrasts()
    assert campaign.kind == "bisect"
    assert {each.role for each in inspections} <= {Role.CALIBRATION, Role.SEARCH}
    assert not contrasts  # nothing of it counts as a comparison

    again = parsed(run(laboratory, GOOD, BROKEN, "--releases", "--json"))
    assert again["new_inspections"] == 0  # the record answers
    assert again["first_bad"]["release"] == "1.3"


@pytest.mark.journey
def test_two_packages_that_fail_only_together_are_named(laboratory: Laboratory) -> None:
    report = parsed(run(laboratory, GOOD, CLASH, "--json"))
    assert report["answer"] == "together"
    assert set(report["packages"]) == {"cog", "lens"}
    assert "clash" in report["failure"]


@pytest.mark.journey
def test_what_no_valid_stack_distinguishes_is_not_said_to_act_alone(laboratory: Laboratory) -> None:
    bad = "speedy==1.0 gear==1.0 cog==1.0 lens==2.0 peg==4.0"
    report = parsed(run(laboratory, GOOD, bad, "--json"))
    assert report["answer"] == "involved"
    assert (report["packages"], report["partners"]) == (["peg"], ["lens"])


@pytest.mark.journey
def test_a_slower_stack_is_traced_to_a_package(laboratory: Laboratory) -> None:
    report = parsed(run(laboratory, GOOD, SLOW, "--json"))
    assert report["packages"] == ["gear"]
    assert report["answer"] in ("culprit", "involved")  # on a busy machine, whether it is alone
    assert report["ratio"][0] > 1  # how much slower is not certain on a busy machine


@pytest.mark.journey
@pytest.mark.parametrize(
    ("good", "bad", "message", "code"),
    [
        (GOOD, GOOD, "good and bad are the same versions", 3),
        (BROKEN, GOOD, "the good stack does not run here", 6),
    ],
)
def test_what_cannot_be_bisected_is_refused(
    laboratory: Laboratory, good: str, bad: str, message: str, code: int
) -> None:
    done = run(laboratory, good, bad)
    assert done.returncode == code
    assert message in done.stderr
