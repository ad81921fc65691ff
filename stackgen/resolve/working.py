"""The completion "newest-working": what to hold back when the newest completion does not run.

Metadata promise more than code keeps: tensorflow 2.8 admits numpy 2 and protobuf 6, and cannot be
imported with them. A completion as of the varied release's own time mostly works; from there, the
fewest packages are held back.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from stackgen.resolve.choose import contemporaries
from stackgen.resolve.dependencies import parsed_version
from stackgen.resolve.space import Slice, Space
from stackgen.values import Lock

CONTEMPORARY = timedelta(days=365)
"""How much later than the varied release a contemporary of it may have been uploaded."""

Works = Callable[[Lock], bool]
Held = Mapping[str, frozenset[str]]


def newest_working(
    space: Space,
    choice: Slice,
    failing: Lock,
    works: Works,
    *,
    preferred: Mapping[str, str] | None = None,
) -> Lock | None:
    """Return a completion that works and holds back few packages, or None.

    It costs about 2 + log2(n) trials, n being the packages whose contemporary version is older
    than the newest one: is all of it old enough; which first packages, most suspicious first, must
    be old (bisected); is the last of these enough on its own.

    Args:
        space: the space of the choice.
        choice: the versions of the varied packages.
        failing: its newest completion, known not to work.
        works: tries a stack; the dear part. What it raises ends the search.
        preferred: versions to keep where they are open (a user's lock).
    """
    allowed = contemporary_versions(space, failing, choice)
    old = space.complete(choice, allowed, preferred=preferred) if allowed else None
    if old is None or old.id == failing.id or not works(old):
        return None
    suspects = _suspects(
        failing.versions, old.versions, varied={name for name, _ in choice.versions}
    )

    def holding(names: Sequence[str]) -> Lock | None:
        held = {name: allowed[name] for name in names if name in allowed}
        return space.complete(choice, held, preferred=preferred)

    best, low, high = old, 0, len(suspects)
    while high - low > 1:
        middle = (low + high) // 2
        lock = holding(suspects[:middle])
        if lock is not None and works(lock):
            best, high = lock, middle
        else:
            low = middle
    alone = holding(suspects[high - 1 : high])
    if alone is not None and alone.id not in (best.id, failing.id) and works(alone):
        return alone
    return best


def contemporary(
    space: Space, choice: Slice, *, preferred: Mapping[str, str] | None = None
) -> Lock | None:
    """Return the newest completion of what was uploaded at most a year after the varied release.

    None where there is none, or where the index does not tell upload times.
    """
    newest = space.complete(choice, preferred=preferred)
    allowed = contemporary_versions(space, newest, choice) if newest else {}
    return space.complete(choice, allowed, preferred=preferred) if allowed else None


def contemporary_versions(space: Space, lock: Lock, choice: Slice) -> Held:
    """Return, by package, the versions not newer than the varied release's time plus a year.

    Empty where the index does not tell upload times.
    """
    first = choice.versions[0][0] if choice.versions else ""
    uploaded = next((a.uploaded for a in lock.artifacts if a.name == first), None)
    if uploaded is None:
        return {}
    moment = datetime.fromisoformat(uploaded.replace("Z", "+00:00")) + CONTEMPORARY
    releases = {
        name: [(each.label, each.artifact.uploaded) for each in found]
        for name, found in space.universe.releases.items()
        if "[" not in name
    }
    return contemporaries(releases, newest_upload=moment.isoformat())


def _suspects(
    new: Mapping[str, str], old: Mapping[str, str], *, varied: set[str]
) -> tuple[str, ...]:
    """Return the packages that differ, those with a new major version first: they break most."""
    differ = [name for name in new if name in old and new[name] != old[name]]
    return tuple(
        sorted(
            (name for name in differ if name not in varied),
            key=lambda name: (_major(new[name]) == _major(old[name]), name),
        )
    )


def _major(version: str) -> int:
    return parsed_version(version).release[0]
