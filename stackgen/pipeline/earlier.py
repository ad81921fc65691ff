"""Stacks that earlier runs of a campaign have compared: what they showed stands, whoever leads now.

How many stacks take part may change from run to run, and so may who leads a search.
"""

from collections.abc import Mapping

from stackgen.measure import challengers_of
from stackgen.pipeline.campaign import Runner
from stackgen.values import ChosenStack, Stack, StackId

EARLIER = "earlier"
"""The completion of a stack that was made ready in another run."""


def compared_before(
    runner: Runner,
    reference: StackId,
    *,
    now: Mapping[StackId, str],
    labels: Mapping[StackId, str],
    varied: tuple[str, ...],
) -> tuple[ChosenStack, ...]:
    """Return the stacks that were compared with this reference, without those of this run.

    Args:
        runner: knows the campaign.
        reference: what all others are compared with.
        now: labels of the stacks that this run compares.
        labels: of others that are known by a name.
        varied: names of the packages that vary; by them others are called.
    """
    before = challengers_of(runner.inspections, reference) - now.keys() - {reference}
    stacks = {each: runner.database.stack(each) for each in sorted(before)}
    return tuple(
        ChosenStack(
            stack_id=each,
            label=labels.get(each) or _label(stack, varied),
            completion=EARLIER,
            lock=stack.lock,
            settings=stack.settings,
        )
        for each, stack in stacks.items()
    )


def _label(stack: Stack, varied: tuple[str, ...]) -> str:
    versions = stack.lock.versions
    parts = [f"{name} {versions[name]}" for name in varied if name in versions]
    return ", ".join([*parts, *(f"{name}={value}" for name, value in stack.settings)])
