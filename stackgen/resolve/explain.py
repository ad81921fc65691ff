"""Why nothing resolves: the smallest conflict among the requirements, in a person's words."""

from collections import Counter
from collections.abc import Callable, Sequence

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stackgen.errors import ResolutionError
from stackgen.resolve.closure import Universe
from stackgen.resolve.dependencies import base_name, specifier_set
from stackgen.values import Exclusion, Target

Satisfiable = Callable[[Sequence[Requirement]], bool]


def minimal_conflict(
    requirements: Sequence[Requirement], satisfiable: Satisfiable
) -> tuple[Requirement, ...]:
    """Return a smallest conflicting part: leaving out any one of it would make it satisfiable.

    Found by deletion, so it costs one resolution per requirement.
    """
    kept = list(requirements)
    for each in requirements:
        fewer = [other for other in kept if other is not each]
        if fewer and not satisfiable(fewer):
            kept = fewer
    return tuple(kept)


def nothing_fits(universe: Universe, target: Target) -> ResolutionError | None:
    """Explain a required package of which no version at all can be taken; None where all have some.

    The reasons are those of the versions that the user's specifiers admit, most frequent first.
    """
    for root in universe.roots:
        name = base_name(root.package)
        others = {each.specifier for each in universe.roots if base_name(each.package) == name}
        if name in universe.fitting or len(others) > 1:
            continue  # several requirements of one package are a conflict among themselves
        wanted = specifier_set(root.specifier)
        asked = [each for each in universe.excluded[name] if wanted.contains(each.version)]
        what = f"no version of {name}{root.specifier} fits Python {target.python_minor} here"
        if not asked:
            why = f"no index has a version of {name} that {root.specifier or 'anything'} admits"
            return ResolutionError(what, why=why, fix="ask for another version")
        fix = "choose another Python with --base (stackgen images lists them), or other versions"
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


def conflict(parts: Sequence[Requirement], universe: Universe) -> ResolutionError:
    """Explain requirements that exclude each other, with the dependency lines that do it.

    Args:
        parts: a minimal conflict.
        universe: of these parts.
    """
    what = "no stack satisfies " + " with ".join(str(each) for each in parts)
    lines = _clashes(parts, universe)
    why = "; ".join(lines[:3]) if lines else "what they depend on has no common version"
    fix = "relax one of them: " + " or ".join(f"leave out {str(each)!r}" for each in parts)
    return ResolutionError(what, why=why, fix=fix)


def _clashes(parts: Sequence[Requirement], universe: Universe) -> list[str]:
    """Return what the newest releases of the parts require of each other, and cannot have."""
    names = {canonicalize_name(each.name) for each in parts}
    found: list[str] = []
    for name in sorted(names):
        found += universe.clashes[name]
        for release, needs in list(zip(universe.releases[name], universe.needs[name], strict=True)):
            for need in needs:
                others = universe.releases.get(base_name(need.package), ())
                wanted = specifier_set(need.specifier)
                if not any(wanted.contains(each.version) for each in others):
                    asked = f"{need.package}{need.specifier}"
                    found.append(f"{name} {release.version} requires {asked}")
    return found
