"""Small indexes made on the spot, resolved by the real closure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from scipy.special import chdtrc

from stackgen.model.packages import Artifact, Metadata, Target
from stackgen.resolve.candidates import Policy
from stackgen.resolve.closure import Closure, Universe
from stackgen.resolve.compilation import merge_closures
from stackgen.resolve.requirements import Requirements, parse_requirements
from stackgen.resolve.space import Space

Index = Mapping[str, Mapping[str, Sequence[str]]]
"""By package and version: the Requires-Dist lines."""

TARGET = Target(
    python="3.11.2",
    markers=(
        ("implementation_name", "cpython"),
        ("platform_machine", "x86_64"),
        ("python_full_version", "3.11.2"),
        ("python_version", "3.11"),
        ("sys_platform", "linux"),
    ),
    tags=("cp311-cp311-manylinux_2_36_x86_64", "cp311-cp311-manylinux_2_17_x86_64", "py3-none-any"),
)


def artifact(name: str, version: str, tag: str = "py3-none-any", **fields: str | None) -> Artifact:
    return Artifact(
        name=name,
        version=version,
        filename=f"{name.replace('-', '_')}-{version}-{tag}.whl",
        sha256=(name + version + tag).encode().hex().ljust(64, "0")[:64],
        url=f"file:///nowhere/{name}",
        index="here",
        requires_python=fields.get("requires_python"),
        uploaded=fields.get("uploaded"),
        yanked=fields.get("yanked"),
    )


def closure(
    index: Index,
    *requirements: str,
    pages: Mapping[str, tuple[Artifact, ...]] | None = None,
    policy: Policy | None = None,
    request: Requirements | None = None,
    barred: Collection[str] = (),
    pruned: bool = True,
    all_prereleases: bool = False,
) -> Closure:
    """Complete a closure from a made-up index; ``pages`` replaces what it offers of a package."""
    offered = {
        name: tuple(artifact(name, version) for version in versions)
        for name, versions in index.items()
    } | dict(pages or {})
    wanted = request or replace(parse_requirements(*requirements), policy=policy or Policy())
    found = Closure(wanted, TARGET, barred=barred, pruned=pruned, all_prereleases=all_prereleases)
    while (need := found.need()).pages or need.metadata:
        found.give_pages({name: offered.get(name) for name in need.pages})
        found.give_metadata(
            {
                each: Metadata(requires_dist=tuple(index.get(each.name, {}).get(each.version, ())))
                for each in need.metadata
            }
        )
    return found


def universe(index: Index, request: Requirements, *, pruned: bool = True) -> Universe:
    """Complete the closures of all ways to fill a request's roles."""
    parts = [
        (each, closure(index, request=each.request, barred=each.barred, pruned=pruned).universe())
        for each in request.combinations()
    ]
    return merge_closures(request, parts)


def space(index: Index, *requirements: str, request: Requirements | None = None) -> Space:
    return Space(universe(index, request or parse_requirements(*requirements)))


def chance_of_counts(counts: Collection[int]) -> float:
    """Return the p value of a chi-squared test that what was counted is equally frequent."""
    expected = sum(counts) / len(counts)
    distance = sum((count - expected) ** 2 / expected for count in counts)
    return float(chdtrc(len(counts) - 1, distance))
