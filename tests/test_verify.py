"""Verify: real validators on an index of ours without a network, and on the real one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from stackgen.commands.verify import (
    PinnedStack,
    pip_variables,
    stack_of,
    uv_platform,
    validate,
    validators,
)
from stackgen.errors import UsageError
from stackgen.images.targets import find_interpreters, probe
from stackgen.index import load_config
from stackgen.index.config import uv_variables
from stackgen.model.packages import LockedPackage, LockFile
from stackgen.model.reports.locks import Validation, Validity
from stackgen.model.stacks import Base, EnvironmentKind
from stackgen.provenance import validators as edge
from stackgen.provenance.validators import Uv, ValidationRequest, ValidationResult
from tests.containers.wheels import make_wheel
from tests.in_process import run_command
from tests.tiny_index import TinyIndex, serving
from tests.verifications import CONFLICT, HOLDS, NO_INDEX, OTHER_PYTHON, TOO_MUCH, VERIFICATIONS

PASSWORD = "me:s3cret"
HELD = "alpha==1.0\nbeta==1.0\n"


@dataclass(frozen=True)
class Bench:
    """A folder with a lock in it, and an index that holds alpha, which needs beta, and gamma."""

    root: Path
    index: TinyIndex

    def publish(self, name: str, *requires: str) -> None:
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        metadata += "".join(f"Requires-Dist: {each}\n" for each in requires)
        files = {f"{name}.py": "", f"{name}-1.0.dist-info/METADATA": metadata}
        _, wheel = make_wheel(self.root, name, files)
        self.index.add(wheel.name, wheel.read_bytes())

    def verify(self, lock: str, *options: str, url: str = "") -> subprocess.CompletedProcess[str]:
        (self.root / "requirements.txt").write_text(lock)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": url or self.index.simple,
            "STACKGEN_CACHE": str(self.root / "cache"),
            "STACKGEN_TEST_LOCKS": os.environ["STACKGEN_TEST_LOCKS"],
        }
        return verify(self.root / "requirements.txt", *options, environ=environ)


def verify(
    lock: Path, *options: str, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return run_command(
        "verify", lock.name, *options, folder=lock.parent, environ=environ or os.environ
    )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with serving() as index:
        found = Bench(tmp_path, index)
        found.publish("alpha", "beta")
        found.publish("beta")
        found.publish("gamma", "beta<1")
        yield found


def validations(done: subprocess.CompletedProcess[str]) -> list[Validation]:
    """Read what ``--json`` printed."""
    return [
        Validation(
            validator=each["validator"].split()[0],
            validity=Validity(each["validity"]),
            reasons=tuple(each["reasons"]),
            missing=tuple(each["missing"]),
            superfluous=tuple(each["superfluous"]),
            unreachable=each["unreachable"],
        )
        for each in json.loads(done.stdout)["validations"]
    ]


# What the real validators say.


@pytest.mark.journey
def test_both_validators_accept_a_lock_that_holds(bench: Bench) -> None:
    done = bench.verify(HELD)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("  holds\n") == 2


@pytest.mark.journey
def test_the_index_may_be_given_by_an_option(bench: Bench) -> None:
    url = bench.index.simple.replace("simple", "none")
    done = bench.verify(HELD, "--index-url", bench.index.simple, url=url)
    assert done.returncode == 0, done.stdout


@pytest.mark.journey
def test_a_password_reaches_the_validators_and_is_never_printed(bench: Bench) -> None:
    bench.index.password = PASSWORD
    known = bench.index.simple.replace("//", f"//{PASSWORD}@")
    done = bench.verify(HELD, url=known)
    assert done.returncode == 0, done.stdout
    refused = bench.verify("alpha==2.0\n", url=known)
    assert refused.returncode == 4
    assert "s3cret" not in done.stdout + done.stderr + refused.stdout + refused.stderr


def test_a_password_is_on_no_command_line(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[object] = []
    popen = subprocess.Popen

    def spy(command: list[str], **options: object) -> "subprocess.Popen[str]":
        seen.append(command)
        return popen(command, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(subprocess, "Popen", spy)
    url = bench.index.simple.replace("//", f"//{PASSWORD}@")
    config = load_config(environ={"PIP_INDEX_URL": url})
    for validator in validators(probe(sys.executable), config, os.environ, tmp_path):
        assert validator.validate(ValidationRequest(requirements=("alpha==1.0",))).pins
    assert "piptools" in str(seen)
    assert "s3cret" not in str(seen)


@pytest.mark.journey
def test_a_missing_package_is_named(bench: Bench) -> None:
    done = bench.verify("alpha==1.0\n", "--json")
    assert done.returncode == 4
    assert [each.missing for each in validations(done)] == [("beta==1.0",)] * 2


@pytest.mark.journey
def test_a_superfluous_package_is_named_where_the_lock_lists_its_requirements(
    bench: Bench,
) -> None:
    (bench.root / "requirements.in").write_text("beta\n")
    done = bench.verify(HELD, "--json")
    assert done.returncode == 4
    assert [each.superfluous for each in validations(done)] == [("alpha==1.0",)] * 2


@pytest.mark.journey
def test_a_contradiction_is_reported_in_the_validators_own_words(bench: Bench) -> None:
    done = bench.verify("beta==1.0\ngamma==1.0\n", "--json")
    uv, pip_tools = validations(done)
    assert done.returncode == 4
    assert "gamma depend on beta<1" in uv.reasons[0]
    assert "gamma 1.0 requires beta<1" in pip_tools.reasons
    assert "Traceback" not in done.stdout
    assert "127.0.0.1" not in done.stdout
    assert str(Path.home()) not in done.stdout


@pytest.mark.journey
def test_a_lock_that_no_longer_answers_what_is_requested_does_not_hold(bench: Bench) -> None:
    (bench.root / "requirements.in").write_text("alpha>=2\n")
    done = bench.verify(HELD, "--json")
    assert [each.validity for each in validations(done)] == [Validity.FAILS] * 2


@pytest.mark.parametrize("fault", ["refused", "failing", "absent"])
@pytest.mark.journey
def test_an_index_that_does_not_answer_is_no_verdict(bench: Bench, fault: str) -> None:
    url = bench.index.simple
    if fault == "refused":
        bench.index.password = PASSWORD
    if fault == "failing":
        bench.index.faults = {path: [503] * 40 for path in bench.index.files}
    if fault == "absent":
        url = "http://127.0.0.1:9/simple"
    done = bench.verify(HELD, "--json", url=url)
    assert done.returncode == 8
    assert all(each.validity is Validity.UNKNOWN and each.unreachable for each in validations(done))


@pytest.mark.journey
def test_pip_tools_is_not_used_for_another_python(bench: Bench) -> None:
    ours = probe(sys.executable)
    others = [p for p in find_interpreters() if probe(p).target.python_minor != "3.11"]
    other = next((p for p in others if p != ours.python), None)
    if other is None or ours.target.python_minor != "3.11":
        pytest.skip("there is no second Python here")
    done = bench.verify(HELD, "--base", other, "--json")
    uv, pip_tools = validations(done)
    assert (done.returncode, uv.validity, pip_tools.validity) == (
        0,
        Validity.HOLDS,
        Validity.UNKNOWN,
    )
    assert ours.target.python in pip_tools.reasons[0]


def test_uv_validates_for_a_base_without_a_local_interpreter(bench: Bench, tmp_path: Path) -> None:
    ours = probe(sys.executable)
    tags = ("cp39-cp39-manylinux_2_31_x86_64", "py3-none-any")
    target = replace(ours.target, python="3.9.2", tags=tags)
    config = load_config(environ={"PIP_INDEX_URL": bench.index.simple})
    there = replace(ours, name="there", kind=EnvironmentKind.DOCKER, target=target)
    stack = PinnedStack(
        pins=(("alpha", "1.0"), ("beta", "1.0")), requirements=(), requirements_unknown=""
    )
    uv, pip_tools = (validate(x, stack) for x in validators(there, config, os.environ, tmp_path))
    assert (uv.validity, pip_tools.validity) == (Validity.HOLDS, Validity.UNKNOWN)


def test_a_validator_that_loads_whole_wheels_is_stopped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(edge, "MOST_BYTES", -1)
    monkeypatch.setattr(edge, "_STEP_S", 0.01)
    config = load_config(environ={"PIP_INDEX_URL": bench.index.simple})
    *_, pip_tools = validators(probe(sys.executable), config, os.environ, tmp_path)
    result = pip_tools.validate(ValidationRequest(requirements=("alpha==1.0",)))
    assert result.pins is None
    assert "load more than" in result.no_verdict


# What pip does with its temporary folder all the time, in a form that no listing can miss.
COMES_AND_GOES = """
import os, shutil, time
end = time.monotonic() + 1.0
while time.monotonic() < end:
    os.makedirs("one/two/three")
    open("one/two/three/four", "w").close()
    shutil.rmtree("one")
