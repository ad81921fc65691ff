"""Compare: two stacks in, the paired test of one against the other out."""

from collections.abc import Mapping
from dataclasses import replace

from stackgen.errors import BuildError, EvidenceError, StackgenError
from stackgen.index import PackageIndex
from stackgen.pipeline.explore import measured
from stackgen.pipeline.failing import nothing_runs
from stackgen.pipeline.opening import Chosen
from stackgen.pipeline.options import ExploreOptions, Strategy
from stackgen.pipeline.places import Places
from stackgen.pipeline.progress import Progress
from stackgen.pipeline.sides import Named, Pair, Resolver, named
from stackgen.pipeline.workshop import Workshop
from stackgen.values import ExploreReport, FailedStack, content_id

COMPARE = "compare"
_LOG_LINES = 12


def compare(
    a: str,
    b: str,
    options: ExploreOptions,
    places: Places,
    environ: Mapping[str, str],
    progress: Progress,
) -> ExploreReport:
    """Measure two stacks against each other, both of them in every block.

    Args:
        a: what the other is compared with: a lock file, the beginning of a stack's id, or versions.
        b: what is compared with it.
        options: as of an exploration; what is asked for comes from the sides.
        places: where things are kept.
        environ: the user's variables.
        progress: who is told.

    Raises:
        EvidenceError: both are the same stack.
        StackgenError: one of its kinds for whatever stops it; what was measured is kept.
    """
    sides = (named(a, places), named(b, places))
    options = replace(options, kind=COMPARE, strategy=Strategy.NEWEST, stacks=2)

    def choose(
        index: PackageIndex, options: ExploreOptions, workshop: Workshop, progress: Progress
    ) -> Chosen:
        resolver = Resolver(index=index, options=options, base=workshop.base, progress=progress)
        return _chosen(sides, resolver.pair(*sides), options)

    found = measured(choose, options, places, environ, progress)
    assert isinstance(found, ExploreReport)  # noqa: S101 # it is never a dry run
    if not found.interrupted and len(found.stacks) < 2:
        raise _not_two(found, options, places, progress)
    return found


def _chosen(sides: tuple[Named, Named], pair: Pair, options: ExploreOptions) -> Chosen:
    """Return what is measured; an indicator without a package's name must run on both sides.

    Raises:
        EvidenceError: both are the same stack.
    """
    first, second = pair.candidates()
    ids = [content_id("side", [each.lock.id, list(each.settings)]) for each in (first, second)]
    if ids[0] == ids[1]:
        raise _same(", ".join(f"{a.name} {a.version}" for a in first.lock.artifacts))
    packages = [frozenset(each.lock.versions) for each in (first, second)]
    by_package = any("/" in each for each in options.indicators)
    return Chosen(
        options=replace(options, sides=tuple(ids)),
        contenders=pair,
        packages=packages[0] | packages[1] if by_package else packages[0] & packages[1],
        count=2,
        choices=2,
        requirements=tuple(each.text for each in sides),
    )


def _same(holding: str) -> EvidenceError:
    return EvidenceError(
        "both are the same stack",
        why=f"each holds {holding}",
        fix="name another version on one side; how much one stack differs from itself is told by: "
        "stackgen noise",
    )


def _not_two(
    found: ExploreReport, options: ExploreOptions, places: Places, progress: Progress
) -> StackgenError:
    """Explain why there was nothing to compare with."""
    ready = {each.label for each in found.stacks}
    lacking = [label for label, _ in found.plan.chosen if label not in ready]
    for each in found.failed:
        if each.label in lacking:
            _tell_log(each, progress)
            program = options.program.program if options.program else None
            error = nothing_runs([each], places, program)
            why = f"{each.outcome.value}: {each.reason}"
            return type(error)(f"{each.label} does not run here", why=why, fix=error.fix)
    if found.seconds > options.budget_s:
        return BuildError(
            f"{' and '.join(lacking)} was not ready in time",
            why="twice the budget was spent before",
            fix="give more time with --budget; what was built and downloaded is kept",
        )
    pins = found.stacks[0].lock.artifacts if found.stacks else ()
    return _same(", ".join(f"{each.name} {each.version}" for each in pins))


def _tell_log(failed: FailedStack, progress: Progress) -> None:
    lines = failed.log.rstrip().splitlines()[-_LOG_LINES:]
    if lines:
        told = "\n".join(f"  {line}" for line in lines)
        progress.note(f"{failed.label}, the end of the log:\n{told}")
