"""What is known against releases decides what is recommended; what was not checked is named."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackgen.commands.advise_security import Security
from stackgen.commands.options import VulnerabilityOptions
from stackgen.index import IndexConfig, PackageIndex
from stackgen.model.choices import AdviceType
from stackgen.model.evidence import Advice, Answer, Change
from stackgen.model.packages import Lock
from tests.in_process import run_command
from tests.spaces import artifact
from tests.test_advice import FAST, LOCK, OWN, SAME, advice_for, blocks


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PackageIndex]:
    with PackageIndex(IndexConfig(indexes=()), tmp_path / "cache") as found:
        yield found


def _security(
    index: PackageIndex,
    folder: Path,
    vulnerable: dict[str, str] | None,
    *,
    allow_vulnerable: bool = False,
) -> Security:
    """Return what is known where versions of packages are vulnerable; None: nothing is searched."""
    osv = folder / "osv"
    osv.mkdir(parents=True, exist_ok=True)
    for name, version in (vulnerable or {"other": "1"}).items():
        package = {"ecosystem": "PyPI", "name": name}
        record = {"id": f"PYSEC-{name}", "affected": [{"package": package, "versions": [version]}]}
        (osv / f"{name}.json").write_text(json.dumps(record))
    return Security(
        options=VulnerabilityOptions(osv=None if vulnerable is None else osv),
        environ={},
        index=index,
        lockfile=LOCK,
        names=frozenset(["numpy", "tensorflow", "requests", "flask"]),
        allow_vulnerable=allow_vulnerable,
    )


def _advised(security: Security, kind: AdviceType = AdviceType.PERFORMANCE) -> Advice:
    faster = 0.8 if kind is AdviceType.PERFORMANCE else 1.0
    return advice_for(
        blocks({OWN: 1.0, FAST: faster, SAME: 1.0}),
        admits=lambda _, changes, __: security.refusal(changes),
        added_risk=security.added,
        kind=kind,
    )


def test_a_faster_release_with_a_known_vulnerability_is_refused_unless_allowed(
    index: PackageIndex, tmp_path: Path
) -> None:
    found = _advised(_security(index, tmp_path, {"tensorflow": "2.15.0"}))
    assert (found.answer, found.lock) == (Answer.REFUSED, None)
    assert "tensorflow 2.15.0 has the known vulnerability PYSEC-tensorflow" in found.refused
    security = _security(index, tmp_path, {"tensorflow": "2.15.0"}, allow_vulnerable=True)
    found = _advised(security)
    assert found.lock == FAST.stack.lock
    assert any("PYSEC-tensorflow" in each for each in security.caveats(found))


def test_releases_that_were_not_checked_are_recommended_and_named_as_such(
    index: PackageIndex, tmp_path: Path
) -> None:
    security = _security(index, tmp_path, None)
    found = _advised(security)
    assert found.answer is Answer.FASTER
    assert any("not checked" in each for each in security.caveats(found))
    checked = _security(index, tmp_path, {})
    (caveat,) = checked.caveats(_advised(checked))
    assert "no known vulnerability" in caveat


@pytest.mark.parametrize(
    ("vulnerable", "refused"),
    [(None, "not checked"), ({}, None), ({"numpy": "1.22.0"}, "PYSEC-numpy")],
)
def test_an_older_release_is_recommended_only_where_it_was_checked(
    vulnerable: dict[str, str] | None, refused: str | None, index: PackageIndex, tmp_path: Path
) -> None:
    older = [Change(name="numpy", current="1.23.5", recommended="1.22.0")]
    found = _security(index, tmp_path, vulnerable).refusal(older)
    assert (found is None) if refused is None else (refused in (found or ""))


def test_the_type_security_takes_the_fewest_vulnerabilities_that_is_not_slower(
    index: PackageIndex, tmp_path: Path
) -> None:
    found = _advised(_security(index, tmp_path, {"tensorflow": "2.12.0"}), AdviceType.SECURITY)
    assert found.answer in (Answer.NOT_SLOWER, Answer.FASTER)
    assert {c.name for c in found.changes} >= {"tensorflow"}
    other = _security(index, tmp_path / "other", {"flask": "3.0"})
    kept = _advised(other, AdviceType.SECURITY)
    assert kept.lock is None  # nothing that was measured lowers the number


def test_what_the_newest_versions_bring_is_searched_although_nothing_else_holds_it(
    index: PackageIndex, tmp_path: Path
) -> None:
    security = _security(index, tmp_path, {"brought": "1.0"})
    assert security.of("numpy", "1.26.4") == ()
    files = (artifact("brought", "1.0"), artifact("further", "2.0"))
    assert security.excluded(Lock(artifacts=files)) == ["brought!=1.0"]
    assert security.of("further", "2.0") == ()


def test_what_stays_vulnerable_is_named(index: PackageIndex, tmp_path: Path) -> None:
    security = _security(index, tmp_path, {"flask": "3.0"})
    assert any("flask 3.0" in each for each in security.caveats(_advised(security)))


def test_the_type_security_needs_a_source(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("numpy==1.26.4\n")
    done = run_command(
        *("advise", "requirements.txt", "--type", "security", "--kb", "kb.db", "--no-index"),
        folder=tmp_path,
        environ={"HOME": str(tmp_path), "STACKGEN_SEED": ""},
    )
    assert done.returncode == 2
    assert "--osv" in done.stderr


@pytest.mark.parametrize(
    ("place", "why"),
    [("nowhere", "does not exist"), ("requirements.txt", "neither"), (".", "without .json files")],
)
def test_a_place_without_records_is_refused_whatever_the_answer(
    tmp_path: Path, place: str, why: str
) -> None:
    (tmp_path / "requirements.txt").write_text("numpy==1.26.4\n")
    done = run_command(
        *("advise", "requirements.txt", "--type", "security", "--osv", place, "--no-index"),
        folder=tmp_path,
        environ={"HOME": str(tmp_path / "home"), "STACKGEN_SEED": ""},
    )
    assert done.returncode == 2
    assert why in done.stderr
