"""The part of a knowledge base around a lock gives the same answer as all of it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.knowledge import advice, outline, proposals
from stackgen.knowledge.advice import NEAREST, Advisor
from stackgen.knowledge.database import open_database
from stackgen.knowledge.equivalence import LockedOn
from stackgen.knowledge.evidence import StackSummary
from stackgen.knowledge.graph import EvidenceGraph
from stackgen.knowledge.judgement import Knowledge
from stackgen.knowledge.loading import load_knowledge, prepare
from stackgen.measure import Computed, Result
from stackgen.measure.contrasts import CampaignContrasts
from stackgen.model.evidence import ChangePolicy
from stackgen.model.identity import CampaignId, IndicatorId
from stackgen.model.packages import LockFile
from stackgen.model.stacks import PROGRAM, BaseFacts, Machine, Stack
from tests.knowledge import samples
from tests.knowledge.test_derived import add_blocks
from tests.samples import FACTS, call
from tests.test_advice import LOCAL, OTHER, anything, everything, locked, stack

MOST = 8  # nodes that are put together
_SCRIPT = call("script")
CALLS = (
    call("tensorflow/matmul"),
    call("numpy/sort"),
    replace(_SCRIPT, indicator=replace(_SCRIPT.indicator, component=PROGRAM)),
)
BASES = (FACTS, replace(FACTS, libc="glibc 2.31"), replace(FACTS, python="CPython 3.9.1"))


@pytest.fixture(autouse=True, scope="module")
def _small() -> object:
    """Let few nodes be as many as are put together."""
    with pytest.MonkeyPatch.context() as patch:
        for function in (EvidenceGraph.fit, Knowledge.judge):
            patch.setitem(function.__kwdefaults__ or {}, "most", MOST)
        patch.setattr(outline, "MOST_NODES", MOST)
        patch.setattr(proposals, "_MOST_NODES", MOST - 2)
        patch.setattr(advice, "_NEAR", MOST - 2)
        yield


class Made:
    """What a random knowledge base consists of."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        bases = draw.sample(BASES, draw.choice((1, 1, 2, 3)))
        self.machines = [LOCAL, OTHER, Machine(identity=(("cpu_name", "third"),))]
        self.machines = draw.sample(self.machines, draw.choice((1, 1, 2, 3)))
        self.stacks = sorted(
            {self.stack(draw.choice(bases)) for _ in range(30)}, key=lambda s: s.id
        )
        calls = draw.sample(CALLS, draw.choice((1, 2, 3)))
        self.calls = calls
        self.contrasts: list[CampaignContrasts] = []
        self.summaries: list[StackSummary] = []
        for number in range(draw.randint(3, 25)):
            for each in calls[: draw.randint(1, 3)]:
                self.campaign(CampaignId(f"{number:064x}"), each.id)

    def stack(self, base: BaseFacts) -> Stack:
        draw = self.draw
        versions = {
            "tensorflow": f"2.{draw.randint(10, 14)}",
            "numpy": f"1.{draw.randint(20, 23)}",
            "scipy": f"1.{draw.randint(1, 2)}",
        }
        if draw.random() < 0.1:
            del versions["tensorflow"]
        settings = (("TF_X", "1"),) if draw.random() < 0.1 else ()
        return replace(stack(**versions).stack, facts=base, settings=settings)

    def near(self) -> list[Stack]:
        """Return stacks that are neighbours by number, so that the graph is long."""
        begin = self.draw.randrange(len(self.stacks))
        found = [*self.stacks, *self.stacks][begin : begin + 6]
        return self.draw.sample(found, min(len(found), self.draw.randint(2, 4)))

    def campaign(
        self, name: CampaignId, indicator: IndicatorId, chosen: Sequence[Stack] = ()
    ) -> None:
        draw, chosen = self.draw, chosen or self.near()
        machine = draw.choice(self.machines).id
        baseline, *others = (each.id for each in chosen)
        others = sorted({*others} - {baseline})
        if others:
            count = len(others)
            self.contrasts.append(
                CampaignContrasts(
                    campaign_id=name,
                    indicator_id=indicator,
                    machine_id=machine,
                    origins=draw.choice(((), ("a" * 32,))),
                    date="2026-01-01",
                    baseline=baseline,
                    candidates=tuple(others),
                    log_ratios=tuple(draw.gauss(0.1, 0.2) for _ in others),
                    covariance=tuple(
                        tuple(1e-4 if a == b else 5e-5 for b in range(count)) for a in range(count)
                    ),
                    blocks=(12,) * count,
                    freedom=11.0,
                )
            )
        for each in chosen:
            names = ["tensorflow", "numpy", *(["scipy"] if draw.random() < 0.3 else [])]
            result = Result(checksum=2.0 if draw.random() < 0.05 else 1.0)
            self.summaries.append(
                StackSummary(
                    campaign_id=name,
                    indicator_id=indicator,
                    machine_id=machine,
                    stack_id=each.id,
                    loaded=tuple(n for n in names if n in each.lock.versions),
                    computed=Computed(counts=((result, 12),), tolerance=1e-9),
                    blocks=12,
                    is_baseline=each.id == baseline,
                    failed=draw.random() < 0.03,
                )
            )

    def knowledge(self, part: outline.Part | None = None) -> Knowledge:
        """Return all that is known, or a part."""

        def loads(campaign: CampaignId) -> bool:
            return part is None or campaign in part.campaigns

        return Knowledge(
            stacks=[s for s in self.stacks if part is None or s.id in part.stacks],
            summaries=[each for each in self.summaries if loads(each.campaign_id)],
            calls=self.calls,
            contrasts=[each for each in self.contrasts if loads(each.campaign_id)],
            machine=LOCAL,
            machines=self.machines,
            trusted={each.campaign_id for each in self.contrasts},
            whole=None if part is None else part.whole,
        )

    def part(self, *locks: LockFile) -> outline.Part | None:
        whole = outline.decoded(outline.outlined(self.knowledge()))
        assert whole is not None
        programs = {each.id for each in CALLS if each.indicator.component == PROGRAM}
        stacks = {each.id: each for each in self.stacks}
        chooser = outline.Chooser(whole, stack_of=stacks.__getitem__, programs=programs)
        return chooser.part([LockedOn(each) for each in locks])

    def lock(self) -> LockFile:
        """Return a lock that is known, or nearly."""
        versions = dict(self.draw.choice(self.stacks).lock.versions)
        if self.draw.random() < 0.3:
            versions["numpy"] = f"1.{self.draw.randint(19, 25)}"
        if self.draw.random() < 0.1:
            versions["torch"] = "2.0"
        if self.draw.random() < 0.1:  # a framework that was not measured
            versions = {"torch": "2.0", "numpy": versions["numpy"]}
        found = locked(**versions)
        if self.draw.random() < 0.1:  # for other Pythons than what was measured
            packages = (replace(each, marker="python_version < '3'") for each in found.packages)
            found = replace(found, packages=tuple(packages))
        return found


