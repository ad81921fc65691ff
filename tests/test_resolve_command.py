"""The resolve command from outside: its output, its formats, its exit codes, its explanations."""

import json
from pathlib import Path

import pytest
from packaging.pylock import Pylock

from stackgen.locks.fields import parse_toml
from tests.laboratory import Laboratory
from tests.local_index import Published, publish

PACKAGES = {
    "frame": {
        "2.0": Published(requires=("num>=2", "tool"), uploaded="2024-06-01T00:00:00Z"),
        "1.1": Published(requires=("num<3",)),
        "1.0": Published(requires=("num<2",)),
    },
    "num": {
        "3.0": Published(uploaded="2026-01-01T00:00:00Z"),
        "2.0": Published(),
        "1.0": Published(),
    },
    "tool": {"1.0": Published(), "0.9rc1": Published()},
    "patched": {"1.1.1": Published(), "1.1.0": Published()},
    "built": {"1.0": Published(), "1.0+mine": Published()},
    "picky": {"1.0": Published(requires_python=">=3.99")},
}


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    root = tmp_path_factory.mktemp("resolve")
    return Laboratory(root=root, index=publish(root, PACKAGES))


def test_the_count_is_a_bare_number(laboratory: Laboratory) -> None:
    done = laboratory.run("resolve", "frame", "--count")
    assert (done.returncode, done.stdout) == (0, "5\n")


def test_the_table_shows_count_versions_and_stacks(laboratory: Laboratory) -> None:
    text = laboratory.run("resolve", "frame", "num").stdout
    assert text.startswith("frame, num: 5 stacks on Python ")
    assert "  frame  3  1.0 to 2.0" in text
    assert "frame 2.0, num 3.0  3 packages  1 stack\n" in text


def test_requirements_are_all_that_is_printed(laboratory: Laboratory) -> None:
    done = laboratory.run("resolve", "frame", "--one", "--format", "requirements")
    assert done.stdout == "frame==2.0\nnum==3.0\ntool==1.0\n"


def test_hashes_are_in_the_form_that_pip_requires(laboratory: Laboratory) -> None:
    done = laboratory.run("resolve", "frame<2", "--format", "requirements", "--hashes")
    assert done.stdout.count(" \\\n    --hash=sha256:") == 2


def test_a_pylock_is_valid_toml_for_the_target(laboratory: Laboratory) -> None:
    arguments = ("--format", "pylock", "--python", "3.12", "--platform", "win_amd64")
    lock = Pylock.from_dict(parse_toml(laboratory.run("resolve", "frame", *arguments).stdout))
    assert [each.name for each in lock.packages] == ["frame", "num", "tool"]
    assert "win32" in str(lock.environments)


def test_json_holds_the_exact_count_and_the_stacks(laboratory: Laboratory) -> None:
    found = json.loads(laboratory.run("resolve", "frame", "--list", "9", "--json").stdout)
    assert (found["count"], found["version_limit"]) == (5, 0)
    assert [dict(each["varied"])["frame"] for each in found["stacks"]] == ["2.0", "1.1", "1.0"]


def test_every_patch_is_distinguished_on_request(laboratory: Laboratory) -> None:
    for granularity, versions in (("minor", ["1.1.1"]), ("patch", ["1.1.1", "1.1.0"])):
        arguments = ("--granularity", granularity, "--list", "9", "--json")
        found = json.loads(laboratory.run("resolve", "patched", *arguments).stdout)
        assert [dict(each["varied"])["patched"] for each in found["stacks"]] == versions


def test_equal_seeds_sample_equal_stacks(laboratory: Laboratory) -> None:
    for how in ((), ("--uniform",), ("--sample-rest",)):
        arguments = ("resolve", "frame", "num", "--sample", "4", "--seed", "7", "--json", *how)
        assert laboratory.run(*arguments).stdout == laboratory.run(*arguments).stdout


def test_a_cutoff_leaves_out_what_was_uploaded_later(laboratory: Laboratory) -> None:
    arguments = ("--exclude-newer", "2024-03-01", "--one", "--format", "requirements")
    assert laboratory.run("resolve", "frame", *arguments).stdout == "frame==1.1\nnum==2.0\n"


def test_contemporaries_are_at_most_a_year_younger(laboratory: Laboratory) -> None:
    arguments = ("--completion", "contemporary", "--format", "requirements")
    text = laboratory.run("resolve", "frame", *arguments).stdout
    assert "num==2.0" in text