print("done==1.0")
"""


def test_folders_of_a_validator_that_come_and_go_are_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(edge, "_STEP_S", 0.001)
    done = edge._run(
        [sys.executable, "-c", COMES_AND_GOES], ValidationRequest(requirements=()), os.environ
    )
    assert (done.code, done.output, done.stopped) == (0, "done==1.0\n", "")


def test_a_validator_that_takes_too_long_is_stopped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(edge, "LIMIT_S", 0.0)
    config = load_config(environ={"PIP_INDEX_URL": bench.index.simple})
    for validator in validators(probe(sys.executable), config, os.environ, tmp_path):
        assert (
            "no verdict within"
            in validator.validate(ValidationRequest(requirements=("alpha==1.0",))).no_verdict
        )


# What follows from their results.


@dataclass(frozen=True)
class Scripted:
    """A validator that gives prepared results: to the pins, then to what was asked for."""

    results: tuple[ValidationResult, ...]
    name: str = "scripted"

    def validate(self, request: ValidationRequest) -> ValidationResult:
        return self.results[bool(request.constraints)]


PINS = (("alpha", "1.0"), ("beta", "1.0"))
STACK = PinnedStack(pins=PINS, requirements=("alpha",), requirements_unknown="")


def test_another_spelling_of_a_version_is_the_same_version() -> None:
    same = ValidationResult(pins=(("alpha", "1.0.0"), ("beta", "1")))
    assert validate(Scripted((same, same)), STACK).validity is Validity.HOLDS


def test_a_pin_that_is_replaced_by_another_build_does_not_hold() -> None:
    other = ValidationResult(pins=(("alpha", "1.0+cpu"), ("beta", "1.0")))
    found = validate(Scripted((other, other)), STACK)
    assert found.validity is Validity.FAILS
    assert found.reasons == ("it would take alpha 1.0+cpu for 1.0",)


def test_silence_at_the_second_question_is_no_verdict() -> None:
    found = validate(
        Scripted(
            (ValidationResult(pins=PINS), ValidationResult(no_verdict="gone", unreachable=True))
        ),
        STACK,
    )
    assert (found.validity, found.reasons, found.unreachable) == (Validity.UNKNOWN, ("gone",), True)


def test_without_requirements_only_the_pins_are_validated() -> None:
    bare = replace(STACK, requirements=(), requirements_unknown="unknown")
    assert validate(Scripted((ValidationResult(pins=PINS),)), bare).validity is Validity.HOLDS


@pytest.mark.parametrize(
    ("validations", "code"),
    [
        ((HOLDS, HOLDS), 0),
        ((HOLDS, OTHER_PYTHON), 0),
        ((HOLDS, NO_INDEX), 0),
        ((HOLDS, CONFLICT), 4),
        ((CONFLICT, NO_INDEX), 4),
        ((NO_INDEX, OTHER_PYTHON), 8),
        ((OTHER_PYTHON, TOO_MUCH), 3),
    ],
)
def test_the_exit_code_reports_the_verdict(validations: tuple[Validation, ...], code: int) -> None:
    assert replace(VERIFICATIONS["holds"], validations=validations).exit_code == code


def test_a_validator_cannot_refuse_without_a_reason() -> None:
    with pytest.raises(ValueError, match="gives a reason"):
        Validation(validator="uv", validity=Validity.FAILS)


# The requests.


def locked(name: str, *, direct: bool = False, marker: str = "") -> LockedPackage:
    return LockedPackage(name=name, version="1.0", direct=direct, marker=marker)


def test_what_a_lock_calls_direct_was_required() -> None:
    lockfile = LockFile(
        path="x",
        format="requirements",
        packages=(locked("alpha", direct=True), locked("beta")),
        requirements=('gamma; python_version < "3"', "delta>1"),
    )
    found = stack_of(lockfile, probe(sys.executable).target)
    assert found.requirements == ("delta>1", "alpha")
    assert found.lines == ("alpha==1.0", "beta==1.0")


def test_beside_what_no_index_has_nothing_is_called_superfluous() -> None:
    lockfile = LockFile(
        path="x", format="uv", packages=(locked("a"),), requirements=("a",), skipped=("b: git",)
    )
    found = stack_of(lockfile, probe(sys.executable).target)
    assert found.requirements == ()
    assert found.requirements_unknown


def test_a_lock_for_another_system_is_refused() -> None:
    lockfile = LockFile(
        path="x", format="uv", packages=(locked("a", marker='sys_platform == "win32"'),)
    )
    with pytest.raises(UsageError, match="installs nothing here"):
        stack_of(lockfile, replace(probe(sys.executable).target, tags=()))


def test_uv_uses_indexes_in_our_order() -> None:
    environ = {"PIP_INDEX_URL": "file:///one", "PIP_EXTRA_INDEX_URL": "file:///two file:///three"}
    found = uv_variables(load_config(environ=environ))
    assert (found["UV_INDEX"], found["UV_DEFAULT_INDEX"]) == (
        "file:///one file:///two",
        "file:///three",
    )


def test_both_validators_get_the_users_certificates_and_links() -> None:
    config = load_config(environ={"PIP_CERT": "mine.pem", "PIP_FIND_LINKS": "/wheels /more"})
    uv, pip = uv_variables(config), pip_variables(config)
    assert uv["SSL_CERT_FILE"] == pip["PIP_CERT"] == "mine.pem"
    assert uv["UV_FIND_LINKS"].split(",") == pip["PIP_FIND_LINKS"].split(" ")


def test_variables_of_the_users_do_not_change_a_verdict(tmp_path: Path) -> None:
    environ = {"PIP_PRE": "1", "UV_PRERELEASE": "allow", "PYTHONPATH": "x", "HTTPS_PROXY": "p"}
    base: Base = probe(sys.executable)
    uv, *_ = validators(base, load_config(environ={}), environ, tmp_path)
    assert isinstance(uv, Uv)
    assert environ.keys() & uv.environ.keys() == {"HTTPS_PROXY"}


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("cp311-cp311-manylinux_2_36_x86_64", "x86_64-manylinux_2_36"),
        ("cp311-cp311-manylinux_2_31_aarch64", "aarch64-manylinux_2_31"),
        ("cp311-cp311-musllinux_1_2_x86_64", "x86_64-unknown-linux-musl"),
        ("cp311-cp311-win_amd64", ""),
    ],
)
def test_uv_has_names_of_its_own_for_platforms(tag: str, name: str) -> None:
    assert uv_platform(replace(probe(sys.executable).target, tags=(tag,))) == name


def test_a_newer_glibc_than_uv_knows_is_treated_as_the_newest_it_knows() -> None:
    tags = tuple(f"cp311-cp311-manylinux_2_{minor}_x86_64" for minor in (44, 43, 40, 39))
    target = replace(probe(sys.executable).target, tags=tags)
    assert uv_platform(target) == "x86_64-manylinux_2_40"


# On the real index.


@pytest.fixture(scope="module")
def tensorflow(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a lock of TensorFlow for our own Python, made by uv."""
    folder = tmp_path_factory.mktemp("lock")
    config = load_config(environ=os.environ)
    uv, *_ = validators(probe(sys.executable), config, os.environ, folder)
    result = uv.validate(ValidationRequest(requirements=("tensorflow==2.12.1", "numpy==1.23.5")))
    if result.pins is None:
        pytest.skip(f"no TensorFlow 2.12 for this Python: {result}")
    return "".join(f"{name}=={version}\n" for name, version in result.pins)


