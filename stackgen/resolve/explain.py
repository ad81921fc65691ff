"""Why a space is empty: a smallest conflict, in words, and what would end it.

`nothing_fits` explains a package of which the target takes no version that the user admits. Where
each has one, `conflict_core` finds requirements that contradict each other and of which none can be
left out (QuickXplain), `conflict` writes them as a chain, and `relaxations` lists single changes of
the user's requirements that could end the conflict.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from stackgen.errors import ResolutionError
from stackgen.model.choices import Prereleases
from stackgen.model.packages import Exclusion, Target
from stackgen.resolve.closure import Universe
from stackgen.resolve.dependencies import Dependency, admits, base_name
from stackgen.resolve.diagram import newest_stack
from stackgen.resolve.masks import Masks, admitted_releases, compile_masks
from stackgen.resolve.requirements import Requirements

_T = TypeVar("_T")
_Fact = tuple[int, int]
"""A package and one that it requires, as ranks; or _USER and what the user requires; or _LIMIT and
the number of a constraint."""
_USER, _LIMIT = -1, -2


@dataclass(frozen=True, slots=True)
class Core:
    """A smallest conflict: without any one of its facts there would be a stack.

    roots: packages that the user requires.
    edges: (package, package that it requires).
    limits: constraints.
    """

    roots: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    limits: tuple[Dependency, ...] = ()


def conflict_core(universe: Universe) -> Core:
    """Return a smallest conflict of an empty space.

    Args:
        universe: the closure, not pruned: what was left out of it can be no part of the answer.

    Raises:
        ResolutionError: whether a part conflicts could not be found out.
    """
    masks = compile_masks(universe)
    names = masks.packages
    roots: list[_Fact] = [(_USER, rank) for rank, _ in masks.roots]
    limits: list[_Fact] = [(_LIMIT, place) for place in range(len(universe.limits))]
    edges = {
        (rank, needed)
        for rank, groups in enumerate(masks.groups)
        for needs, _ in groups
        for needed, _ in needs
    }
    limiting = _limiting(universe, masks)

    def conflicting(facts: Sequence[_Fact]) -> bool:
        return newest_stack(_only(masks, frozenset(facts), limiting)) is None

    smallest_core = smallest([*roots, *sorted(edges), *limits], conflicting)
    return Core(
        roots=tuple(names[needed] for by, needed in smallest_core if by == _USER),
        edges=tuple((names[by], names[needed]) for by, needed in smallest_core if by >= 0),
        limits=tuple(universe.limits[place] for by, place in smallest_core if by == _LIMIT),
    )


def _limiting(universe: Universe, masks: Masks) -> Sequence[tuple[int, int] | None]:
    """Return, by constraint, the package that it limits and the mask that it leaves."""
    return [
        (
            masks.ranks[each.package],
            admitted_releases(each.specifier, universe.releases[each.package]),
        )
        if each.package in masks.ranks
        else None
        for each in universe.limits
    ]


def _only(
    masks: Masks, facts: Container[_Fact], limiting: Sequence[tuple[int, int] | None]
) -> Masks:
    """Return the masks in which only some facts hold."""
    groups = tuple(
        tuple(
            (tuple(pair for pair in needs if (rank, pair[0]) in facts), versions)
            for needs, versions in each
        )
        for rank, each in enumerate(masks.groups)
    )
    allowed: dict[int, int] = {}
    for place, limit in enumerate(limiting):
        if limit is not None and (_LIMIT, place) in facts:
            allowed[limit[0]] = allowed.get(limit[0], -1) & limit[1]
    roots = tuple(root for root in masks.roots if (_USER, root[0]) in facts)
    return replace(masks, roots=roots, groups=groups).within(allowed)


def smallest(facts: Sequence[_T], conflicting: Callable[[Sequence[_T]], bool]) -> tuple[_T, ...]:
    """Return a smallest conflicting part of facts that conflict; early facts are preferred.

    It takes about k log(n/k) tries for a conflict of k among n facts.
    Source: U. Junker, QuickXplain, AAAI 2004.
    """

    def explain(known: list[_T], fresh: bool, open_facts: Sequence[_T]) -> list[_T]:
        if fresh and conflicting(known):
            return []
        if len(open_facts) <= 1:
            return list(open_facts)
        middle = len(open_facts) // 2
        first, second = open_facts[:middle], open_facts[middle:]
        later = explain([*known, *first], bool(first), second)
        earlier = explain([*known, *later], bool(later), first)
        return [*earlier, *later]

    return tuple(explain([], False, facts))


def nothing_fits(
    universe: Universe, request: Requirements, target: Target
) -> ResolutionError | None:
    """Explain a package of which no version can be taken that the user admits; None where all have.

    The reasons are those of the versions that the user's specifiers admit, most frequent first.
    """
    in_roles = {canonicalize_name(each.name) for role in request.alternatives for each in role}
    given = (*request.requirements, *request.constraints)
    for root in universe.roots:
        name = base_name(root.package)
        if name in universe.fitting or name in in_roles:
            continue
        limits = [each for each in given if canonicalize_name(each.name) == name]
        specifiers = dict.fromkeys(str(each.specifier) for each in limits)
        left_out = _left_out(name, universe, specifiers)
        requirement = name + ",".join(filter(None, specifiers))
        what = f"no version of {requirement} fits Python {target.python_minor} on {target.platform}"
        if left_out:
            return ResolutionError(what, why=reasons(left_out), fix=_way_out(name, left_out))
        if len(limits) <= 1:  # several limits of one package are a conflict among themselves
            why = f"no index has a version of {name} that {root.specifier or 'anything'} admits"
            return ResolutionError(what, why=why, fix="require another version")
    return None


def _left_out(
    name: str,
    universe: Universe,
    specifiers: Collection[str],
    of: Callable[[Iterable[bool]], bool] = all,
) -> tuple[Exclusion, ...]:
    """Return the versions that all (or any) of some specifiers admit and that are no candidates."""
    return tuple(
        each
        for each in universe.excluded.get(name, ())
        if of(admits(specifier, each.version) for specifier in specifiers)
    )


def _way_out(name: str, left_out: Sequence[Exclusion]) -> str:
    """Return what lets in what was left out, by the reason that is given most."""
    reason = Counter(each.reason for each in left_out).most_common(1)[0][0]
    if "--allow-build" in reason:
        return f"give --allow-build {name}, or require other versions"
    if reason.startswith("uploaded after"):
        return "give a later --exclude-newer, or require older versions"
    if reason.startswith("yanked"):
        return f"pin it exactly to have it nevertheless: {name}=={left_out[0].version}"
    if reason.startswith("a prerelease"):
        return "give --prerelease allow, or require other versions"
    return "choose another Python with --base (resolve: or --python), or require other versions"


def reasons(excluded: Sequence[Exclusion]) -> str:
    """Return why versions were left out, counted by reason: ``no wheel ... (12: 2.0.0, ...)``."""
    counted = Counter(each.reason for each in excluded)
    parts = []
    for reason, count in counted.most_common(3):
        names = [each.version for each in excluded if each.reason == reason]
        shown = ", ".join(names[:3]) + (", ..." if count > 3 else "")
        parts.append(f"{reason} ({count}: {shown})")
    return "; ".join(parts)


def chain(core: Core, universe: Universe, request: Requirements) -> tuple[str, ...]:
    """Return the facts of a conflict as lines, from what the user requires on."""
    named = list(
        dict.fromkeys([*core.roots, *(package for edge in core.edges for package in edge)])
    )
    lines = [f"you require {each}" for each in universe.roots if each.package in core.roots]
    open_versions = _OpenVersions(core, universe)
    addressed: set[str] = set()
    for package, needed in _ordered(core):
        requiring = tuple(open_versions.requiring(package, needed))
        lines += _edge_lines(package, needed, requiring)
        refused = open_versions.refused(package, needed)
        lines += _nothing_fits(needed, refused, universe)
        direct = [each for each in refused if each.specifier.startswith("@")]
        lines += map(_not_followed, direct)
        if direct and len(direct) == len(refused):
            addressed.add(base_name(needed))
    for name in dict.fromkeys(base_name(package) for package in named):
        pin = "".join(f"=={version}" for package, version in request.locked if package == name)
        lines += _own_limits(name, core, request, pin)
        if name in addressed:
            continue  # it does not come from an index
        if name in universe.unknown:
            lines.append(f"no index has a package named {name}")
        elif not universe.releases.get(name):
            lines += _no_version(name, universe, [*_requested(name, core, universe), pin])
    return tuple(lines)


def _own_limits(name: str, core: Core, request: Requirements, pin: str) -> Iterator[str]:
    """Yield what the user's constraints, lock (``pin``) and overrides say of a package."""
    for limit in core.limits:
        if limit.package == name:
            yield f"you limit {name} to {limit.specifier}"
    if pin:
        yield f"the lock holds {name} to {pin}"
    for each in request.overrides:
        if canonicalize_name(each.name) == name:
            yield f"you override what is required of {name}: {each}"


