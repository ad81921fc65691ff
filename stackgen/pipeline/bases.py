"""Bases, for ``stackgen images bases``: listed, made, probed."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from stackgen.builders.bases import (
    BaseBuilder,
    BaseDefinition,
    HeldBase,
    NoWayError,
    read_definitions,
)
from stackgen.errors import BuildError, EngineError, UsageError
from stackgen.pipeline.engines import needed_engine
from stackgen.pipeline.host import Host
from stackgen.pipeline.places import Places
from stackgen.pipeline.progress import Progress
from stackgen.values import BaseContent, BaseEntry, BasesReport, Readiness

_FIX = "install debootstrap and run as root, or take an image that the engine has: --base IMAGE"


def bases(names: Sequence[str], *, make: bool, places: Places, progress: Progress) -> BasesReport:
    """Return what is known of bases; with ``make``, those that are missing are made first.

    Args:
        names: of the bases; none means all of them.
        make: one that cannot be made keeps nobody from the others.
        places: where archives and answers of probes are kept.
        progress: is told what is made.

    Raises:
        UsageError: a definition is wrong, or there is no base of a name.
        EngineError: bases are to be made, and no engine answers.
    """
    wanted = _named(names)
    try:
        engine = needed_engine()
    except EngineError as error:
        if make:
            raise
        return BasesReport(bases=tuple(_unknown(each, error) for each in wanted))
    with closing(engine):
        builder = BaseBuilder(engine=engine, cache=places.cache / "bases")
        entries = [_made(builder, each, make, progress) for each in wanted]
    return BasesReport(
        bases=tuple(entry for entry, _ in entries),
        made=tuple(entry.name for entry, new in entries if new),
        failed=tuple(entry.name for entry, _ in entries if make and entry.content is None),
    )


def _named(names: Sequence[str]) -> tuple[BaseDefinition, ...]:
    known = {each.name: each for each in read_definitions()}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(
            f"there is no base {unknown[0]}",
            why=f"known: {', '.join(known)}",
            fix="name one of these, or define it in a folder of yours (STACKGEN_IMAGES)",
        )
    return tuple(known[name] for name in dict.fromkeys(names or known))


def _made(
    builder: BaseBuilder, definition: BaseDefinition, make: bool, progress: Progress
) -> tuple[BaseEntry, bool]:
    """Return an entry, and whether its base was made just now."""
    entry = _plain(definition)
    new = False
    try:
        held = builder.held(definition.name)
        if held is None and make:
            with Host(cache=builder.cache.parent).building(progress):
                builder.make(definition.name, progress.doing)
            new = True
            held = builder.held(definition.name)
    except EngineError:
        raise
    except BuildError as error:
        return _failed(entry, error, make=make), False
    if held is not None:
        return replace(entry, state=Readiness.READY, content=_content(held)), new
    obstacle = builder.obstacle(definition.name)
    state = Readiness.IMPOSSIBLE if obstacle else Readiness.POSSIBLE
    return replace(entry, state=state, why=obstacle, fix=_FIX if obstacle else ""), False


def _failed(entry: BaseEntry, error: BuildError, *, make: bool) -> BaseEntry:
    if isinstance(error, NoWayError):
        return replace(entry, state=Readiness.IMPOSSIBLE, why=error.why, fix=error.fix)
    state = Readiness.IMPOSSIBLE if make else Readiness.WRONG
    return replace(entry, state=state, why=f"{error.what}: {error.why}", fix=error.fix)


def _unknown(definition: BaseDefinition, error: EngineError) -> BaseEntry:
    why = f"{error.what} ({error.why.splitlines()[0]})"
    return replace(_plain(definition), why=why, fix=error.fix)


def _plain(definition: BaseDefinition) -> BaseEntry:
    return BaseEntry(
        name=definition.name,
        summary=definition.summary,
        state=Readiness.UNKNOWN,
        why="",
        fix="",
        ways=tuple(way.label for way in definition.ways),
        packages=definition.packages,
    )


def _content(held: HeldBase) -> BaseContent:
    facts, target = held.base.facts, held.base.target
    return BaseContent(
        image_id=held.base.reference,
        python=facts.python,
        libc=facts.libc,
        machine=dict(target.markers)["platform_machine"],
        distribution=facts.distribution,
        tags=len(target.tags),
        first_tag=next((tag for tag in target.tags if "-linux_" not in tag), target.tags[0]),
        blas=facts.system_packages,
        size=held.size,
        origin=held.origin,
    )