def advisor(known: Knowledge, python: str) -> Advisor:
    return Advisor(
        known=known,
        trusted=frozenset(),
        inspections_of=lambda _: (),
        admits=anything,
        exists=everything,
        policy=ChangePolicy(allow_downgrade=True),
        python=python,
        most_next=3,
    )


@given(st.integers(0, 2**32))
def test_a_part_answers_as_the_whole(seed: int) -> None:
    made = Made(seed)
    lock, new = made.lock(), made.lock()
    python = made.draw.choice(("", "", "3.9", "3.12"))
    every = made.knowledge()
    if (part := made.part(lock)) is not None:
        found = advisor(made.knowledge(part), python).advise(lock)
        assert found == advisor(every, python).advise(lock)
    if (part := made.part(lock, new)) is not None:
        found = advisor(made.knowledge(part), python).update(lock, new)
        assert found == advisor(every, python).update(lock, new)


def test_of_a_long_chain_the_near_end_is_loaded() -> None:
    made = Made(0)
    versions = sorted(f"2.{number}.0" for number in range(60))
    made.stacks = [stack(tensorflow=each, numpy="1.23.5").stack for each in versions]
    made.contrasts, made.summaries, made.calls = [], [], list(CALLS)
    made.machines = [LOCAL]
    for number in range(59):
        made.campaign(CampaignId(f"{number:064x}"), CALLS[0].id, made.stacks[number : number + 2])
    part = made.part(locked(tensorflow=versions[0], numpy="1.23.5"))
    assert part is not None
    assert [int(each, 16) for each in part.campaigns] == list(range(MOST - 1))
    assert MOST <= len(part.stacks) <= MOST + NEAREST
    unknown = made.part(locked(tensorflow="2.12.9", numpy="1.23.5"))
    assert unknown is not None
    assert len(unknown.campaigns) <= 2 * MOST


@pytest.mark.parametrize("least", [1, 10])
def test_a_large_base_is_prepared_so_that_the_first_answer_loads_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(outline, "LARGE", least)
    with open_database(tmp_path / "kb.db") as database:
        add_blocks(database, range(1, 9))
        prepare(database, LOCAL)
        assert (database.outline() is not None) == (least == 1)


def test_the_outline_is_stored_with_a_large_base_and_made_anew_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outline, "LARGE", 1)
    lock = locked(**samples.STACK.lock.versions)
    with open_database(tmp_path / "kb.db") as database:
        add_blocks(database, range(1, 9))
        assert database.outline() is None
        whole, *_ = load_knowledge(database, LOCAL, locks=[lock])
        stored = database.outline()
        assert stored is not None
        part, *_ = load_knowledge(database, LOCAL, locks=[lock])
        assert advisor(part, "").advise(lock) == advisor(whole, "").advise(lock)
        changes: list[Callable[[], object]] = [
            lambda: add_blocks(database, range(9, 10)),
            lambda: database.add_stack(stack(numpy="2.1.0").stack),
            lambda: database.add_machine(OTHER),
            lambda: database.remove_origin(min(database.own_origins - {database.base_id})),
        ]
        for change in changes:
            database.store_outline(stored)
            assert database.outline() == stored
            change()
            assert database.outline() is None
            database.contrasts()
            assert database.outline() is None
