"""Why nothing resolves, as a chain that a person can follow."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stackgen.errors import ResolutionError
from stackgen.resolve.closure import Universe
from stackgen.resolve.conflicts import Core
from stackgen.resolve.dependencies import Dependency, admits, base_name
from stackgen.resolve.masks import admitted_releases
from stackgen.resolve.request import Request
from stackgen.values import Exclusion, Target


def nothing_fits(universe: Universe, request: Request, target: Target) -> ResolutionError | None:
    """Explain a package of which no version can be taken that the user admits; None where all have.

    The reasons are those of the versions that the user's specifiers admit, most frequent first.
    """
    for root in universe.roots:
        name = base_name(root.package)
        if name in universe.fitting or name in _of_roles(request):
            continue
        limits = _limits(name, request)
        left_out = _left_out(name, universe, limits)
        specifiers = dict.fromkeys(filter(None, (str(each.specifier) for each in limits)))
        asked = name + ",".join(specifiers)
        what = f"no version of {asked} fits Python {target.python_minor} on {target.platform}"
        if left_out:
            return ResolutionError(what, why=reasons(left_out), fix=_way_out(name, left_out))
        if len(limits) <= 1:  # several limits of one package are a conflict among themselves
            why = f"no index has a version of {name} that {root.specifier or 'anything'} admits"
            return ResolutionError(what, why=why, fix="ask for another version")
    return None


def _left_out(
    name: str, universe: Universe, limits: Iterable[Requirement]
) -> tuple[Exclusion, ...]:
    """Return the versions that the user's limits admit and that are no candidates."""
    specifiers = [str(each.specifier) for each in limits]
    return tuple(
        each
        for each in universe.excluded.get(name, ())
        if all(admits(specifier, each.version) for specifier in specifiers)
    )


def _way_out(name: str, left_out: Sequence[Exclusion]) -> str:
    """Return what lets in what was left out, by the reason that is given most."""
    reason = Counter(each.reason for each in left_out).most_common(1)[0][0]
    if "--allow-build" in reason:
        return f"give --allow-build {name}, or ask for other versions"
    if reason.startswith("uploaded after"):
        return "give a later --exclude-newer, or ask for older versions"
    if reason.startswith("yanked"):
        return f"pin it exactly to have it nevertheless: {name}=={left_out[0].version}"
    if reason.startswith("a prerelease"):
        return "give --prerelease allow, or ask for other versions"
    return "choose another Python with --base (resolve: or --python), or ask for other versions"


def reasons(excluded: Sequence[Exclusion]) -> str:
    """Return why versions were left out, counted by reason: ``no wheel ... (12: 2.0.0, ...)``."""
    counted = Counter(each.reason for each in excluded)
    parts = []
    for reason, count in counted.most_common(3):
        names = [each.version for each in excluded if each.reason == reason]
        shown = ", ".join(names[:3]) + (", ..." if count > 3 else "")
        parts.append(f"{reason} ({count}: {shown})")
    return "; ".join(parts)


def chain(core: Core, universe: Universe, request: Request) -> tuple[str, ...]:
    """Return the facts of a conflict as lines, from what the user requires on."""
    named = list(
        dict.fromkeys([*core.roots, *(package for edge in core.edges for package in edge)])
    )
    lines = [f"you require {each}" for each in universe.roots if each.package in core.roots]
    open_versions = _OpenVersions(core, universe)
    addressed: set[str] = set()
    for package, needed in _ordered(core):
        said = tuple(open_versions.requiring(package, needed))
        lines += _edge_lines(package, needed, said)
        refused = open_versions.refused(package, needed)
        lines += _none_here(needed, refused, universe)
        direct = [each for each in refused if each.specifier.startswith("@")]
        lines += map(_not_followed, direct)
        if direct and len(direct) == len(refused):
            addressed.add(base_name(needed))
    for name in dict.fromkeys(base_name(package) for package in named):
        lines += [f"you limit {name} to {e.specifier}" for e in core.limits if e.package == name]
        held = "".join(f"=={version}" for package, version in request.held if package == name)
        lines += [f"the lock holds {name} to {held}"] if held else []
        lines += [
            f"you override what is required of {name}: {each}"
            for each in request.overrides
            if canonicalize_name(each.name) == name
        ]
        if name in addressed:
            continue  # no index was to be asked for it
        if name in universe.unknown:
            lines.append(f"no index has a package named {name}")
        elif not universe.releases.get(name):
            lines += _no_version(name, universe, [*_asked(name, core, universe), held])
    return tuple(lines)


