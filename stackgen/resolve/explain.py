"""Why nothing resolves, as a chain that a person can follow."""

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
    """Explain a required package of which no version at all can be taken; None where all have some.

    The reasons are those of the versions that the user's specifiers admit, most frequent first.
    """
    for root in universe.roots:
        name = base_name(root.package)
        limits = _limits(name, request)
        if name in universe.fitting or len(limits) > 1:
            continue  # several limits of one package are a conflict among themselves
        asked = [
            each
            for each in universe.excluded.get(name, ())
            if root.specifier.startswith("@") or admits(root.specifier, each.version)
        ]
        what = f"no version of {root} fits Python {target.python_minor} here"
        if not asked:
            why = f"no index has a version of {name} that {root.specifier or 'anything'} admits"
            return ResolutionError(what, why=why, fix="ask for another version")
        fix = "choose another Python with --base or --python, or other versions"
        return ResolutionError(what, why=reasons(asked), fix=fix)
    return None


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
    for package, needed in _ordered(core):
        said = tuple(open_versions.requiring(package, needed))
        lines += _edge_lines(package, needed, said)
        lines += _none_here(needed, open_versions.refused(package, needed), universe)
    for name in dict.fromkeys(base_name(package) for package in named):
        limits = [each for each in request.constraints if canonicalize_name(each.name) == name]
        lines += [f"you limit {name} to {each.specifier}" for each in limits]
        if name in universe.unknown:
            lines.append(f"no index has a package named {name}")
        elif not universe.releases.get(name) and not limits:
            left_out = reasons(universe.excluded.get(name, ()))
            lines.append(
                f"no version of {name} can be taken: {left_out or 'none is that new or old'}"
            )
    return tuple(lines)


def _ordered(core: Core) -> Iterator[tuple[str, str]]:
    """Yield the edges so that what is required was spoken of before, as far as it goes."""
    spoken, left = set(core.roots), list(core.edges)
    while left:
        edge = next((each for each in left if each[0] in spoken), left[0])
        left.remove(edge)
        spoken.add(edge[1])
        yield edge


_SHOWN = 3


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


def _edge_lines(package: str, needed: str, said: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield what versions of a package require of another, joined where they say the same."""
    joined: dict[str, list[str]] = {}
    for version, text in said:
        joined.setdefault(text, []).append(version)
    if package.endswith("]") and needed == base_name(package):
        return  # that an extra needs its own package goes without saying
    for number, (text, versions) in enumerate(joined.items()):
        if number == _SHOWN:
            yield f"{package}: {len(joined) - _SHOWN} further requirements of {needed}"
            return
        verb = "requires" if len(versions) == 1 else "require"
        yield f"{package} {_range(versions)} {verb} {text}"


def _range(versions: Sequence[str]) -> str:
    if len(versions) <= 2:
        return " and ".join(reversed(versions))
    return f"{versions[-1]} to {versions[0]}"


def conflict(core: Core, universe: Universe, request: Request) -> ResolutionError:
    """Explain a conflict; what would help is added by whoever can try it out."""
    roots = [each for each in universe.roots if each.package in core.roots]
    what = "no stack satisfies " + " with ".join(str(each) for each in roots)
    why = ";\n       ".join(chain(core, universe, request))
    return ResolutionError(what, why=why, fix="relax one of these requirements")


def _limits(name: str, request: Request) -> Sequence[Requirement]:
    given: Iterable[Requirement] = (*request.requirements, *request.constraints)
    return [each for each in given if canonicalize_name(each.name) == name]
