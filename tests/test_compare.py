"""Two stacks against each other: how a stack is named, and what is said of them."""

import io
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.campaign.candidates import Candidate, GivenStacks
from stackgen.campaign.plan import SelectedStacks
from stackgen.commands.compare import (
    Named,
    Resolver,
    _chosen,
    differing,
    named,
    refuse_unfit,
)
from stackgen.errors import EvidenceError, ResolutionError, UsageError
from stackgen.index import PackageIndex, load_config
from stackgen.knowledge.database import open_database
from stackgen.measure import effect
from stackgen.model.evidence import Control, Difference
from stackgen.model.packages import Lock
from stackgen.model.reports.campaigns import ChosenStack, ExploreReport, MeasurementHealth
from stackgen.model.stacks import Stack
from stackgen.report.compare import compare_text
from stackgen.report.terminal import Plain
from stackgen.storage.paths import Paths
from tests.campaign_requests import campaign_request
from tests.laboratory import INDICATOR, WORK, Laboratory
from tests.local_index import Published, publish
from tests.samples import BASE, FACTS
from tests.spaces import TARGET, artifact
from tests.test_render import FASTER, MATMUL, NEW, OLD, SLOWER, deviating
from tests.test_render import report as rendered

SAME = [0.001 * (-1) ** i for i in range(16)]
WIDE = [0.2 * (-1) ** i for i in range(16)]


def paths(folder: Path) -> Paths:
    return Paths(cache=folder / "cache", knowledge=folder / "kb.db")


@pytest.mark.parametrize(
    "text",
    [
        "numpy==1.26.4 scipy==1.12.0",
        "numpy==1.26.4,scipy==1.12.0",
        " numpy==1.26.4, scipy==1.12.0",
        "numpy==1.26.4 " * 99
        + "scipy==1.12.0",  # a whole stack is longer than a file's name may be
    ],
)
def test_versions_may_have_blanks_or_commas_between_them(text: str, tmp_path: Path) -> None:
    found = named(text, paths(tmp_path))
    assert found.versions is not None
    assert set(found.versions.texts) == {"numpy==1.26.4", "scipy==1.12.0"}


