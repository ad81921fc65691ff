"""Ten nights in a row on an index on loopback, with planted events; each is to be found on its own.

python -m benchmarks.live.nights FOLDER [--night N] [--budget 10m] [--calls 3] [--base 3.11]

FOLDER has everything: the index, the knowledge base, ``state.db``, caches, and the report of each
night (``night-N.json``). A night that was decided is not repeated: the same command goes on. Two
small packages compute with the real NumPy, whose wheel is taken from the configured index once and
then served on loopback. Nights are ``stackgen nightly`` itself, with the real clock. Each prints
what was planted, what was found, the cause, and whether that is right. Run it where nothing else
runs; it takes about half an hour.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.live.bench import opened
from stackgen.index.closure import resolve
from stackgen.model.progress import NullProgress
from stackgen.resolve.requirements import parse_requirements
from stackgen.storage.wheels import WheelStore
from tests.tiny_index import TinyIndex, make_wheel, serving, sha256

PORT = 8765
INDICATOR = """
import harness

INDICATOR = {
    "summary": "work", "component": "speedy", "unit": "", "one_shot": False, "timeout_s": 60,
    "parameters": {},
}

def setup(parameters):
    speedy = harness.load("speedy")
    return harness.Operation(speedy.work, checksum=speedy.total)

if __name__ == "__main__":
    harness.main(INDICATOR, setup)
"""
SPEEDY = """
{head}
import os
import numpy
import helper

MATRIX = numpy.random.default_rng(1).random(({size}, {size}))
KEPT = numpy.ones({kept} << 17)

def work():
    {body}
    for _ in range({products} + helper.products({together})):
        numpy.matmul(MATRIX, MATRIX)

def total():
    return float(numpy.matmul(MATRIX, MATRIX).sum()) * {factor}
"""
HELPER = """
def products(together):
    return {products} + ({joint} if together else 0)
