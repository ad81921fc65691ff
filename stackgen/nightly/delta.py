"""The pairs of stacks that separate the effect of one release from all else."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stackgen.errors import ResolutionError

Pins = Mapping[str, str]
"""The version of each package of a stack."""
Resolve = Callable[[Sequence[str], Sequence[str]], Pins]
"""Returns the newest stack of requirements within constraints, or raises ResolutionError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two stacks: before a change and after it."""

    old: Pins
    new: Pins

    @property
    def changes(self) -> tuple[tuple[str, str | None, str | None], ...]:
        """Return the packages in which they differ, with both versions; None: absent."""
        names = sorted(self.old.keys() | self.new.keys())
        both = ((name, self.old.get(name), self.new.get(name)) for name in names)
        return tuple(each for each in both if each[1] != each[2])


def release_pair(
    resolve: Resolve,
    requirements: Sequence[str],
    reference: Pins,
    *,
    package: str,
    version: str,
    previous: str,
) -> Pair:
    """Return the stacks with a release and with its predecessor, all else equal where possible.

    Args:
        resolve: the index.
        requirements: that all stacks satisfy.
        reference: the stack that the last night ended with.
        package: whose release it is.
        version: the release.
        previous: its predecessor.

    Raises:
        ResolutionError: no stack has the release, or its predecessor.
    """
    new = _nearest(resolve, [*requirements, f"{package}=={version}"], reference, package)
    wanted = [*requirements, f"{package}=={previous}"]
    try:
        old = resolve(wanted, _pins(new, package))
    except ResolutionError:  # both versions need others: these change together
        old = _nearest(resolve, wanted, reference, package)
    return Pair(old=old, new=new)


def _nearest(resolve: Resolve, requirements: Sequence[str], reference: Pins, package: str) -> Pins:
    """Return a stack of the requirements that differs from the reference in as little as possible.

    Raises:
        ResolutionError: there is none at all.
    """
    try:
        return resolve(requirements, _pins(reference, package))
    except ResolutionError:
        free = resolve(requirements, [])
    kept = [
        f"{name}=={version}"
        for name, version in reference.items()
        if name != package and free.get(name, version) == version
    ]
    found = free
    for name, version in reference.items():
        if name != package and free.get(name, version) != version:
            try:
                found = resolve(requirements, [*kept, f"{name}=={version}"])
            except ResolutionError:
                continue
            kept.append(f"{name}=={version}")
    return found


def _pins(stack: Pins, without: str) -> list[str]:
    return [f"{name}=={version}" for name, version in stack.items() if name != without]


def stack_text(pins: Pins, first: Sequence[str] = ()) -> str:
    """Return a stack as a command line names it; packages that come first give it its name."""
    order = {name: place for place, name in enumerate(first)}
    names = sorted(pins, key=lambda name: (order.get(name, len(order)), name))
    return " ".join(f"{name}=={pins[name]}" for name in names)