def test_a_file_that_is_there_is_a_lock_whatever_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / "numpy==1.26.4"
    path.write_text("numpy==1.26.4\n")
    found = named(str(path), paths(tmp_path))
    assert found.lockfile is not None
    assert found.title == "numpy==1.26.4"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("numpy>=1.26 numpy==1.26.4", "versions are given as NAME==VERSION"),
        ("numpy==1.26.4 scipy", "versions are given as NAME==VERSION"),
        ("numpy==1.26.4,<2", "cannot read the requirement"),
        ("numpy>=2,==2.0", "versions are given as NAME==VERSION"),
        ("numpy", "no list of versions"),
        ("", "no list of versions"),
        ("abc", "4 hexadecimal digits"),
        ("nowhere/Pipfile.lock", "cannot read nowhere/Pipfile.lock"),
        ("pylock.tmol.toml", "cannot read"),
        ("abcdef", "no stack begins with"),
    ],
)
def test_an_operand_that_is_none_is_reported_with_what_it_may_be(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as error:
        named(text, paths(tmp_path))
    assert message in str(error.value)


def test_a_stack_is_found_by_the_beginning_of_its_id_and_called_by_it(tmp_path: Path) -> None:
    with open_database(tmp_path / "kb.db") as database:
        database.add_stack(NEW.stack)
        database.add_stack(OLD.stack)
    found = named(NEW.stack.id[:8], paths(tmp_path))
    assert found.stack == NEW.stack
    assert found.title == f"stack {NEW.stack.id[:12]}"


def test_the_same_version_in_another_file_is_a_difference() -> None:
    one = Lock(artifacts=(artifact("numpy", "1.0"), artifact("scipy", "1.0")))
    other = Lock(artifacts=(replace(artifact("numpy", "1.0"), sha256="0" * 64), one.artifacts[1]))
    assert differing(one, one, first=[]) == []
    assert differing(one, other, first=[]) == ["numpy"]
    assert differing(one, Lock(artifacts=()), first=["scipy"]) == ["scipy", "numpy"]


def test_a_stack_of_another_python_is_refused_where_its_wheels_do_not_fit() -> None:
    wheel = replace(artifact("numpy", "1.0"), filename="numpy-1.0-cp36-cp36m-win32.whl")
    with pytest.raises(ResolutionError, match="cannot be installed here") as error:
        refuse_unfit(Stack(lock=Lock(artifacts=(wheel,)), facts=FACTS), TARGET)
    assert FACTS.python in str(error.value)
    refuse_unfit(NEW.stack, TARGET)


def test_a_stack_of_another_base_is_reported_and_its_packages_and_settings_are_taken(
    tmp_path: Path,
) -> None:
    elsewhere = replace(FACTS, python="CPython 3.11.9", distribution="ubuntu 24.04")
    stack = replace(NEW.stack, facts=elsewhere, settings=(("OMP_NUM_THREADS", "1"),))
    stream = io.StringIO()
    config = load_config(environ={"PIP_CONFIG_FILE": os.devnull}, no_index=True)
    with PackageIndex(config, tmp_path) as index:
        resolver = Resolver(
            index=index,
            request=campaign_request(),
            base=BASE,
            progress=Plain(stream),
        )
        pair = resolver.pair(Named(text="a", stack=stack), Named(text="b", stack=OLD.stack))
    first, second = pair.candidates()
    assert first.lock == NEW.stack.lock
    assert first.settings == stack.settings
    assert first.label == f"A: stack {stack.id[:12]} (numpy 2.4.0, OMP_NUM_THREADS=1)"
    assert second.label == f"B: stack {OLD.stack.id[:12]} (numpy 1.26.4)"
    assert stream.getvalue() == (
        f"Stack {stack.id[:12]} was measured on CPython 3.11.9 (ubuntu 24.04); here its packages "
        "are installed on CPython 3.11.2 (debian 12).\n"
    )


def chosen(a: Sequence[str], b: Sequence[str], *indicators: str) -> SelectedStacks:
    """Return what is measured where the sides hold these packages, each in a version of its own."""
    members = [
        Candidate(
            lock=Lock(artifacts=tuple(artifact(name, version) for name in sorted(names))),
            label=letter,
            completion="lock",
            settings=(),
            choice=None,
        )
        for letter, version, names in (("A", "1.0", a), ("B", "2.0" if a != b else "1.0", b))
    ]
    pair = GivenStacks(members=tuple(members), varied=("tensorflow", "numpy"))
    request = campaign_request(indicators=indicators)
    return _chosen((Named(text="a"), Named(text="b")), pair, request)


def test_an_indicator_that_is_not_named_by_its_package_must_run_on_both_sides() -> None:
    one, other = ["numpy", "tensorflow"], ["numpy"]
    assert chosen(one, other).packages == {"numpy"}
    assert chosen(one, other, "matmul").packages == {"numpy"}
    assert chosen(one, other, "tensorflow/matmul").packages == {"numpy", "tensorflow"}


def test_the_same_comparison_is_the_same_campaign_and_the_other_way_round_is_another() -> None:
    there, back = chosen(["numpy"], ["scipy"]), chosen(["scipy"], ["numpy"])
    requests = [each.request.identity("docker", FACTS, where="kb") for each in (there, back)]
    again = chosen(["numpy"], ["scipy"]).request.identity("docker", FACTS, where="kb")
    assert again == requests[0] != requests[1]


def test_a_lock_in_another_encoding_is_the_same_campaign(tmp_path: Path) -> None:
    found = set()
    for name, encoding, end in (("a", "utf-8", "\n"), ("b", "utf-16", "\r\n")):
        path = tmp_path / name
        path.write_bytes(f"numpy==1.26.4{end}".encode(encoding))
        request = campaign_request().with_stacks(lock=path)
        found.add(request.identity("docker", FACTS, where="kb"))
    assert len(found) == 1


def test_a_stack_is_not_compared_with_itself() -> None:
    with pytest.raises(EvidenceError, match="both are the same stack"):
        chosen(["numpy"], ["numpy"])


def compared(contrasts: list[float]) -> ExploreReport:
    """Return a report in which A is numpy 2.4.0 and B is numpy 1.26.4."""
    return _as_compared(rendered(contrasts))


def _as_compared(found: ExploreReport) -> ExploreReport:
    labels = {NEW.stack.id: "A: numpy 2.4.0", OLD.stack.id: "B: old.lock (numpy 1.26.4)"}
    plan = replace(
        found.plan,
        requirements=("numpy==2.4.0", "old.lock"),
        varied=("numpy",),
        chosen=tuple((each, 1) for each in labels.values()),
    )
    stacks = tuple(
        ChosenStack(
            stack_id=each.stack.id,
            label=labels[each.stack.id],
            completion="lock",
            lock=each.stack.lock,
        )
        for each in (NEW, OLD)
    )
    rows = tuple(replace(row, label=labels[row.stack_id]) for row in found.ranking)
    return replace(found, plan=plan, stacks=stacks, ranking=rows, failed=())


@pytest.mark.parametrize(
    ("contrasts", "verdict"),
    [
        (FASTER, "B is 1.232 times as fast as A (1.209 to 1.254; 10 blocks)."),
        (SLOWER, "B is 0.826 times as fast as A"),
        (SAME, "B is as fast as A, within 2 % ("),
        (WIDE, "no measurable difference; one of "),
        (FASTER[:3], "Not decided yet: 3 blocks; the first interim analysis is after 6."),
    ],
)
def test_a_report_ends_with_the_verdict(contrasts: list[float], verdict: str) -> None:
    last = compare_text(compared(contrasts)).splitlines()[-1]
    assert last.startswith(verdict)


def test_a_report_names_both_sides_and_in_what_they_differ() -> None:
    lines = compare_text(compared(FASTER)).splitlines()
    assert lines[:3] == [
        "A: numpy 2.4.0",
        "B: old.lock (numpy 1.26.4)",
        "A to B: numpy 2.4.0 -> 1.26.4",
    ]


def test_of_many_differences_eight_are_reported_and_the_rest_is_counted() -> None:
    found = compared(FASTER)
    many = Lock(artifacts=tuple(artifact(f"p{i:02}", "1.0") for i in range(11)))
    operands = (found.stacks[0], replace(found.stacks[1], lock=many, settings=(("OMP", "1"),)))
    line = compare_text(replace(found, stacks=operands)).splitlines()[2]
    assert line.startswith("A to B: numpy 2.4.0 in A alone, p00 1.0 in B alone, p01 1.0 in B")
    assert line.endswith("p06 1.0 in B alone, and 5 more")


def test_where_the_machine_or_the_results_are_not_to_be_trusted_no_speed_is_reported() -> None:
    failed = Control(name="same stack twice", blocks=10, p_value=0.0, failed=True)
    health = MeasurementHealth(controls=(failed,))
    assert "Do not rely on this" in compare_text(replace(compared(FASTER), health=health))
    text = compare_text(_as_compared(deviating(Difference.NUMBERS)))
    assert text.splitlines()[-1] == (
        "B does not compute what A computes (numerically different): its speed does not count."
    )
    rows = compared(FASTER).ranking
    broken = tuple(row if row.is_baseline else replace(row, failures=1) for row in rows)
    text = compare_text(replace(compared(FASTER), ranking=broken))
    assert text.splitlines()[-1].startswith("No verdict: B failed")
    broken = tuple(replace(row, failures=1) if row.is_baseline else row for row in rows)
    text = compare_text(replace(compared(FASTER), ranking=broken))
    assert text.splitlines()[-1] == "No verdict: A failed while it was measured."
    text = compare_text(replace(compared(FASTER), ranking=()))
    assert text.splitlines()[-1] == "Nothing to compare: the budget is spent."


def test_several_indicators_have_one_verdict_together() -> None:
    found = compared(FASTER)
    both = effect(a=OLD.stack.id, b=NEW.stack.id, indicator_id=MATMUL.id, contrasts=SLOWER)
    rows = tuple(
        row if row.is_baseline else replace(row, effects=(*row.effects, both), overall=both)
        for row in found.ranking
    )
    last = compare_text(replace(found, ranking=rows)).splitlines()[-1]
    assert last.startswith("On all indicators together: B is 0.826 times as fast as A")
    separate = tuple(replace(row, overall=None) for row in rows)
    reported = compare_text(replace(found, ranking=separate)).splitlines()[-2:]
    assert [each.partition(": ")[0] for each in reported] == ["On numpy/matmul size=512"] * 2


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    """2.0 does a fifth of the work of 1.0; 3.0 never runs, 4.0 does so with an old gear alone."""
    index = publish(
        tmp_path,
        {
            "speedy": {
                "1.0": Published(source=WORK.format(size=20_000), requires=["gear"]),
                "2.0": Published(source=WORK.format(size=4_000), requires=["gear"]),
                "3.0": Published(source="raise ImportError('hopeless')"),
                "4.0": Published(
                    source="import gear\ngear.OLD\n" + WORK.format(size=20_000), requires=["gear"]
                ),
            },
            "gear": {
                "1.0": Published(source="OLD = 1"),
                "2.0": Published(uploaded="2026-01-01T00:00:00Z"),
            },
        },
    )
    (tmp_path / "work.py").write_text(INDICATOR)
    (tmp_path / "old.txt").write_text("speedy==1.0\ngear==1.0\n")
    return Laboratory(root=tmp_path, index=index)


def run(laboratory: Laboratory, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = ("--executor", "virtualenv", "--pi", str(laboratory.root / "work.py"))
    return laboratory.run("compare", *arguments, *own)


@pytest.mark.journey
def test_a_lock_and_versions_are_measured_until_the_answer_is_certain(
    laboratory: Laboratory,
) -> None:
    plan = run(laboratory, "speedy==2.0", "old.txt", "--dry-run", "--budget", "5s")
    assert plan.returncode == 0, plan.stderr
    assert plan.stdout.startswith("A: speedy 2.0\nB: old.txt (speedy 1.0)\nTo be measured in ")
    assert "Nothing is decided within 5s" in plan.stdout
    assert plan.stdout.endswith("Nothing was built.\n")
    assert not laboratory.kb.exists()

    done = run(laboratory, "speedy==2.0", "old.txt", "--budget", "180s")
    assert done.returncode in (0, 6), done.stderr  # 6: on a busy machine a control may fail
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "A: speedy 2.0",
        "B: old.txt (speedy 1.0)",
        "A to B: speedy 2.0 -> 1.0, gear 2.0 -> 1.0",
    ]
    if done.returncode == 0:
        assert lines[-1].startswith("B is 0.")
    with open_database(laboratory.kb) as database:
        (campaign,) = database.campaigns()
        stack = next(each for each in database.stacks() if each.lock.versions["gear"] == "1.0")
    assert campaign.kind == "compare"

    again = run(laboratory, "speedy==2.0", "old.txt", "--budget", "1s", "--json")
    report = json.loads(again.stdout)  # the same campaign goes on: it knew the answer
    assert report["run"]["blocks"] >= 6
    assert report["plan"]["requirements"] == ["speedy==2.0", "old.txt"]
    assert {each["label"]: each["is_baseline"] for each in report["ranking"]} == {
        "A: speedy 2.0": True,
        "B: old.txt (speedy 1.0)": False,
    }
    done = run(laboratory, stack.id[:10], "old.txt")  # the very same packages
    assert done.returncode == 3, done.stderr
    assert "both are the same stack" in done.stderr
    assert "each holds gear 1.0, speedy 1.0" in done.stderr


@pytest.mark.journey
def test_an_operand_that_does_not_run_is_reported_with_its_log_and_one_that_can_is_repaired(
    laboratory: Laboratory,
) -> None:
    done = run(laboratory, "speedy==4.0", "speedy==3.0", "--budget", "60s")
    assert done.returncode == 5, done.stderr
    assert "error: B: speedy 3.0 does not run here" in done.stderr
    assert "B: speedy 3.0, the end of the log:" in done.stderr
    assert "A: speedy 4.0 with everything newest does not run" in done.stderr
    assert done.stdout == ""
    with open_database(laboratory.kb) as database:
        ran = {each.stack_id for each in database.inspections() if each.observation}
        versions = [dict(database.stack(each).lock.versions) for each in ran]
    assert {"speedy": "4.0", "gear": "1.0"} in versions