def of_tensorflow(folder: Path, lock: str, *, requested: str = "") -> list[Validation]:
    """Return what the validators ruled; without pip-tools where this machine is too slow for it."""
    (folder / "requirements.txt").write_text(lock)
    if requested:
        (folder / "requirements.in").write_text(requested)
    done = verify(folder / "requirements.txt", "--json")
    assert done.returncode in (0, 4), done.stderr
    found = validations(done)
    assert [each.validator for each in found] == ["uv", "pip-tools"]
    return [each for each in found if each.validator == "uv" or not out_of_time(each)]


def out_of_time(validation: Validation) -> bool:
    return validation.validity is Validity.UNKNOWN and "no verdict within" in str(
        validation.reasons
    )


@pytest.mark.network
def test_a_lock_of_tensorflow_holds(tmp_path: Path, tensorflow: str) -> None:
    found = of_tensorflow(tmp_path, tensorflow, requested="tensorflow==2.12.*\n")
    assert {each.validity for each in found} == {Validity.HOLDS}


@pytest.mark.network
def test_tensorflow_2_12_with_numpy_2_does_not_hold(tmp_path: Path, tensorflow: str) -> None:
    found = of_tensorflow(tmp_path, tensorflow.replace("numpy==1.23.5", "numpy==2.0.0"))
    assert all("numpy" in str(each.reasons) for each in found)
    assert {each.validity for each in found} == {Validity.FAILS}


@pytest.mark.network
def test_a_lock_of_tensorflow_without_six_misses_it(tmp_path: Path, tensorflow: str) -> None:
    lines = [line for line in tensorflow.splitlines() if not line.startswith("six==")]
    for each in of_tensorflow(tmp_path, "\n".join(lines)):
        assert [pin.split("==")[0] for pin in each.missing] == ["six"]


@pytest.mark.network
def test_chardet_is_superfluous_beside_tensorflow(tmp_path: Path, tensorflow: str) -> None:
    lock = f"{tensorflow}chardet==5.2.0\n"
    for each in of_tensorflow(tmp_path, lock, requested="tensorflow\n"):
        assert each.superfluous == ("chardet==5.2.0",)


def test_a_lock_for_another_python_is_refused() -> None:
    lockfile = LockFile(path="pylock.toml", format="pylock", packages=(), requires_python="==3.7.*")
    with pytest.raises(UsageError, match=r"pylock.toml is for Python ==3.7"):
        stack_of(lockfile, probe(sys.executable).target)
