"""Import, size, derived rows and merge of a synthetic knowledge base: ``knowledge_base.py [N]``.

It streams N inspections (20,000 by default; 10,000 stacks for a million) as an export, imports
them, loads the contrasts once they are cached, and merges two halves. It needs about 4 kB of disk
for each inspection.
"""

import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from stackgen.knowledge import rows
from stackgen.knowledge.database import open_database
from stackgen.knowledge.exchange import FORMAT, FORMAT_VERSION
from stackgen.model.evidence import CampaignIdentity
from stackgen.model.identity import ID_SCHEME, canonical_json
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
            sha256=f"{hash((name, version)) & (1 << 63) - 1:064x}",
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
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    campaigns = max(2, count // PER_CAMPAIGN)
    stacks = [stack(number) for number in range(max(20, count // 100))]
    folder = Path(tempfile.mkdtemp(prefix="stackgen-kb-"))
    try:
        halves = []
        for half in (0, 1):
            numbers = range(half * campaigns // 2, (half + 1) * campaigns // 2)
            export, path = folder / f"{half}.jsonl", folder / str(half) / "kb.db"
            found = write_export(export, numbers, stacks, f"{half + 1:032x}")
            with open_database(path) as database, export.open("rb") as source:
                start, worked = time.perf_counter(), time.process_time()
                database.import_lines(source, export)
                took = time.perf_counter() - start
                cpu = time.process_time() - worked
            export.unlink()
            print(
                f"import: {found:,} inspections, {found / took:,.0f}/s, "
                f"{found / cpu:,.0f} per second of CPU (goal 5,000/s)"
            )
            halves.append(path)
        start = time.perf_counter()
        with open_database(halves[0]) as database:
            database.merge(halves[1])
            print(f"merge of two halves: {time.perf_counter() - start:.1f} s (limit 300 s)")
            shutil.rmtree(halves[1].parent)
            size = database.stats().file_bytes
            print(f"file: {size / 1e6:,.0f} MB, {size / campaigns / PER_CAMPAIGN:,.0f} bytes each")
            start = time.perf_counter()
            derived = len(database.contrasts())
            print(f"contrasts derived: {derived:,} in {time.perf_counter() - start:.1f} s")
        print("(limit of the file: 2,000 MB for a million)")
        subprocess.run([sys.executable, __file__, "--load", str(halves[0])], check=True)
    finally:
        shutil.rmtree(folder)


def load(path: Path) -> None:
    """Print how long the cached contrasts take to load, and the memory of the process."""
    start = time.perf_counter()
    with open_database(path) as database:
        found = database.contrasts()
    took = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"contrasts loaded: {len(found):,} in {took:.2f} s, {memory:.0f} MB (limits 1 s, 500 MB)")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--load"]:
        load(Path(sys.argv[2]))
    else:
        main()
