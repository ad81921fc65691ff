"""Wheels of later stacks are downloaded while the first are built, and none during a timing."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from stackgen.campaign.candidates import Candidate
from stackgen.campaign.prepare import Candidates
from stackgen.errors import EngineError, IndexUnavailableError
from stackgen.model.packages import Artifact, Lock
from stackgen.model.progress import NullProgress
from stackgen.model.stacks import Environment, EnvironmentKind
from tests.containers.wheels import a_base

BASE = a_base()
WAIT_S = 20


def candidate(version: str) -> Candidate:
    artifact = Artifact(
        name="pkg", version=version, filename=f"pkg-{version}.whl", sha256=version * 64, url="",
        index="",
    )  # fmt: skip
    return Candidate(
        lock=Lock(artifacts=(artifact,)), label=version, completion="", settings=(), choice=None
    )


@dataclass
class Wheels:
    """A store that notes downloads; those of some versions fail, or last until they are ended."""

    failing: str = ""
    endless: str = ""
    fetched: dict[str, threading.Event] = field(default_factory=dict)

    def fetch(self, artifacts: tuple[Artifact, ...], *, downloader: Any, progress: Any) -> None:
        del downloader
        for each in artifacts:
            if each.version in self.failing:
                raise IndexUnavailableError("the index is gone", why="", fix="")
            self.fetched.setdefault(each.version, threading.Event()).set()
            while each.version in self.endless:
                progress(each, 1)


@dataclass
class Builds:
    """Builds and tries nothing; calls back before each."""

    before: Callable[[str], None]
    facts: Any = BASE.facts

    def prepare(self, planned: Candidate) -> Candidate:
        self.before(planned.label)
        made = Environment(
            stack=planned.stack(BASE.facts), kind=EnvironmentKind.VIRTUALENV, location="", python=""
        )
        return replace(planned, environment=made)


def prepared(
    store: Wheels,
    before: Callable[[str], None],
    between: Callable[[int], None] = lambda _: None,
) -> Candidates:
    candidates = Candidates(
        preparer=cast("Any", Builds(before)),
        store=cast("Any", store),
        index=cast("Any", None),
        progress=NullProgress(),
        wanted=3,
        budget_s=60,
        members=[candidate(version) for version in "123"],
    )
    candidates.prepare_all(lambda _: False, between)
    return candidates


def downloads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "downloads ahead"]


def test_later_stacks_are_downloaded_while_the_first_is_built() -> None:
    store = Wheels()
    store.fetched["3"] = last = threading.Event()

    def before(label: str) -> None:
        assert label != "1" or last.wait(WAIT_S), "the last one is downloaded before the first is"

    assert len(prepared(store, before).ready) == 3
    assert not downloads()


def test_downloads_have_ended_when_measuring_begins() -> None:
    store = Wheels(endless="2")
    store.fetched["2"] = under_way = threading.Event()

    def before(_: str) -> None:
        assert under_way.wait(WAIT_S)

    assert len(prepared(store, before).ready) == 3
    assert not downloads()


def test_what_cannot_be_downloaded_ahead_is_left_to_the_stack_that_needs_it() -> None:
    assert len(prepared(Wheels(failing="2"), lambda _: None).ready) == 3


def test_between_builds_there_is_time_to_measure_once_no_download_is_under_way() -> None:
    seen = list[tuple[int, int]]()
    store = Wheels()
    store.fetched["3"] = last = threading.Event()

    def before(_: str) -> None:
        assert last.wait(WAIT_S)
        for each in downloads():
            each.join(WAIT_S)

    prepared(store, before, lambda to_come: seen.append((to_come, len(downloads()))))
    assert seen == [(2, 0), (1, 0)]

    seen.clear()
    prepared(Wheels(endless="2"), lambda _: None, lambda to_come: seen.append((to_come, 1)))
    assert not seen, "a download disturbs what is timed"


def test_downloads_end_with_what_ends_the_preparation() -> None:
    def lost(_: str) -> None:
        raise EngineError("the engine is gone", why="", fix="")

    with pytest.raises(EngineError):
        prepared(Wheels(endless="1"), lost)
    assert not downloads()
