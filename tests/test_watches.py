"""Tables of what is watched, targets of notifications, metrics, and what the packages ship."""

import io
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from stackgen.errors import StackgenError, UsageError
from stackgen.indicators.families import DEFAULTS
from stackgen.model import toml
from stackgen.model.findings import FindingState, NightOutcome
from stackgen.nightly.metrics import export_metrics, metrics_text
from stackgen.nightly.watch import Watch, read_watches, watch_table
from stackgen.notify import NotificationError, check_address, notify, payload
from tests.in_process import run_command
from tests.receiver import Receiver, receiving
from tests.test_render import NIGHT

ROOT = Path(__file__).parents[1]
FINDING = NIGHT.findings[0]

WHOLE = """
[watch.training]
requirements = ["tensorflow>=2.16", "scipy"]
vary = ["NumPy"]
bases = ["bookworm-py311", "3.12"]
pi = ["matmul", "own.py"]
budget = "90m"
margin = "1%"
notify = ["slack:env:HOOK", "github-issue:issues", "webhook:file:hook"]
metrics = ["file:metrics", "push:http://127.0.0.1:9091"]
kb = "team.db"
"""


def test_a_table_says_everything_about_a_night(tmp_path: Path) -> None:
    (found,) = read_watches(toml.loads(WHOLE), tmp_path / "stackgen.toml")
    assert found.packages == ("tensorflow", "scipy", "numpy")
    assert found.specifiers == {"tensorflow": ">=2.16", "scipy": "", "numpy": ""}
    assert (found.budget_s, found.margin, found.detect) == (5400.0, 0.01, 0.05)
    assert found.indicators == ("matmul", str(tmp_path / "own.py"))
    assert found.kb == tmp_path / "team.db"
    own = (f"github-issue:{tmp_path / 'issues'}", f"webhook:file:{tmp_path / 'hook'}")
    assert found.notify == ("slack:env:HOOK", *own)
    assert found.metrics == (f"file:{tmp_path / 'metrics'}", "push:http://127.0.0.1:9091")


