"""Import, merge, size and advice of a synthetic knowledge base.

python -m benchmarks.knowledge_base [N] [--folder DIR]

It writes N inspections (20,000 by default; 10,000 stacks for a million) as two exports, imports
each into a knowledge base, merges the two, derives what ``stackgen advise`` rests on, and runs that
command for a lock that is known and for one that is not. It needs about 4 kB of disk for each
inspection. With a folder each step that was done is left out, so that it can be stopped and go on;
a million takes about 15 minutes of CPU time.
"""

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stackgen.executors.machine import this_machine
from stackgen.knowledge import rows
from stackgen.knowledge.database import open_database
from stackgen.knowledge.exchange import FORMAT, FORMAT_VERSION
from stackgen.knowledge.loading import prepare
from stackgen.model.evidence import CampaignIdentity
from stackgen.model.identity import ID_SCHEME, canonical_json, content_id
from stackgen.model.inspections import (
    Indicator,
    IndicatorCall,
    Inspection,
    LoadedDistribution,
    Observation,
    Outcome,
    Role,
)
from stackgen.model.packages import Artifact, Lock
from stackgen.model.stacks import BaseFacts, Machine, Stack

BLOCKS, CANDIDATES, PACKAGES, SAMPLES = 10, 8, 30, 30
PER_CAMPAIGN = BLOCKS * (CANDIDATES + 2)
STARTED = "2026-01-01T00:00:00.000+00:00"


def stack(number: int) -> Stack:
    """Return a stack that differs from others in two packages."""
    versions = {f"package{n:02}": "1.0" for n in range(PACKAGES)}
    versions |= {"numpy": f"1.{number % 100}", "framework": f"2.{number // 100}"}
    found = tuple(
        Artifact(
            name=name,
            version=version,
            filename=f"{name}-{version}-cp311-cp311-manylinux_2_28_x86_64.whl",
            sha256=content_id("wheel", [name, version]),
            url="",
            index="",
        )
        for name, version in sorted(versions.items())
    )
    base = BaseFacts(
        python="CPython 3.11.2", python_build="gcc", libc="glibc 2.36", distribution="debian 12"
    )
    return Stack(lock=Lock(artifacts=found), facts=base)


MACHINE = Machine(identity=(("cpu_name", "synthetic"),))
CALL = IndicatorCall(
    indicator=Indicator(
        name="numpy/matmul", component="numpy", summary="a product", sha256="1f", path=""
    ),
    arguments=(("size", "256"),),
)


def campaign(number: int) -> CampaignIdentity:
    """Return one of many campaigns."""
    return CampaignIdentity(
        kind="explore", request="{}", seed=number, machine_id=MACHINE.id, stackgen_version="0"
    )


def inspections(number: int, stacks: list[Stack]) -> Iterator[Inspection]:
    """Yield a campaign's inspections: baseline, twin and candidates, block by block."""
    draw = random.Random(number)
    own = [stacks[0], stacks[0], *draw.sample(stacks[1:], CANDIDATES)]
    shared = (("blas", "openblas 0.3.30"), ("env OMP_NUM_THREADS", "1"), ("python", "3.11.7"))
    for block in range(1, BLOCKS + 1):
        for position, each in enumerate(own):
            best = 0.1 * draw.lognormvariate(0, 0.02)
            role = (Role.BASELINE, Role.TWIN)[position] if position < 2 else Role.CANDIDATE
            measured = (("load", f"{draw.random():.2f} 1.75 1.17"), ("wall_s", f"{best:.6f}"))
            loaded = each.lock.artifacts
            yield Inspection(
                stack_id=each.id,
                machine_id=MACHINE.id,
                indicator_id=CALL.id,
                campaign_id=campaign(number).id,
                block=block,
                position=position,
                role=role,
                outcome=Outcome.OK,
                started_at=STARTED,
                duration_s=draw.random(),
                observation=Observation(
                    values_s=tuple(best * (1 + draw.random()) for _ in range(SAMPLES)),
                    loops=4,
                    checksum=0.25,
                    circumstances=tuple(sorted(shared + measured)),
                    loaded=tuple(
                        LoadedDistribution(name=a.name, version=a.version, compiled=True)
                        for a in loaded[:5]
                    ),
                ),
            )


def write_export(path: Path, campaigns: range, stacks: list[Stack], origin: str) -> int:
    """Write an export with these campaigns, line by line; return how many inspections it has."""
    count, written = 0, 0
    with path.open("w") as file:

        def line(table: str, row: dict[str, object]) -> None:
            nonlocal written
            file.write(canonical_json({"table": table, "origins": [origin], **row}) + "\n")
            written += 1

        header = {"format": FORMAT, "format_version": FORMAT_VERSION, "id_scheme": ID_SCHEME}
        file.write(canonical_json({**header, "public": False}) + "\n")
        artifacts = {(a.name, a.version): a for s in stacks for a in s.lock.artifacts}
        for artifact in artifacts.values():
            line("artifacts", dict(rows.artifact_row(artifact)))
        for each in stacks:
            pins = [[a.name, a.version, a.sha256] for a in each.lock.artifacts]
            line("locks", {"id": each.lock.id, "artifacts": pins})
        for each in stacks:
            line("stacks", decoded(rows.stack_row(each)))
        line("machines", decoded(rows.machine_row(MACHINE)))
        line("indicators", decoded(rows.call_row(CALL)))
        for number in campaigns:
            line("campaigns", dict(rows.campaign_row(campaign(number), STARTED)))
        sets = {}
        for each in stacks:
            loaded: list[object] = [[a.name, a.version, 1] for a in each.lock.artifacts[:5]]
            members = tuple(
                LoadedDistribution(name=a.name, version=a.version, compiled=True)
                for a in each.lock.artifacts[:5]
            )
            sets[rows.load_set_id(members)] = loaded
        for name, loaded in sets.items():
            line("load_sets", {"id": name, "members": loaded})
        for number in campaigns:
            for one in inspections(number, stacks):
                row = rows.inspection_row(one)
                seen = one.observation
                assert seen is not None
                document: dict[str, object] = {
                    k: v for k, v in row.items() if v is not None and k not in _INTERNAL
                }
                document |= {"values_s": seen.values_s, "circumstances": seen.circumstances}
                line("inspections", {**document, "unenforced": []})
                count += 1
        file.write(canonical_json({"table": "end", "rows": written}) + "\n")
    return count