"""
SIZE, SPEEDY_PRODUCTS, HELPER_PRODUCTS = 128, 20, 20
ELSEWHERE = "py3-none-win_amd64"


@dataclass(frozen=True, kw_only=True)
class Release:
    """A wheel as it is planted.

    more: products of matrices per operation, of 40, that it does beyond the first release.
    joint: those of helper that only come with a speedy that is ``together``.
    factor: of the numbers. megabytes: of a file that is installed, and of memory after the import.
    """

    more: int = 0
    joint: int = 0
    together: bool = False
    head: str = ""
    body: str = "pass"
    factor: float = 1.0
    megabytes: int = 0
    tag: str = "py3-none-any"
    yanked: bool = False

    def wheel(self, name: str, version: str) -> bytes:
        """Return its content."""
        if name == "helper":
            source = HELPER.format(products=HELPER_PRODUCTS + self.more, joint=self.joint)
        else:
            source = SPEEDY.format(
                head=self.head, size=SIZE, kept=self.megabytes, body=self.body,
                products=SPEEDY_PRODUCTS + self.more, together=self.together, factor=self.factor,
            )  # fmt: skip
        padding = random.Random(version).randbytes(self.megabytes << 20)
        members = {
            f"{name}.py": source.encode(),
            f"{name}_data.bin": padding,
            f"{name}-{version}.dist-info/WHEEL": f"Wheel-Version: 1.0\nTag: {self.tag}\n".encode(),
        }
        requires = ("helper", "numpy") if name == "speedy" else ()
        return make_wheel(name, version, requires=requires, members=members)


Found = tuple[str, str, str]
"""Package, version and kind of a finding."""
SLOW = Release(more=-2)
QUICK = Release(more=-4)


@dataclass(frozen=True, kw_only=True)
class Planted:
    """What happens at the index before a night, and what the night is to say.

    edits: by package and version. events: parts of what it states. cause: words of the attribution.
    """

    title: str
    edits: Mapping[tuple[str, str], Release] = field(default_factory=dict)
    found: frozenset[Found] = frozenset()
    events: Sequence[str] = ()
    cause: Sequence[str] = ()


def _found(*each: str) -> frozenset[Found]:
    triples = (text.split(" ", 2) for text in each)
    return frozenset((package, version, kind) for package, version, kind in triples)


NIGHTS = (
    Planted(
        title="first night",
        edits={("speedy", "1.0"): Release(), ("helper", "1.0"): Release()},
        events=("first night",),
    ),
    Planted(
        title="helper 1.1: 10 % faster; speedy 1.0.1: wheel for another platform",
        edits={
            ("helper", "1.1"): QUICK,
            ("speedy", "1.0.1"): Release(tag=ELSEWHERE),
        },
        found=_found("helper 1.1 faster"),
        events=("speedy 1.0.1: no wheel for this platform yet",),
    ),
    Planted(title="quiet", events=("persists: helper 1.1",)),
    Planted(
        title="speedy 1.1: import error",
        edits={("speedy", "1.1"): Release(head="import no_such_module")},
        found=_found("speedy 1.1 broken"),
    ),
    Planted(
        title="two releases: speedy 1.2 imports again, helper 1.2 makes it 5 % slower",
        edits={("speedy", "1.2"): Release(), ("helper", "1.2"): SLOW},
        found=_found("speedy 1.2 fixed again", "helper 1.2 slower"),
    ),
    Planted(
        title="helper 1.2 is yanked; speedy 1.3 crashes",
        edits={
            ("helper", "1.2"): replace(SLOW, yanked=True),
            ("speedy", "1.3"): Release(body="os.abort()"),
        },
        found=_found("speedy 1.3 broken"),
        events=("helper 1.2: yanked",),
    ),
    Planted(
        title="helper 1.2 is no longer yanked; speedy 1.4 does not crash",
        edits={("helper", "1.2"): SLOW, ("speedy", "1.4"): Release()},
        found=_found("helper 1.2 slower", "speedy 1.4 fixed again"),
        events=("helper 1.2: no longer yanked",),
    ),
    Planted(
        title="a wheel of speedy 1.0.1 appears, with wrong numbers; helper 1.3 is fast again",
        edits={("speedy", "1.0.1"): Release(factor=1.001), ("helper", "1.3"): QUICK},
        found=_found("speedy 1.0.1 numerically different", "helper 1.3 fixed again"),
        events=("speedy 1.0.1: released",),
    ),
    Planted(
        title="quiet; the index is half updated (helper 1.4 for another platform)",
        edits={("helper", "1.4"): replace(QUICK, tag=ELSEWHERE)},
        events=("helper 1.4: no wheel for this platform yet",),
    ),
    Planted(
        title="helper 1.4 and speedy 1.5: 10 % slower, only together",
        edits={
            ("helper", "1.4"): replace(QUICK, joint=4),
            ("speedy", "1.5"): Release(together=True),
        },
        found=_found("speedy 1.5 slower"),
        cause=("helper", "speedy", "together"),
    ),
    Planted(
        title="speedy 1.6: 24 MB larger, fast again",
        edits={("speedy", "1.6"): Release(megabytes=24)},
        found=_found("speedy 1.6 larger", "speedy 1.6 fixed again"),
    ),
)


@dataclass(frozen=True)
class World:
    """A folder with an index, and the command that is tested.

    numpy: its wheel.
    """

    folder: Path
    index: TinyIndex
    numpy: Path

    def plant(self, night: int) -> None:
        """Serve what there is on a night."""
        packages: dict[str, dict[str, Release]] = {}
        for each in NIGHTS[: night + 1]:
            for (name, version), release in each.edits.items():
                packages.setdefault(name, {})[version] = release
        for name, releases in packages.items():
            wheels = {
                f"{name}-{version}-{each.tag}.whl": (each.wheel(name, version), each.yanked)
                for version, each in releases.items()
            }
            self._page(name, wheels)
        self._page("numpy", {self.numpy.name: (self.numpy.read_bytes(), False)})

    def _page(self, name: str, wheels: Mapping[str, tuple[bytes, bool]]) -> None:
        lines = ["<!DOCTYPE html>"]
        for filename, (content, yanked) in wheels.items():
            self.index.files[f"/files/{filename}"] = content
            mark = ' data-yanked="broken"' if yanked else ""
            link = f"../../files/{filename}#sha256={sha256(content)}"
            lines.append(f'<a href="{link}"{mark}>{filename}</a>')
        page = f"/simple/{name}/"
        self.index.files[page] = "\n".join(lines).encode()
        self.index.types[page] = "text/html"
        self.index.headers[page] = {"ETag": f'"{sha256(self.index.files[page])[:16]}"'}

    def nightly(self) -> Any:
        """Run the command; return what it reports of its only watch."""
        environ = {
            **{key: value for key, value in os.environ.items() if not key.startswith("PIP_")},
            "HOME": str(self.folder),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": self.index.simple,
            "STACKGEN_CACHE": str(self.folder / "cache"),
            "STACKGEN_KB": str(self.folder / "kb.db"),
            "STACKGEN_SEED": "",
        }
        done = subprocess.run(
            [sys.executable, "-m", "stackgen", "nightly", "--json"],
            cwd=self.folder, env=environ, stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        try:
            (night,) = json.loads(done.stdout)["nights"]
        except ValueError:
            raise SystemExit(f"stackgen nightly ended with {done.returncode}") from None
        return night


def numpy_wheel(base: str) -> Path:
    """Return the newest NumPy of the configured index, downloaded by stackgen itself."""
    with opened(base) as bench:
        wanted = parse_requirements("numpy")
        target = bench.backend.base.target
        lock = resolve(bench.index, wanted, target, progress=NullProgress()).newest()
        if lock is None:
            raise SystemExit("the configured index has no NumPy for this Python")
        wheels = WheelStore(bench.paths.cache).fetch(lock.artifacts, downloader=bench.index)
    (wheel,) = wheels.values()
    return Path(wheel)


def found_by(night: Any) -> frozenset[Found]:
    """Return the findings of a night."""
    return frozenset((e["package"], e["version"], e["kind"]) for e in night["findings"])


def verdict(planted: Planted, night: Any, late: frozenset[Found]) -> str:
    """Return whether a night says what was planted, "undecided" where it says too little yet.

    late: what earlier nights were to find and left undecided.
    """
    found = found_by(night)
    if surplus := found - planted.found - late:
        return f"wrong: {sorted(surplus)}"
    missing = [each for each in planted.events if each not in "\n".join(night["events"])]
    causes = " ".join((e["attribution"] or {}).get("answer", "") for e in night["findings"])
    missing += [each for each in planted.cause if each not in causes]
    missing += [" ".join(each) for each in sorted(planted.found - found)]
    if night["error"] or night["undecided"]:
        return f"undecided: {'; '.join([night['error'], *night['undecided']]).strip('; ')}"
    if missing:
        return f"wrong: not stated: {missing}"
    return f"right; late: {sorted(found & late)}" if found & late else "right"


def run_night(world: World, number: int, calls: int, late: frozenset[Found]) -> Any:
    """Run a night, and where it is not decided again, as the next one would go on."""
    planted = NIGHTS[number]
    path = world.folder / f"night-{number}.json"
    night: Any = {"calls": 0, "verdict": "undecided"}
    if path.exists():
        night = json.loads(path.read_text())
    world.plant(number)
    for _ in range(calls):
        if not night["verdict"].startswith("undecided"):
            break
        found = world.nightly()
        for key in ("events", "findings", "examined"):
            found[key] = [*night.get(key, ()), *found[key]]
        found["seconds"] += night.get("seconds", 0.0)
        found |= {"calls": night["calls"] + 1, "verdict": verdict(planted, found, late)}
        night = found
        path.write_text(json.dumps(night, indent=1))
    return night


def reported(number: int, night: Any) -> str:
    """Return a row of the table."""
    findings = [f"{e['package']} {e['version']} {e['kind']}" for e in night["findings"]]
    ratios = [f"{e['ratio']:.3f}" for e in night["findings"] if e["ratio"]]
    causes = [e["attribution"]["answer"] for e in night["findings"] if e["attribution"]]
    took = f"{night['seconds']:.0f} s, {night['calls']} call{'s' * (night['calls'] > 1)}"
    cells = [
        str(number), NIGHTS[number].title, ", ".join(findings) or "-", " ".join(ratios) or "-",
        "; ".join(causes) or "-", took, night["verdict"],
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Run the nights, and print what each found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--night", type=int, help="the last one that is run")
    parser.add_argument("--budget", default="10m", help="of a night")
    parser.add_argument("--calls", type=int, default=3, help="of a night that is not decided")
    parser.add_argument("--base", default="3.11")
    options = parser.parse_args()
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    numpy = numpy_wheel(options.base)
    (folder / "work.py").write_text(INDICATOR)
    (folder / "stackgen.toml").write_text(
        '[watch.planted]\nrequirements = ["speedy"]\nvary = ["helper"]\nexecutor = "virtualenv"\n'
        f'bases = ["{options.base}"]\npi = ["work.py"]\nbudget = "{options.budget}"\n'
    )
    last = len(NIGHTS) - 1 if options.night is None else options.night
    print("| night | planted | findings | ratio | cause | took | verdict |")
    print(f"|{'---|' * 7}")
    wrong, late = 0, frozenset[Found]()
    with serving(PORT) as index:
        for number in range(last + 1):
            night = run_night(World(folder, index, numpy), number, options.calls, late)
            print(reported(number, night), flush=True)
            late = (late | NIGHTS[number].found) - found_by(night)
            wrong += night["verdict"] != "right"
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