def test_an_empty_space_is_explained_with_a_way_out(laboratory: Laboratory) -> None:
    done = laboratory.run("resolve", "frame==1.0", "num>=2", "tool")
    assert (done.returncode, done.stdout) == (4, "")
    assert "no stack satisfies frame==1.0 with num>=2" in done.stderr
    assert "frame 1.0 requires num<2" in done.stderr
    assert "leave out '>=2' of num: 1 stack" in done.stderr
    assert "you require tool" not in done.stderr


def test_constraints_and_overrides_come_from_files_and_options(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    limits = tmp_path / "limits.txt"
    limits.write_text("num<3\n")
    limited = laboratory.run("resolve", "frame", "-c", str(limits), "--count")
    assert limited.stdout == "4\n"
    bent = laboratory.run("resolve", "frame==1.0", "--override", "num>=2", "--count")
    assert bent.stdout == "2\n"
    without = laboratory.run("resolve", "frame==2.0", "--exclude", "num", "--count")
    assert without.stdout == "1\n"


def test_a_project_file_names_the_requirements(laboratory: Laboratory, tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text(
        '[project]\nname = "x"\nversion = "1"\ndependencies = ["frame<2"]\n'
        '[project.optional-dependencies]\nfull = ["tool"]\n'
    )
    done = laboratory.run("resolve", "-r", str(project), "--extra", "full", "--one")
    assert done.stdout.split() == ["frame", "1.1", "num", "2.0", "tool", "1.0"]


def test_alternatives_fill_one_role(laboratory: Laboratory) -> None:
    assert laboratory.run("resolve", "tool|num", "--count").stdout == "4\n"


def test_the_policy_on_prereleases_is_an_option(laboratory: Laboratory) -> None:
    assert laboratory.run("resolve", "tool<1", "--one").stdout.split() == ["tool", "0.9rc1"]
    assert laboratory.run("resolve", "tool", "--pre", "--count").stdout == "2\n"
    assert laboratory.run("resolve", "tool", "--prerelease", "allow", "--count").stdout == "2\n"
    refused = laboratory.run("resolve", "tool<1", "--prerelease", "disallow", "--one")
    assert (refused.returncode, "--prerelease disallow" in refused.stderr) == (4, True)
    both = laboratory.run("resolve", "tool", "--pre", "--prerelease", "explicit")
    assert both.returncode == 2


def test_every_prerelease_is_looked_at_where_there_is_no_stack_without(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    index = publish(
        tmp_path,
        {
            "aaa": {"1.0": Published(requires=["bbb>=1"])},
            "bbb": {"2.0rc1": Published(), "1.0": Published(requires=["gone"])},
        },
    )
    done = laboratory.run("resolve", "aaa", "--one", "--index-url", index)
    assert done.stdout.split() == ["aaa", "1.0", "bbb", "2.0rc1"]


def test_each_version_left_out_says_why(laboratory: Laboratory) -> None:
    text = laboratory.run("resolve", "frame", "--explain", "tool").stdout
    assert "versions in stacks (1): 1.0" in text
    assert "left out (1), a prerelease, taken only where no final release will do" in text
    stored = laboratory.run("resolve", "frame", "--explain", "num<2")
    assert "num<2: in 2 stacks" in stored.stdout
    none = laboratory.run("resolve", "frame>=2", "--explain", "num<2")
    assert none.returncode == 4
    assert "frame 2.0 requires num>=2" in none.stderr
    unfit = laboratory.run("resolve", "picky")
    assert unfit.returncode == 4
    assert "requires Python >=3.99" in unfit.stderr


def test_a_lock_is_one_of_the_stacks_or_the_reason_is_given(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("frame==1.1\nnum==2.0\n")
    inside = laboratory.run("resolve", "frame", "--contains", str(lock))
    assert inside.returncode == 0
    assert "holds one of the stacks of frame" in inside.stdout
    lock.write_text("frame==1.0\nnum==2.0\n")
    outside = laboratory.run("resolve", "frame", "--contains", str(lock))
    assert outside.returncode == 4
    assert "frame 1.0 requires num<2" in outside.stdout
    lock.write_text("frame==2.0\nnum==2.0\n")
    assert "need tool as well" in laboratory.run("resolve", "frame", "--contains", str(lock)).stdout


def test_wrong_usage_is_distinguished(laboratory: Laboratory, tmp_path: Path) -> None:
    environment = tmp_path / "environment.yml"
    environment.write_text("dependencies:\n  - python\n")
    for arguments in (
        (),
        ("frame", "--format", "pylock", "--list", "3"),
        ("frame", "--count", "--one"),
        ("frame", "--uniform"),
        ("frame", "--hashes"),
        ("frame", "--extra", "dev"),
        ("frame; sys_platform == 'none'",),
        ("frame", "--vary", "nothing"),
        ("frame", "--exclude-newer", "soon"),
        ("frame", "--base", "x", "--python", "3.11"),
        ("-r", str(environment)),
        ("requirements.txt",),
        ("frame", "--exclude", "frame"),
    ):
        done = laboratory.run("resolve", *arguments)
        assert done.returncode == 2, arguments
        assert "fix:" in done.stderr


def test_a_lock_is_never_written_without_a_part_of_what_was_requested(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    requested = tmp_path / "requirements.txt"
    requested.write_text("frame\n-e .\n")
    counted = laboratory.run("resolve", "-r", str(requested), "--count")
    assert (counted.returncode, counted.stdout) == (0, "5\n")
    assert "left out:" in counted.stderr
    for form in ("requirements", "pylock"):
        done = laboratory.run("resolve", "-r", str(requested), "--format", form)
        assert (done.returncode, done.stdout) == (2, "")
        assert "the lock would be incomplete" in done.stderr


def test_a_wheel_of_ones_own_is_locked_by_its_place(laboratory: Laboratory) -> None:
    wheel = next((laboratory.root / "simple" / "frame").glob("frame-1.0-*.whl"))
    text = laboratory.run("resolve", str(wheel), "--format", "requirements", "--hashes").stdout
    assert f"frame @ {wheel.as_uri()} \\\n    --hash=sha256:" in text


def test_a_python_that_the_project_refuses_is_refused(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text(
        '[project]\nname = "x"\nversion = "1"\ndependencies = ["frame"]\n'
        'requires-python = ">=3.99"\n'
    )
    done = laboratory.run("resolve", "-r", str(project), "--count")
    assert done.returncode == 4
    assert "the project requires Python >=3.99" in done.stderr


def test_what_excludes_itself_and_what_has_no_wheel_are_distinguished(
    laboratory: Laboratory,
) -> None:
    itself = laboratory.run("resolve", "frame<1.1", "frame>=2")
    assert "you require frame<1.1" in itself.stderr
    unfit = laboratory.run("resolve", "picky", "picky==1.0")
    assert "no version of picky==1.0 fits Python" in unfit.stderr
    assert "requires Python >=3.99" in unfit.stderr


def test_a_lock_is_judged_by_its_very_versions(laboratory: Laboratory, tmp_path: Path) -> None:
    """Local versions differ, what nobody admits stays out, and a role is filled by what it has."""
    lock = tmp_path / "requirements.txt"

    def holds(text: str, *requested: str) -> bool:
        lock.write_text(text)
        return laboratory.run("resolve", *requested, "--contains", str(lock)).returncode == 0

    assert holds("built==1.0\n", "built")
    assert not holds("built==1.0\n", "built==1.0+mine")
    assert not holds("frame==2.0\nnum==2.0\ntool==0.9rc1\n", "frame")
    assert holds("num==1.0\n", "tool|num")
    assert holds("tool==1.0\n", "tool|num")
    assert holds("tool==1.0\nnum==1.0\n", "tool")  # what else the lock holds does no harm
    assert not holds("frame==2.0\nnum==2.0\n", "frame")


def test_passwords_in_addresses_are_not_printed(laboratory: Laboratory) -> None:
    address = f"https://bob:s3cret@{'example'}.invalid/frame-1.0-py3-none-any.whl"
    done = laboratory.run("resolve", f"frame @ {address}", "--count")
    assert done.returncode != 0
    assert "s3cret" not in done.stdout + done.stderr


def test_what_no_index_has_is_named_where_nothing_else_is_required(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    file = tmp_path / "local.txt"
    file.write_text("-e .\n")
    done = laboratory.run("resolve", "-r", str(file), "--count")
    assert done.returncode == 2
    assert "line 1: -e . is a project to be built" in done.stderr
    lock = tmp_path / "lock.txt"
    lock.write_text("frame==1.0\nnum==1.0\n")
    both = laboratory.run("resolve", "frame", "-r", str(file), "--contains", str(lock))
    assert (both.returncode, "left out: " in both.stderr) == (0, True)