_INTERNAL = ("environment", "measured", "best_s", "values_s")


def decoded(row: rows.Row) -> dict[str, object]:
    """Return a row with JSON texts decoded."""
    names = ("system_packages", "settings", "identity", "circumstances", "parameters", "arguments")
    return {k: json.loads(str(v)) if k in names else v for k, v in row.items()}


def main() -> None:
    """Print each figure beside its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("count", nargs="?", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, help="that is left in place, to go on")
    options = parser.parse_args()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        run(options.count, options.folder)
    else:
        with tempfile.TemporaryDirectory(prefix="stackgen-kb-") as folder:
            run(options.count, Path(folder))


def run(count: int, folder: Path) -> None:
    """Do each step that was not done in a folder."""
    campaigns = max(2, count // PER_CAMPAIGN)
    stacks = [stack(number) for number in range(max(20, count // 100))]
    halves = [folder / "0" / "kb.db", folder / "1" / "kb.db"]
    for half, path in enumerate(halves):
        with step(folder, f"import {half}") as timing:
            if timing is not None:
                numbers = range(half * campaigns // 2, (half + 1) * campaigns // 2)
                _import(folder / f"{half}.jsonl", numbers, stacks, path, timing)
    with step(folder, "merge") as timing:
        if timing is not None:
            with open_database(halves[0]) as database:
                timing.begin()
                database.merge(halves[1])
            timing.end("merge of two halves (limit 300 s)")
            shutil.rmtree(halves[1].parent)
    with open_database(halves[0]) as database:
        size = database.stats().file_bytes
        each = size / campaigns / PER_CAMPAIGN
        print(f"file: {size / 1e6:,.0f} MB, {each:,.0f} bytes each (limit 2,000 MB for a million)")
    with step(folder, "derive") as timing:
        if timing is not None:
            with open_database(halves[0]) as database:
                timing.begin()
                prepare(database, this_machine())
            timing.end(f"contrasts of {campaigns:,} campaigns derived and outlined, once")
    for name, chosen in (("known", stacks[1]), ("unknown", stack(10**6))):
        _advise(name, chosen, folder, halves[0])


@dataclass
class Timing:
    """How long a step takes."""

    wall_s: float = 0.0
    cpu_s: float = 0.0

    def begin(self) -> None:
        """Start the clocks."""
        self.wall_s, self.cpu_s = time.perf_counter(), time.process_time()

    def end(self, what: str) -> None:
        """Stop them, and print a line."""
        self.wall_s = time.perf_counter() - self.wall_s
        self.cpu_s = time.process_time() - self.cpu_s
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        cpu = f"{self.cpu_s:.0f} s of CPU time"
        print(f"{what}: {self.wall_s:.0f} s, {cpu}, {memory:,.0f} MB", flush=True)


@contextmanager
def step(folder: Path, name: str) -> Iterator[Timing | None]:
    """Return a clock for a step; None where it was done."""
    done = folder / f"{name}.done"
    if done.exists():
        yield None
        return
    yield Timing()
    done.touch()


def _import(export: Path, numbers: range, stacks: list[Stack], path: Path, timing: Timing) -> None:
    found = write_export(export, numbers, stacks, f"{int(export.stem) + 1:032x}")
    shutil.rmtree(path.parent, ignore_errors=True)
    with open_database(path) as database, export.open("rb") as source:
        timing.begin()
        database.import_lines(source, export)
    timing.end(f"import of {found:,} inspections")
    print(f"  {found / timing.wall_s:,.0f}/s, {found / timing.cpu_s:,.0f} per second of CPU time")
    export.unlink()


def _advise(name: str, chosen: Stack, folder: Path, path: Path) -> None:
    """Run the command for the lock of a stack, and print its time and memory."""
    lock = folder / name / "requirements.txt"
    lock.parent.mkdir(exist_ok=True)
    pins = [f"{each.name}=={each.version}" for each in chosen.lock.artifacts]
    lock.write_text("\n".join(pins) + "\n")
    command = [
        sys.executable,
        "-m",
        "stackgen",
        "advise",
        str(lock),
        "--kb",
        str(path),
        "--offline",
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    environ = os.environ | {"STACKGEN_SEED": ""}
    done = subprocess.run(command, env=environ, capture_output=True, check=False)
    took = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"advise on a lock that is {name}: exit code {done.returncode}, {took:.1f} s, {cpu:.1f} s "
        f"of CPU time, {after.ru_maxrss / 1024:,.0f} MB (limits 1 s, 500 MB)",
        flush=True,
    )


if __name__ == "__main__":
    main()
