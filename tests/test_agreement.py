"""uv and pip say what we say, of choices drawn at random; the benchmark asks about hundreds."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from benchmarks.agreement import Case, PipCheck, case_of, choices, outcome, report, run
from stackgen.images.targets import find_interpreters, probe
from stackgen.index import PackageIndex, load_config
from stackgen.model.packages import Artifact, Release
from stackgen.provenance.validators import ValidationRequest, ValidationResult
from tests.local_index import Published, publish

CHOICES = 60
SMALL = (("scikit-learn", "pandas[performance]"), ("torch", "numpy"))


@pytest.mark.network
@pytest.mark.slow
def test_uv_and_pip_agree_on_random_choices() -> None:
    pythons = {probe(path).target.python_minor for path in find_interpreters()}
    found = run(CHOICES, 1, pythons=sorted(pythons & {"3.11", "3.12"}), closures=SMALL)
    assert len(found) == CHOICES
    assert {each.satisfiable for each in found} == {True, False}
    assert not [str(d) for each in found for d in each.disagreements if not d.cause]


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    """Yield a closure of two packages: of app, 2.0 needs lib 2 and 1.0 needs lib 1."""
    app = {"1.0": Published(requires=("lib<2",)), "2.0": Published(requires=("lib>=2",))}
    lib = {"1.0": Published(), "2.0": Published()}
    address = publish(tmp_path / "index", {"app": app, "lib": lib})
    config = load_config(environ={"PIP_INDEX_URL": address, "PIP_CONFIG_FILE": os.devnull})
    with PackageIndex(config, tmp_path / "cache") as index:
        yield case_of(index, ("app",), probe(sys.executable))


class Opposite:
    """A validator that finds a stack where there is none, and none where there is one."""

    name = "opposite"

    def validate(self, request: ValidationRequest) -> ValidationResult:
        given = set(request.requirements)
        if {"app==2.0", "lib==1.0"} <= given or {"app==1.0", "lib==2.0"} <= given:
            return ValidationResult(pins=(("app", "2.0"),))
        return ValidationResult(refusal=("no",))


@pytest.fixture
def pip(tmp_path: Path) -> PipCheck:
    return PipCheck(probe(sys.executable), tmp_path)


def test_choices_are_the_same_for_the_same_seed_and_hold_both_verdicts(case: Case) -> None:
    found = choices(case, Random(0), 4)
    assert found == choices(case, Random(0), 4)
    assert len(set(found)) == len(found) == 4
    assert {case.newest(pins) is None for pins in found} == {True, False}


def test_every_disagreement_is_noticed_and_fails_the_run_unless_its_cause_is_known(
    case: Case, pip: PipCheck
) -> None:
    pairs = {case.newest(pins) is None: pins for pins in choices(case, Random(0), 4)}
    assert set(pairs) == {True, False}
    for pins in pairs.values():
        found = outcome(case, pins, Opposite(), pip)
        assert found.satisfiable == (case.newest(pins) is not None)
        assert found.disagreements
        assert not any(each.cause for each in found.disagreements)
        known = tuple(replace(each, cause="known") for each in found.disagreements)
        assert report([found]) == 1
        assert "cause: UNKNOWN" in str(found.disagreements[0])
        assert report([replace(found, disagreements=known)]) == 0


def release(name: str, *requires: str) -> Release:
    artifact = Artifact(
        name=name,
        version="1.0",
        filename=f"{name}-1.0-py3-none-any.whl",
        sha256="0" * 64,
        url=f"file:///{name}-1.0-py3-none-any.whl",
        index="ours",
    )
    return Release(artifact=artifact, requires_dist=requires, label="1.0")


def test_pip_check_sees_what_is_missing_and_what_conflicts_in_each_stack(pip: PipCheck) -> None:
    broken = pip.complaints([release("alpha", "beta>=2", "gamma"), release("beta")])
    assert len(broken) == 2
    assert "beta" in str(broken)
    assert "gamma" in str(broken)
    assert pip.complaints([release("alpha", "beta"), release("beta")]) == ()