def _requested(name: str, core: Core, universe: Universe) -> list[str]:
    """Return the specifiers of a package that are part of a conflict."""
    roots = [each for each in universe.roots if each.package in core.roots]
    requirements = [each for each in (*roots, *core.limits) if base_name(each.package) == name]
    return [each.specifier for each in requirements if not each.specifier.startswith("@")]


def _no_version(name: str, universe: Universe, specifiers: Sequence[str]) -> Iterator[str]:
    """Yield why a package has no version that these specifiers admit."""
    excluded = _left_out(name, universe, specifiers)
    if excluded or not any(specifiers):
        yield f"no version of {name} can be taken: {reasons(excluded) or 'there is none'}"


def _ordered(core: Core) -> Iterator[tuple[str, str]]:
    """Yield the edges so that what is required was spoken of before, as far as it goes."""
    spoken, left = set(core.roots), list(core.edges)
    while left:
        edge = next((each for each in left if each[0] in spoken), left[0])
        left.remove(edge)
        spoken.add(edge[1])
        yield edge


_SHOWN = 3
_REPOSITORY = re.compile(r"@ ((git|hg|svn|bzr)(\+[a-z]+)?|ssh):", re.IGNORECASE)


class _OpenVersions:
    """The versions of each package that the facts stated so far leave open."""

    def __init__(self, core: Core, universe: Universe) -> None:
        self._universe = universe
        self._masks: dict[str, int] = {}
        for each in universe.roots:
            if each.package in core.roots:
                self._narrow(each.package, self._admitted(each))

    def requiring(self, package: str, needed: str) -> Iterator[tuple[str, str]]:
        """Yield (version, what it requires) of the open versions; and follow what they require."""
        admitted = 0
        for label, found in self._requirements(package, needed):
            common = -1
            for each in found:
                common &= self._admitted(each)
            admitted |= common
            yield label, " and ".join(str(each) for each in found)
        self._narrow(needed, admitted)

    def refused(self, package: str, needed: str) -> tuple[Dependency, ...]:
        """Return what the open versions require of a package, where no version of it will do."""
        own = [each for _, found in self._requirements(package, needed) for each in found]
        return () if any(map(self._admitted, own)) else tuple(dict.fromkeys(own))

    def _requirements(self, package: str, needed: str) -> Iterator[tuple[str, list[Dependency]]]:
        """Yield (version, dependencies on the other package) of the open versions that have any."""
        mask = self._masks.get(package) or -1
        releases, needs = self._universe.releases[package], self._universe.needs[package]
        for bit, (release, own) in enumerate(zip(releases, needs, strict=True)):
            found = [each for each in own if each.package == needed]
            if mask >> bit & 1 and found:
                yield release.label, found

    def _narrow(self, package: str, mask: int) -> None:
        self._masks[package] = self._masks.get(package, -1) & mask

    def _admitted(self, dependency: Dependency) -> int:
        return admitted_releases(
            dependency.specifier, self._universe.releases.get(dependency.package, ())
        )


