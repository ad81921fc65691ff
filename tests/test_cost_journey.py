"""What it costs, on how many CPUs, and whether programs write the same: end to end."""

import json
from pathlib import Path

import pytest

from stackgen.campaign.indicators import usable_cpus
from stackgen.knowledge.database import open_database
from tests.laboratory import INDICATOR, WORK, Laboratory
from tests.local_index import Published, publish

pytestmark = pytest.mark.journey

COUNTS = sorted({1, min(2, len(usable_cpus()))})


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    sources = {"1.0": ("b 1.25\n", 40), "2.0": ("a 1.25\n", 20), "3.0": ("a 1.5\n", 10)}
    releases = {
        version: Published(source=f"{WORK.format(size=1000 * size)}TEXT = {text!r}\n")
        for version, (text, size) in {"4.0": ("a 1.25\n", 40), **sources}.items()
    }
    index = publish(tmp_path, {"speedy": releases})
    (tmp_path / "work.py").write_text(INDICATOR.replace("checksum=", "items=8, checksum="))
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text(
        "import speedy\nopen('r.txt', 'w').write(speedy.TEXT)\n"
    )
    (tmp_path / "prices.toml").write_text('currency = "EUR"\n[per_hour]\n1 = 0.1\n2 = 0.15\n')
    return Laboratory(root=tmp_path, index=index)


@pytest.mark.slow
def test_everything_is_measured_on_each_number_of_cpus_and_priced(laboratory: Laboratory) -> None:
    cpus = ",".join(map(str, COUNTS))
    metered = ("--cpus", cpus, "--prices", "prices.toml")
    requested = ("speedy!=1.0,!=3.0", "--stacks", "2", "--budget", "25s", *metered)
    done = laboratory.explore(*requested, "--json")
    assert done.returncode in (0, 3, 6), done.stderr
    report = json.loads(done.stdout)
    assert [each["label"] for each in report["indicators"][:-1]] == [
        f"work threads={count}" for count in COUNTS
    ]
    assert {each["cpus"] for each in report["cost"]["by_cpus"]} == set(COUNTS)
    assert len(report["cost"]["by_cpus"]) == 2 * len(COUNTS) == len(report["cost"]["by_stack"])
    for cost in report["cost"]["by_stack"]:
        assert cost["items"] == 8
        price = {1: 0.1, 2: 0.15}
        assert cost["per_hour"] in price.values()
        expected = cost["seconds"] / 8 / 3600 * cost["per_hour"] * 1e6
        assert cost["per_million"] == pytest.approx(expected)
    with open_database(laboratory.kb) as database:
        seen = [each.observation for each in database.inspections() if each.block]
    used = {len(dict(each.circumstances)["cpus"].split(",")) for each in seen if each}
    assert used >= set(COUNTS)
    text = laboratory.explore(*requested).stdout
    assert "samples for 1 EUR" in text
    assert "work on several numbers of CPUs" in text


def test_programs_that_write_something_else_are_reported(laboratory: Laboratory) -> None:
    command = ("--pi-command", "python train.py", "--check", "r.txt", "--project", "project")
    # All take the same time: with so wide a margin that is decided after few blocks.
    limits = ("--executor", "virtualenv", "--stacks", "4", "--budget", "60s", "--margin", "40%")
    done = laboratory.run("explore", "speedy", *command, *limits, "--json")
    assert done.stdout, done.stderr
    found = {
        row["label"]: [(each["kind"], each["difference"]) for each in row["deviations"]]
        for row in json.loads(done.stdout)["ranking"]
    }
    assert found == {
        "speedy 4.0": [],
        "speedy 3.0": [("numerically different", pytest.approx(1 / 6))],
        "speedy 2.0": [],
        "speedy 1.0": [("different result", None)],
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--cpus", "two"), "cannot read the numbers of CPUs"),
        (("--cpus", "4096"), "cannot be measured on 4096 CPUs"),
        (("--cpus", "1", "--threads", "1"), "sets the number of threads"),
        (("--price-per-hour", "0"), "price of 0 per hour"),
        (("--price-per-hour", "1", "--prices", "prices.toml"), "two kinds of prices"),
        (("--prices", "none.toml"), "cannot read prices from none.toml"),
    ],
)
def test_prices_and_cpus_that_cannot_be_had_are_refused(
    laboratory: Laboratory, arguments: tuple[str, ...], message: str
) -> None:
    done = laboratory.explore("speedy", "--dry-run", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "fix:" in done.stderr
