"""Metrics of real nights in real servers: Prometheus, its push gateway, and Alertmanager."""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from stackgen.model.findings import FindingState
from stackgen.nightly.metrics import export_metrics
from stackgen.nightly.store import open_store
from stackgen.storage.paths import find_paths
from tests.in_process import run_command
from tests.laboratory import Laboratory
from tests.receiver import Receiver, receiving
from tests.test_nightly_journey import INDICATOR, Release, plant
from tests.test_render import NIGHT
from tests.tiny_index import serving

SERVERS = ("prometheus", "prometheus-pushgateway", "prometheus-alertmanager")
PACKAGING = Path(__file__).parents[1] / "packaging"
DASHBOARD: Any = json.loads((PACKAGING / "grafana/nightly.json").read_text())
ANSWERS_S = 30.0
CONFIG = """
[watch.pushed]
requirements = ["speedy"]
executor = "virtualenv"
pi = ["work.py"]
metrics = ["push:{gateway}", "file:."]
"""

pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.skipif(
        not all(map(shutil.which, SERVERS)), reason=f"not installed: {', '.join(SERVERS)}"
    ),
]


def eventually(found: Callable[[], Any]) -> Any:
    """Return the first answer that is true, of one question again and again."""
    ends = time.monotonic() + ANSWERS_S
    while time.monotonic() < ends:
        try:
            if answer := found():
                return answer
        except httpx.TransportError:  # it has only just started
            pass
        time.sleep(0.1)
    pytest.fail(f"no answer within {ANSWERS_S:.0f} s")


@dataclass(frozen=True)
class Site:
    """Servers on loopback, and an installation of stackgen whose nights they watch."""

    prometheus: str
    gateway: str
    receiver: Receiver
    laboratory: Laboratory

    def query(self, expression: str) -> Any:
        url, parameters = f"{self.prometheus}/api/v1/query", {"query": expression}
        answer = httpx.get(url, params=parameters).json()
        assert answer["status"] == "success", answer
        return answer["data"]["result"]

    def alerts(self, status: str) -> set[tuple[str, str]]:
        """Return the names and watches of alerts that the receiver got with a status."""
        messages = (json.loads(body) for *_, body in list(self.receiver.received))
        alerts = [each for message in messages for each in message["alerts"]]
        last = {(e["labels"]["alertname"], e["labels"].get("watch", "")): e for e in alerts}
        return {key for key, each in last.items() if each["status"] == status}

    def night(self, **variables: str) -> Any:
        environ = {**self.laboratory.environ, **variables}
        folder = self.laboratory.root
        done = run_command("nightly", "--json", folder=folder, environ=environ)
        assert "error" not in done.stderr, done.stderr
        return json.loads(done.stdout)["nights"][0]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def server(
    folder: Path, port: int, program: str, ready: str = "/-/ready", **flags: str
) -> Iterator[str]:
    """Run a server on a port until the block ends; yield its address."""
    address = f"127.0.0.1:{port}"
    words = [program, f"--web.listen-address={address}"]
    words += [
        f"--{key.replace('__', '.').replace('_', '-')}={value}" for key, value in flags.items()
    ]
    with (folder / f"{program}.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder)
        try:
            url = f"http://{address}"
            eventually(lambda: httpx.get(f"{url}{ready}").status_code == 200)
            yield url
        finally:
            process.terminate()
            process.wait(timeout=20)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    ports = {name: free_port() for name in SERVERS}
    address = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    with ExitStack() as stack:
        receiver, index = stack.enter_context(receiving()), stack.enter_context(serving())
        hook = {"url": receiver.url, "send_resolved": True}
        route = {
            "receiver": "hook",
            "group_by": ["..."],
            "group_wait": "0s",
            "group_interval": "1s",
        }
        settings = {"route": route, "receivers": [{"name": "hook", "webhook_configs": [hook]}]}
        (folder / "alertmanager.yml").write_text(yaml.safe_dump(settings))
        scraped = {"targets": [address["prometheus-pushgateway"]]}
        job = {"job_name": "gateway", "honor_labels": True, "static_configs": [scraped]}
        managers = [{"static_configs": [{"targets": [address["prometheus-alertmanager"]]}]}]
        settings = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(PACKAGING / "prometheus/alerts.yml")],
            "scrape_configs": [job],
            "alerting": {"alertmanagers": managers},
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))

        def start(program: str, **flags: str) -> str:
            return stack.enter_context(server(folder, ports[program], program, **flags))

        gateway = start("prometheus-pushgateway", persistence__file="")
        files = {"config__file": "alertmanager.yml", "storage__path": "alerts"}
        start("prometheus-alertmanager", cluster__listen_address="", **files)
        files = {"config__file": "prometheus.yml", "storage__tsdb__path": "series"}
        prometheus = start("prometheus", **files)
        (folder / "work.py").write_text(INDICATOR)
        (folder / "stackgen.toml").write_text(CONFIG.format(gateway=gateway))
        plant(index, "speedy", {"1.0": Release()})
        plant(index, "helper", {"1.0": Release()})
        laboratory = Laboratory(root=folder, index=index.simple)
        yield Site(prometheus, gateway, receiver, laboratory)


