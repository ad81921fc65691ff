"""From what was asked for to work that is ready to be done: where, on which stacks, by what."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from stackgen.advice.evidence import admits_python
from stackgen.artifacts.wheels import WheelStore
from stackgen.index import PackageIndex
from stackgen.measure.racing import BLOCK
from stackgen.pipeline.cpus import kept_to, refuse_cpus
from stackgen.pipeline.environments import estimate
from stackgen.pipeline.measures import indicator_calls, limits, usable_cpus, weights_of
from stackgen.pipeline.options import ExploreOptions
from stackgen.pipeline.places import Places
from stackgen.pipeline.prices import metered
from stackgen.pipeline.progress import Progress
from stackgen.pipeline.selection import Contenders, read_lock_file
from stackgen.pipeline.sources import refuse_unbuildable
from stackgen.pipeline.targets import refuse_any_python, refuse_python
from stackgen.pipeline.wishes import beside_compared, index_config
from stackgen.pipeline.work import Work
from stackgen.pipeline.workshop import Workshop, any_python, open_workshop
from stackgen.values import ExplorePlan, IndicatorCall, Place

Calls = tuple[tuple[IndicatorCall, ...], IndicatorCall]
"""What is measured, and the control."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What is measured against each other.

    options: what was asked for, with all that was read since.
    packages: names of what the stacks contain that an indicator may be of.
    count: of the stacks that satisfy what was asked for.
    choices: how many of them could be told apart.
    requirements: what was asked for, in words.
    """

    options: ExploreOptions
    contenders: Contenders
    packages: frozenset[str]
    count: int
    choices: int
    requirements: tuple[str, ...]


Choose = Callable[[PackageIndex, ExploreOptions, Workshop, Progress], Chosen]


def calls_of(chosen: Chosen) -> Calls:
    """Return the indicators that were asked for, or the default ones, and the control."""
    varied = tuple(each for each in chosen.contenders.varied if each in chosen.packages)
    return indicator_calls(chosen.options, varied, chosen.packages)


@contextmanager
def opened(
    choose: Choose,
    options: ExploreOptions,
    places: Places,
    environ: Mapping[str, str],
    progress: Progress,
    *,
    calls_of: Callable[[Chosen], Calls] = calls_of,
) -> Iterator[Work]:
    """Open the workshop and the index, have stacks chosen, and plan what is to be done.

    Args:
        choose: says which stacks they are, once it is known what they are installed on.
        options: what was asked for.
        places: where things are kept.
        environ: the user's variables.
        progress: who is told.
        calls_of: says by what they are measured, once they are known.

    Raises:
        StackgenError: one of its kinds for whatever is in the way.
    """
    start = time.monotonic()
    usable = usable_cpus()
    refuse_cpus(options, usable)
    config = index_config(options.index, environ)
    options = replace(options, asked=beside_compared(options.asked, config))
    lockfile = read_lock_file(options.lock) if options.lock else None
    if lockfile is not None and not options.base:
        refuse_any_python(lockfile)
    with (
        open_workshop(
            options.executor,
            options.base,
            places,
            progress,
            make=not options.dry_run,
            admits=partial(admits_python, lockfile) if lockfile else any_python,
        ) as workshop,
        kept_to(options.build_cpus),
        PackageIndex(config, places.cache) as index,
    ):
        if lockfile is not None:
            refuse_python(lockfile, workshop.base.target.python, workshop.base.name)
        chosen = choose(index, options, workshop, progress)
        options = chosen.options
        calls, control = calls_of(chosen)
        allowed = limits(options.threads, options.gpus, among=options.measure_cpus)
        cpus = metered(options, calls, allowed, usable)
        store = WheelStore(places.cache, notify=progress.note)
        yield Work(
            options=options,
            places=places,
            progress=progress,
            index=index,
            store=store,
            workshop=workshop,
            selection=chosen.contenders,
            plan=_plan(chosen, workshop, index, store, places),
            calls=cpus.calls,
            control=control,
            metered=cpus,
            start=start,
            weights=weights_of(options.weights, cpus.calls),
        )


def _plan(
    chosen: Chosen,
    workshop: Workshop,
    index: PackageIndex,
    store: WheelStore,
    places: Places,
) -> ExplorePlan:
    options, selection = chosen.options, chosen.contenders
    first = list(islice(selection.candidates(), options.wanted))
    searched = options.searches(chosen.choices)
    if not options.dry_run:
        refuse_unbuildable((a for each in first for a in each.lock.artifacts), workshop.sdists)
    machine = dict(workshop.machine.identity)
    return ExplorePlan(
        requirements=chosen.requirements,
        varied=selection.varied,
        place=Place(
            executor=workshop.base.kind.value,
            base=workshop.base.name,
            python=workshop.base.target.python,
            machine=machine.get("cpu_name", "this machine"),
        ),
        count=chosen.count,
        choices=chosen.choices,
        chosen=tuple((each.label, each.choice.completions if each.choice else 1) for each in first),
        estimate=estimate(
            [each.lock for each in first],
            workshop.base,
            first=BLOCK if searched else len(first),
            index=index,
            store=store,
            places=places,
        ),
        budget_s=options.budget_s,
        seed=options.seed,
        strategy=options.strategy.value,
        searched=searched,
    )