def _asked(name: str, core: Core, universe: Universe) -> list[str]:
    """Return the specifiers of a package that are part of a conflict."""
    roots = [each for each in universe.roots if each.package in core.roots]
    asked = [each for each in (*roots, *core.limits) if base_name(each.package) == name]
    return [each.specifier for each in asked if not each.specifier.startswith("@")]


def _no_version(name: str, universe: Universe, specifiers: Sequence[str]) -> Iterator[str]:
    """Yield why a package has no version that these specifiers admit."""
    excluded = [
        each
        for each in universe.excluded.get(name, ())
        if all(admits(specifier, each.version) for specifier in specifiers)
    ]
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
    """The versions of each package that the facts told so far leave open."""

    def __init__(self, core: Core, universe: Universe) -> None:
        self._universe = universe
        self._masks: dict[str, int] = {}
        for each in universe.roots:
            if each.package in core.roots:
                self._narrow(each.package, self._admitted(each))

    def requiring(self, package: str, needed: str) -> Iterator[tuple[str, str]]:
        """Yield (version, what it requires) of the open versions; and follow what they require."""
        mask = self._masks.get(package) or -1
        admitted = 0
        releases, needs = self._universe.releases[package], self._universe.needs[package]
        for bit, (release, own) in enumerate(zip(releases, needs, strict=True)):
            found = [each for each in own if each.package == needed]
            if mask >> bit & 1 and found:
                common = -1
                for each in found:
                    common &= self._admitted(each)
                admitted |= common
                yield release.label, " and ".join(str(each) for each in found)
        self._narrow(needed, admitted)

    def refused(self, package: str, needed: str) -> tuple[Dependency, ...]:
        """Return what the open versions require of a package, where no version of it will do."""
        mask = self._masks.get(package) or -1
        own = [
            each
            for bit, needs in enumerate(self._universe.needs[package])
            if mask >> bit & 1
            for each in needs
            if each.package == needed
        ]
        return () if any(map(self._admitted, own)) else tuple(dict.fromkeys(own))

    def _narrow(self, package: str, mask: int) -> None:
        self._masks[package] = self._masks.get(package, -1) & mask

    def _admitted(self, dependency: Dependency) -> int:
        return admitted_releases(
            dependency.specifier, self._universe.releases.get(dependency.package, ())
        )


def _none_here(name: str, refused: Sequence[Dependency], universe: Universe) -> Iterator[str]:
    """Yield why a package has no version that is required of it, where it has others."""
    if not refused or not universe.releases.get(name):
        return
    wanted = [each.specifier for each in refused if not each.specifier.startswith("@")]
    excluded = [
        each
        for each in universe.excluded.get(base_name(name), ())
        if any(admits(specifier, each.version) for specifier in wanted)
    ]
    if excluded:
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


def _edge_lines(package: str, needed: str, said: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield what versions of a package require of another, joined where they say the same."""
    pairs = tuple(said)
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


def conflict(core: Core, universe: Universe, request: Request) -> ResolutionError:
    """Explain a conflict; what would help is added by whoever can try it out."""
    roots = [each for each in universe.roots if each.package in core.roots]
    what = "no stack satisfies " + " with ".join(str(each) for each in roots)
    why = ";\n       ".join(chain(core, universe, request))
    return ResolutionError(what, why=why, fix="relax one of these requirements")


def _limits(name: str, request: Request) -> Sequence[Requirement]:
    given: Iterable[Requirement] = (*request.requirements, *request.constraints)
    return [each for each in given if canonicalize_name(each.name) == name]


def _of_roles(request: Request) -> set[str]:
    return {canonicalize_name(each.name) for role in request.alternatives for each in role}
