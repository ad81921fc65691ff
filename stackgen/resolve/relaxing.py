"""What could be asked for less, so that an empty space might not be empty any more."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from stackgen.resolve.conflicts import Core
from stackgen.resolve.dependencies import base_name
from stackgen.resolve.request import Request
from stackgen.values import Prereleases


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """One thing less asked for.

    words: what to do, as in "leave out '<1.20' of numpy".
    """

    words: str
    request: Request


def relaxations(core: Core, request: Request) -> tuple[Relaxation, ...]:
    """Return what could be asked for less, so that a conflict might be gone; each is one step."""
    named = {base_name(name) for name in core.roots} | {base_name(b) for _, b in core.edges}
    limited = {each.package for each in core.limits}
    found: list[Relaxation] = []
    for field, of in (("requirements", named), ("constraints", limited)):
        given: tuple[Requirement, ...] = getattr(request, field)
        for place, each in enumerate(given):
            if canonicalize_name(each.name) in of:
                for words, looser in _looser(each, is_constraint=field == "constraints"):
                    others = (*given[:place], *looser, *given[place + 1 :])
                    changed = replace(request, **{field: others})  # type: ignore[arg-type]
                    found.append(Relaxation(words=words, request=changed))
    return (*found, *_bent(named, request))


def _looser(
    each: Requirement, *, is_constraint: bool
) -> Iterator[tuple[str, Sequence[Requirement]]]:
    """Yield a requirement without one of its clauses, and what to call that."""
    clauses = sorted(each.specifier, key=str)
    if is_constraint and len(clauses) == 1:
        yield f"leave out the constraint {str(each)!r}", ()
        return
    for clause in clauses:
        looser = Requirement(str(each))
        looser.specifier = SpecifierSet(",".join(str(c) for c in clauses if c != clause))
        yield f"leave out {str(clause)!r} of {each.name}", (looser,)


def _bent(named: set[str], request: Request) -> Iterator[Relaxation]:
    """Yield a request without one of the ways in which the user bent it."""
    for each in request.overrides:
        if canonicalize_name(each.name) in named:
            others = tuple(other for other in request.overrides if other is not each)
            words = f"leave out the override {str(each)!r}"
            yield Relaxation(words=words, request=replace(request, overrides=others))
    policy = request.policy
    if policy.newest_upload is not None:
        looser = replace(request, policy=replace(policy, newest_upload=None))
        yield Relaxation(words="leave out --exclude-newer", request=looser)
    if policy.prereleases is not Prereleases.ALLOW:
        looser = replace(request, policy=replace(policy, prereleases=Prereleases.ALLOW))
        yield Relaxation(words="give --prerelease allow", request=looser)