def _nothing_fits(name: str, refused: Sequence[Dependency], universe: Universe) -> Iterator[str]:
    """Yield why a package has no version that is required of it, where it has others."""
    if not refused or not universe.releases.get(name):
        return
    wanted = [each.specifier for each in refused if not each.specifier.startswith("@")]
    if excluded := _left_out(base_name(name), universe, wanted, any):
        yield f"no such version of {name} can be taken: {reasons(excluded)}"


def _not_followed(direct: Dependency) -> str:
    """Return what becomes of an address that a package, not the user, requires."""
    name = base_name(direct.package)
    if _REPOSITORY.match(direct.specifier):
        return (
            f"stackgen takes nothing from repositories: build a wheel of {name}, "
            f'and require that with an override: "{name} @ file:///PATH.whl"'
        )
    return (
        "stackgen takes a file by its address only where you require it yourself: "
        f'add "{name} {direct.specifier}"'
    )


def _edge_lines(package: str, needed: str, requiring: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield what versions of a package require of another, joined where they say the same."""
    pairs = tuple(requiring)
    joined: dict[str, list[str]] = {}
    for version, text in pairs:
        joined.setdefault(text, []).append(version)
    if package.endswith("]") and needed == base_name(package):
        return  # that an extra needs its own package goes without saying
    every = [version for version, _ in pairs]
    for number, (text, versions) in enumerate(joined.items()):
        if number == _SHOWN:
            yield f"{package}: {len(joined) - _SHOWN} further requirements of {needed}"
            return
        verb = "requires" if len(versions) == 1 else "require"
        yield f"{package} {_range(versions, every)} {verb} {text}"


def _range(versions: Sequence[str], every: Sequence[str]) -> str:
    """Return some of the versions in words: as a range only where no other lies within."""
    first = every.index(versions[0])
    if len(versions) > 2 and list(versions) == list(every[first : first + len(versions)]):
        return f"{versions[-1]} to {versions[0]}"
    *others, last = reversed(versions)
    shown = [*others[:_SHOWN], *([f"{len(others) - _SHOWN} more"] if others[_SHOWN:] else [])]
    return f"{', '.join(shown)} and {last}" if shown else last


def conflict(core: Core, universe: Universe, request: Requirements) -> ResolutionError:
    """Explain a conflict; the caller adds what would help, after trying it."""
    roots = [each for each in universe.roots if each.package in core.roots]
    what = "no stack satisfies " + " with ".join(str(each) for each in roots)
    why = ";\n       ".join(chain(core, universe, request))
    return ResolutionError(what, why=why, fix="relax one of these requirements")


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """One requirement that is relaxed.

    words: what to do, as in "leave out '<1.20' of numpy".
    """

    words: str
    request: Requirements


def relaxations(core: Core, request: Requirements) -> tuple[Relaxation, ...]:
    """Return requirements whose relaxation may resolve a conflict; each is one step."""
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


def _bent(named: set[str], request: Requirements) -> Iterator[Relaxation]:
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


def format_count(number: int) -> str:
    """Return a count exactly while it can be read, and its magnitude beyond."""
    return f"{number:,}" if number < 10**9 else f"{number:.1e}".replace("e+", "e")


def format_stack_count(count: int) -> str:
    """Return ``1 stack``, ``14 stacks`` or ``4.0e55 stacks``."""
    return f"{format_count(count)} {'stack' if count == 1 else 'stacks'}"
