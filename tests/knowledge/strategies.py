"""Hypothesis strategies: any value that the knowledge base may be given."""

from dataclasses import dataclass
from datetime import datetime, timezone

from hypothesis import strategies as st

from stackgen.knowledge.database import Database
from stackgen.model.evidence import CampaignIdentity
from stackgen.model.identity import CampaignId, MachineId
from stackgen.model.inspections import (
    Indicator,
    IndicatorCall,
    Inspection,
    LoadedDistribution,
    Observation,
    Outcome,
    Parameter,
    Role,
)
from stackgen.model.packages import Artifact, Lock
from stackgen.model.stacks import BaseFacts, Machine, Stack
from tests.knowledge import samples

names = st.from_regex(r"[a-z][a-z0-9]{0,6}(-[a-z0-9]{1,4})?", fullmatch=True)
texts = st.text(max_size=12)
maybe_texts = st.none() | texts
counts = st.integers(min_value=0, max_value=2**62)
moments = st.datetimes(timezones=st.just(timezone.utc)).map(datetime.isoformat)
# An int where a float is declared is what type checkers allow and callers do.
positives = st.floats(min_value=5e-324, max_value=1e300) | st.integers(1, 2**52)
pairs = st.dictionaries(texts, texts, max_size=4).map(lambda d: tuple(sorted(d.items())))

artifacts = st.builds(
    Artifact,
    name=names,
    version=st.from_regex(
        r"[0-9]{1,3}(\.[0-9]{1,2}){0,3}(rc1|\.post2)?(\+[a-z]{1,3})?", fullmatch=True
    ),
    filename=texts,
    sha256=st.text("0123456789abcdef", max_size=8),
    url=texts,
    index=texts,
    size=st.none() | counts,
    requires_python=maybe_texts,
    uploaded=maybe_texts,
    yanked=maybe_texts,
)
locks = st.lists(artifacts, unique_by=lambda a: a.name, max_size=5).map(
    lambda found: Lock(artifacts=tuple(sorted(found, key=lambda a: a.name)))
)
facts = st.builds(
    BaseFacts,
    python=texts,
    python_build=texts,
    libc=texts,
    distribution=texts,
    system_packages=pairs,
)
stacks = st.builds(Stack, lock=locks, facts=facts, settings=pairs)
machines = st.builds(Machine, identity=pairs, circumstances=pairs)
parameters = st.builds(
    Parameter,
    name=texts,
    type=st.sampled_from(["int", "float", "str"]),
    default=texts,
    allowed=st.lists(texts, max_size=2).map(tuple),
    help=texts,
)
indicators = st.builds(
    Indicator,
    name=texts,
    component=texts,
    summary=texts,
    sha256=texts,
    path=st.just(""),
    unit=texts,
    one_shot=st.booleans(),
    timeout_s=positives,
    parameters=st.lists(parameters, max_size=2).map(tuple),
)
calls = st.builds(IndicatorCall, indicator=indicators, arguments=pairs)
campaigns = st.builds(
    CampaignIdentity,
    kind=texts,
    request=texts,
    seed=st.integers(),  # of any size: a seed may be wider than SQLite's integers
    machine_id=machines.map(lambda machine: machine.id),
    stackgen_version=texts,
)
loaded = st.builds(LoadedDistribution, name=names, version=texts, compiled=st.booleans())
observations = st.builds(
    Observation,
    values_s=st.lists(positives, min_size=1, max_size=6).map(tuple),
    loops=st.integers(1, 10**9),
    work=st.none() | positives,
    steady=st.booleans(),
    checksum=st.none() | st.floats(allow_nan=False),
    peak_memory_bytes=st.none() | counts,
    circumstances=pairs,
    loaded=st.lists(loaded, max_size=4).map(tuple),
)


@st.composite
def inspections(
    draw: st.DrawFn, stack: Stack, machine: Machine, call: IndicatorCall, campaign: CampaignIdentity
) -> Inspection:
    """Draw an inspection of what is given."""
    outcome = draw(st.sampled_from(Outcome))
    return Inspection(
        stack_id=stack.id,
        machine_id=machine.id,
        indicator_id=call.id,
        campaign_id=CampaignId(campaign.id),
        block=draw(st.integers(0, 1000)),
        position=draw(st.integers(0, 50)),
        role=draw(st.sampled_from(Role)),
        outcome=outcome,
        started_at=draw(moments),
        duration_s=draw(positives),
        observation=draw(observations) if outcome is Outcome.OK else None,
        log=draw(st.text(max_size=40)),
        unenforced=draw(st.lists(texts, max_size=2).map(tuple)),
    )


@dataclass(frozen=True)
class Recorded:
    """An inspection with all that it refers to."""

    stack: Stack
    call: IndicatorCall
    machine: Machine
    campaign: CampaignIdentity
    inspection: Inspection

    def add_to(self, database: Database) -> None:
        database.add_machine(self.machine)
        database.add_indicator(self.call)
        database.add_stack(self.stack)
        database.add_campaign(self.campaign, samples.STARTED)
        database.add_inspection(self.inspection)


@st.composite
def recorded(draw: st.DrawFn) -> Recorded:
    """Draw any row that a campaign may record."""
    stack, call, machine = draw(stacks), draw(calls), draw(machines)
    campaign = campaign_on(machine)
    seen = draw(inspections(stack, machine, call, campaign))
    return Recorded(stack, call, machine, campaign, seen)


def campaign_on(machine: Machine) -> CampaignIdentity:
    """Return a campaign on that machine."""
    return CampaignIdentity(
        kind="explore",
        request="{}",
        seed=1,
        machine_id=MachineId(machine.id),
        stackgen_version="0.1",
    )