def test_alerts_of_nights_reach_the_receiver_and_end(site: Site) -> None:
    assert site.night()["outcome"] == "nothing new"
    (series,) = eventually(lambda: site.query("stackgen_night_timestamp_seconds"))
    assert (series["metric"]["job"], series["metric"]["watch"]) == ("stackgen", "pushed")
    finding = replace(NIGHT.findings[0], watch="pushed", base=series["metric"]["base"])
    store = open_store(find_paths(site.laboratory.environ))
    finding = replace(finding, found_at=store.moment)
    store.put(FindingState(finding=finding))
    assert len(site.night()["open_findings"]) == 1
    eventually(lambda: ("StackgenRegression", "pushed") in site.alerts("firing"))

    config = site.laboratory.root / "stackgen.toml"
    usual = config.read_text()
    config.write_text(usual.replace("virtualenv", "docker"))
    engine = f"tcp://127.0.0.1:{free_port()}"
    assert site.night(DOCKER_HOST=engine)["outcome"] == "could not run"
    config.write_text(usual)
    eventually(lambda: ("StackgenNightCouldNotRun", "pushed") in site.alerts("firing"))
    # A night that could not run mends nothing.
    assert ("StackgenRegression", "pushed") in site.alerts("firing")
    assert site.laboratory.run("findings", "ack", finding.id).returncode == 0
    assert site.night()["outcome"] == "nothing new"
    ended = {("StackgenRegression", "pushed"), ("StackgenNightCouldNotRun", "pushed")}
    eventually(lambda: ended <= site.alerts("resolved"))
    assert not site.alerts("firing")


def test_a_watch_without_nights_is_an_alert(site: Site) -> None:
    export_metrics(f"push:{site.gateway}", "old", [replace(NIGHT, watch="old")])
    eventually(lambda: ("StackgenNightMissing", "old") in site.alerts("firing"))


def test_every_expression_of_the_dashboard_has_data(site: Site) -> None:
    open_findings = (FindingState(finding=NIGHT.findings[0]),)
    night = replace(NIGHT, watch="shown", open_findings=open_findings)
    export_metrics(f"push:{site.gateway}", "shown", [night])
    eventually(lambda: site.query('stackgen_night_timestamp_seconds{watch="shown"}'))
    expressions = [t["expr"] for panel in DASHBOARD["panels"] for t in panel["targets"]]
    for each in expressions:
        (first, *_) = site.query(each.replace("$watch", "shown"))
        assert float(first["value"][1]) >= 0, each
    url = f"{site.prometheus}/api/v1/label/watch/values"
    parameters = {"match[]": "stackgen_night_timestamp_seconds"}
    assert "shown" in httpx.get(url, params=parameters).json()["data"]


def test_node_exporter_reads_what_a_night_writes(tmp_path: Path) -> None:
    program = "prometheus-node-exporter"
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    folder = tmp_path / "textfiles"
    folder.mkdir()
    export_metrics(f"file:{folder}", "written", [NIGHT])
    options = {"collector__textfile__directory": str(folder)}
    with server(tmp_path, free_port(), program, "/", **options) as url:
        text = httpx.get(f"{url}/metrics").text
    assert "node_textfile_scrape_error 0" in text
    assert "stackgen_night_duration_seconds{" in text