def test_a_written_table_is_read_as_it_was() -> None:
    watch = Watch(
        name="a.b", requirements=('x>="1"',), vary=("y",), bases=("3.12",), budget_s=5400.0
    )
    with pytest.raises(StackgenError):
        read_watches(toml.loads(watch_table(watch)), None)
    fine = replace(watch, requirements=("x>=1",))
    assert read_watches(toml.loads(watch_table(fine)), None) == (fine,)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "requires nothing"),
        ('requirements = "x"\nbudgte = "1h"', "no key budgte"),
        ("requirements = [1]", "list of texts"),
        ('requirements = "x"\nbudget = "soon"', "cannot read the budget"),
        ('requirements = "x>>1"', "x>>1"),
        ('requirements = "x"\nnotify = "https://example.org/secret"', "secrets"),
        ('requirements = "x"\nmetrics = "stdout"', "go nowhere"),
        ('requirements = "x"\nexecutor = "vm"', "vm"),
        ('requirements = "x"\nexpire-days = 0', "from 1"),
        ('requirements = "x"\ncommand = ["a"]', "is a text"),
    ],
)
def test_a_table_that_cannot_be_used_says_why(line: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_watches(toml.loads(f"[watch.w]\n{line}\n"), None)
    assert problem in str(caught.value)
    assert caught.value.what == "cannot use [watch.w] of the configuration"


def test_other_commands_do_not_mind_what_is_watched(tmp_path: Path) -> None:
    (tmp_path / "stackgen.toml").write_text(f"{WHOLE}\n[explore]\nbudget = '5m'\n")
    found = run_command("config", "explore", folder=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "5m" in found.stdout or "300" in found.stdout


def test_init_without_answers_says_how_to_do_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    (tmp_path / "requirements.txt").write_text("numpy==2.2.6\n", encoding="utf-8")
    refused = run_command("init", folder=tmp_path)
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    assert not (tmp_path / "stackgen.toml").exists()


def test_init_takes_what_a_lock_has_and_writes_no_watch_twice(tmp_path: Path) -> None:
    refused = run_command("init", "--yes", folder=tmp_path)
    assert (refused.returncode, "nothing to watch" in refused.stderr) == (2, True)
    (tmp_path / "requirements.txt").write_text("numpy==2.3.5\ntorch==2.9.0\nidna==3.7\n")
    (tmp_path / "stackgen.toml").write_text('[explore]\nbudget = "5m"\n')
    (tmp_path / "stackgen.toml").chmod(0o600)  # addresses of notifications are secrets
    done = run_command("init", "--yes", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "stackgen.toml").stat().st_mode & 0o777 == 0o600
    values = toml.loads((tmp_path / "stackgen.toml").read_text())
    assert values["explore"] == {"budget": "5m"}
    (found,) = read_watches(values, None)
    assert (found.requirements, found.vary) == (("torch",), ("numpy",))
    assert found.indicators == (*DEFAULTS["torch"], "numpy/ufunc", "numpy/sort")
    again = run_command("init", "--yes", folder=tmp_path)
    assert (again.returncode, "has a watch nightly" in again.stderr) == (2, True)


def test_init_takes_requirements_and_asks_nothing_about_them(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==2.9.0\n")
    done = run_command("init", "numpy", "tensorflow>=2.16", "--yes", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (found,) = read_watches(toml.loads((tmp_path / "stackgen.toml").read_text()), None)
    assert (found.requirements, found.vary) == (("numpy", "tensorflow>=2.16"), ())
    assert found.indicators[:3] == DEFAULTS["tensorflow"]
    refused = run_command("init", "numpy >= >", "--yes", "--name", "other", folder=tmp_path)
    assert refused.returncode == 2
    assert "other" not in (tmp_path / "stackgen.toml").read_text()


@pytest.mark.parametrize("text", ['watch = ["numpy"]\n', '[[watch]]\nname = "a"\n'])
def test_what_is_watched_has_to_be_a_table(tmp_path: Path, text: str) -> None:
    (tmp_path / "stackgen.toml").write_text(text)
    found = run_command("nightly", "--check", folder=tmp_path)
    assert (found.returncode, "each watch is a table" in found.stderr) == (2, True)


def test_nothing_is_watched_without_a_table(tmp_path: Path) -> None:
    found = run_command("nightly", folder=tmp_path)
    assert (found.returncode, "nothing is watched" in found.stderr) == (2, True)
    (tmp_path / "stackgen.toml").write_text(WHOLE)
    found = run_command("nightly", "--watch", "other", folder=tmp_path)
    assert (found.returncode, "has training" in found.stderr) == (2, True)


# Notifications


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.mark.parametrize(
    ("statuses", "requests", "delivered"),
    [([], 1, True), ([503, 429], 3, True), ([503, 503, 503], 3, False), ([403], 1, False)],
)
def test_a_message_is_tried_three_times_where_that_may_help(
    receiver: Receiver, statuses: list[int], requests: int, delivered: bool
) -> None:
    receiver.statuses = list(statuses)
    environ = {"HOOK": receiver.url}
    pauses: list[float] = []
    if delivered:
        notify("webhook:env:HOOK", FINDING, environ, sleep=pauses.append)
    else:
        with pytest.raises(NotificationError) as caught:
            notify("webhook:env:HOOK", FINDING, environ, sleep=pauses.append)
        assert "secret" not in str(caught.value)
    assert (len(receiver.received), len(pauses)) == (requests, requests - 1)
    _, _, headers, body = receiver.received[-1]
    assert headers["Idempotency-Key"] == FINDING.id
    assert json.loads(body) == json.loads(json.dumps(payload(FINDING)))
    assert json.loads(body)["changes"] == [["numpy", "2.3.5", "2.4.0"]]


def test_chats_get_text_and_forges_get_markdown(receiver: Receiver, tmp_path: Path) -> None:
    secret = tmp_path / "hook"
    secret.write_text(f"{receiver.url}\n")
    notify(f"slack:file:{secret}", FINDING, {})
    text = json.loads(receiver.received[0][3])["text"]
    assert FINDING.title in text
    assert FINDING.command in text
    notify("github-summary", FINDING, {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")})
    notify(f"github-issue:{tmp_path}", FINDING, {})
    issue = (tmp_path / f"finding-{FINDING.id}.md").read_text()
    assert issue.startswith(f"# {FINDING.title}\n")
    assert "| numpy | 2.3.5 | 2.4.0 |" in issue
    assert FINDING.title in (tmp_path / "summary.md").read_text()


def test_an_address_that_is_not_there_is_refused_before_a_night(tmp_path: Path) -> None:
    for target in ("slack:env:HOOK", f"webhook:file:{tmp_path / 'none'}", "github-summary"):
        with pytest.raises(UsageError):
            check_address(target, {})
    with pytest.raises(UsageError, match="holds no address"):
        check_address("slack:env:HOOK", {"HOOK": "ftp://x"})


# Metrics, alerts, dashboard, schedules

NIGHTS = [
    replace(NIGHT, open_findings=(FindingState(finding=FINDING),), seconds=212.0, budget_s=7200.0),
    replace(NIGHT, base='odd "base"\\', outcome=NightOutcome.COULD_NOT_RUN, findings=()),
]


def names(text: str) -> set[str]:
    return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}


def test_metrics_are_those_of_the_nights(receiver: Receiver, tmp_path: Path) -> None:
    export_metrics(f"file:{tmp_path}", "training", NIGHTS)
    text = (tmp_path / "stackgen-training.prom").read_text()
    own = '{watch="training",base="docker bookworm-py311"'
    assert f"stackgen_night_duration_seconds{own}}} 212\n" in text
    assert f'stackgen_findings_open{own},kind="slower"}} 1\n' in text
    assert f'stackgen_night_outcome{own},outcome="findings"}} 1\n' in text
    assert 'base="odd \\"base\\"\\\\"' in text
    export_metrics(f"push:{receiver.url}", "training", NIGHTS)
    method, path, _, body = receiver.received[0]
    assert (method, body.decode()) == ("PUT", text)
    assert path.endswith("/metrics/job/stackgen/watch/training")
    with pytest.raises(UsageError):
        export_metrics(f"file:{tmp_path / 'none'}", "training", NIGHTS)


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_promtool_accepts_metrics_and_alerts() -> None:
    lint = subprocess.run(
        ["promtool", "check", "metrics"],
        input=metrics_text(NIGHTS), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert lint.returncode == 0, lint.stdout + lint.stderr
    rules = subprocess.run(
        ["promtool", "test", "rules", "alerts-test.yml"],
        cwd=ROOT / "packaging" / "prometheus", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert rules.returncode == 0, rules.stdout + rules.stderr


def test_alerts_and_dashboard_use_metrics_that_exist() -> None:
    known = names(metrics_text(NIGHTS))
    alerts = (ROOT / "packaging/prometheus/alerts.yml").read_text()
    dashboard = json.loads((ROOT / "packaging/grafana/nightly.json").read_text())
    expressions = [t["expr"] for panel in dashboard["panels"] for t in panel.get("targets", ())]
    assert len(expressions) >= 4
    used = set(re.findall(r"\bstackgen_\w+", " ".join([alerts, *expressions])))
    assert used
    assert used <= known


def is_within(part: Any, whole: Any) -> bool:
    """Return whether all of one JSON value is in another; objects of that may have more keys."""
    if isinstance(part, dict):
        return all(key in whole and is_within(value, whole[key]) for key, value in part.items())
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(is_within, part, whole))
    return bool(part == whole)


def test_grafana_knows_every_key_of_the_dashboard() -> None:
    reason = "grafana-foundation-sdk needs Python 3.11"
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard", reason=reason)
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins

    register_default_plugins()
    raw = json.loads((ROOT / "packaging/grafana/nightly.json").read_text())
    read = models.Dashboard.from_json(raw)
    assert {each["type"] for each in raw["panels"]} <= {"stat", "table", "timeseries"}
    assert is_within(raw, json.loads(JSONEncoder().encode(read)))
    raw["panels"][0]["targets"][0]["expression"] = "up"
    assert not is_within(raw, json.loads(JSONEncoder().encode(models.Dashboard.from_json(raw))))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    command = tmp_path / "stackgen"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    for unit in (ROOT / "packaging/systemd").iterdir():
        text = unit.read_text().replace("/usr/local/bin/stackgen", str(command))
        (tmp_path / unit.name).write_text(text)
    found = subprocess.run(
        ["systemd-analyze", "verify", *map(str, sorted(tmp_path.glob("stackgen-nightly.*")))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    complaints = [line for line in found.stderr.splitlines() if "stackgen-nightly" in line]
    assert (found.returncode, complaints) == (0, []), found.stderr


def test_the_workflow_runs_the_command() -> None:
    flow: dict[str, Any] = yaml.safe_load((ROOT / "packaging/github/nightly.yml").read_text())
    steps = flow["jobs"]["nightly"]["steps"]
    assert any("stackgen nightly" in step.get("run", "") for step in steps)
