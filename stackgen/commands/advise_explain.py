"""What an advice rests on, down to raw samples, machines, images and hashes of wheels."""

from collections.abc import Iterator, Sequence

from stackgen.knowledge.database import Database
from stackgen.knowledge.judgement import Knowledge
from stackgen.model.evidence import Advice, CampaignIdentity, Effect, Provenance
from stackgen.model.identity import StackId
from stackgen.model.inspections import IMAGE, Inspection, Role
from stackgen.model.reports.locks import BlockEvidence, CampaignEvidence, EffectEvidence


def explain(database: Database, known: Knowledge, advice: Advice) -> tuple[EffectEvidence, ...]:
    """Return the evidence of each effect of an advice."""
    campaigns = {each.id: each for each in database.campaigns()}
    found = []
    for effect, provenance in zip(advice.effects, advice.provenance, strict=True):
        pair = _equivalents(known, effect)
        found.append(
            EffectEvidence(
                indicator=provenance.indicator,
                effect=effect,
                campaigns=tuple(
                    _campaign(
                        database.inspections(campaign=campaign, indicator=effect.indicator_id),
                        campaigns[campaign],
                        known,
                        pair,
                        share,
                    )
                    for campaign, share in zip(
                        provenance.campaigns, _shares(provenance), strict=True
                    )
                ),
                wheels=tuple(_wheels(known, effect)),
            )
        )
    return tuple(found)


def _shares(of: Provenance) -> Sequence[float]:
    return of.shares or [0.0] * len(of.campaigns)


def _equivalents(known: Knowledge, effect: Effect) -> tuple[set[StackId], set[StackId]]:
    """Return the measured stacks that stand for the two of an effect: the lock's first."""
    nodes = known.nodes.nodes(effect.indicator_id)
    own = known.nodes.stacks[effect.indicator_id]
    return {*own[nodes[effect.b].key]}, {*own[nodes[effect.a].key]}


def _campaign(
    inspections: Sequence[Inspection],
    identity: CampaignIdentity,
    known: Knowledge,
    pair: tuple[set[StackId], set[StackId]],
    share: float,
) -> CampaignEvidence:
    compared = [each for each in inspections if each.block and each.role is not Role.SEARCH]
    machines = {each.machine_id for each in compared} & known.machines.keys()
    machine = known.machines[min(machines)] if machines else known.machine
    wanted = [each for each in compared if each.stack_id in pair[0] | pair[1]]
    bases = dict.fromkeys(_base(known, each) for each in wanted or compared)
    return CampaignEvidence(
        campaign_id=identity.id,
        share=share,
        kind=identity.kind,
        seed=identity.seed,
        stackgen_version=identity.stackgen_version,
        machine=machine.identity,
        bases=tuple(bases),
        stacks=len({each.stack_id for each in compared}),
        blocks=tuple(_blocks(wanted, pair)),
    )


def _base(known: Knowledge, each: Inspection) -> str:
    facts = known.stacks[each.stack_id].facts
    seen = dict(each.observation.circumstances) if each.observation else {}
    image = seen.get(IMAGE, "")
    return f"{facts.python}, {facts.distribution}, {facts.libc}{f', image {image}' * bool(image)}"


def _blocks(
    inspections: Sequence[Inspection], pair: tuple[set[StackId], set[StackId]]
) -> Iterator[BlockEvidence]:
    for block in sorted({each.block for each in inspections}):
        seen = [each for each in inspections if each.block == block and each.observation]
        current, candidate = (
            tuple(e.observation.values_s for e in seen if e.stack_id in side and e.observation)
            for side in pair
        )
        if current and candidate:
            first = min(each.started_at for each in seen)
            yield BlockEvidence(
                block=block, started_at=first, current_s=current, candidate_s=candidate
            )


def _wheels(known: Knowledge, effect: Effect) -> Iterator[tuple[str, str, str]]:
    locks = {
        "current": known.stacks[effect.b].lock,
        "candidate": known.stacks[effect.a].lock,
    }
    shared = set.intersection(
        *({each.sha256 for each in lock.artifacts} for lock in locks.values())
    )
    for side, lock in locks.items():
        for each in lock.artifacts:
            if each.sha256 not in shared:
                yield side, each.filename, each.sha256
