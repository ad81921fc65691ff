"""Which engines want whole archives is remembered; what cannot be remembered harms nobody."""

import json
import multiprocessing
from pathlib import Path

import pytest

from stackgen.images.build import FullArchiveEngines


def remember(path: Path, engines: list[str]) -> None:
    for engine in engines:
        FullArchiveEngines(path).add(engine)


def test_an_engine_that_refused_is_known_to_later_runs(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "whole.json"
    FullArchiveEngines(path).add("host /var/lib/podman overlay 4.3.1")
    assert FullArchiveEngines(path).contains("host /var/lib/podman overlay 4.3.1")
    assert not FullArchiveEngines(path).contains("host /var/lib/podman overlay 5.0.0")


def test_processes_that_note_engines_at_once_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "whole.json"
    parts = [[f"{part} {number}" for number in range(10)] for part in range(2)]
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=remember, args=(path, part)) for part in parts]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert all(FullArchiveEngines(path).contains(each) for part in parts for each in part)
    assert [each.name for each in tmp_path.iterdir() if each.suffix not in (".json", ".lock")] == []


@pytest.mark.parametrize("content", ["", "{", "7", '{"a": 1}', "[[1]]"])
def test_a_damaged_memory_is_no_memory_and_is_written_anew(tmp_path: Path, content: str) -> None:
    path = tmp_path / "whole.json"
    path.write_text(content, encoding="utf-8")
    assert not FullArchiveEngines(path).contains("engine")
    FullArchiveEngines(path).add("engine")
    assert FullArchiveEngines(path).contains("engine")


def test_a_memory_that_cannot_be_written_costs_nothing_but_the_memory(tmp_path: Path) -> None:
    in_the_way = tmp_path / "cache"
    in_the_way.write_text("a file, where a folder should be", encoding="utf-8")
    FullArchiveEngines(in_the_way / "whole.json").add("engine")
    assert not FullArchiveEngines(in_the_way / "whole.json").contains("engine")


def test_it_remembers_the_engines_of_late_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "whole.json"
    for number in range(40):
        FullArchiveEngines(path).add(f"engine {number}")
    assert FullArchiveEngines(path).contains("engine 39")
    assert len(json.loads(path.read_text(encoding="utf-8"))) < 40
