"""A user's lock as it stands: the very files that a target takes of it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from packaging.specifiers import SpecifierSet

from stackgen.errors import ResolutionError, UsageError
from stackgen.index import PackageIndex
from stackgen.locks import in_target
from stackgen.pipeline.selection import read_lock_file
from stackgen.pipeline.targets import refuse_python
from stackgen.resolve import Policy
from stackgen.resolve.candidates import Selector
from stackgen.values import Artifact, Lock, LockedPackage, LockFile, Prereleases, Target

_SHOWN = 5
_WHEELS_ALONE = Policy(prereleases=Prereleases.ALLOW)


def read_pins(path: Path) -> LockFile:
    """Read a lock of which all that it holds can be installed.

    Raises:
        UsageError: it is no lock, or holds what no index has.
    """
    lockfile = read_lock_file(path)
    if lockfile.skipped:
        raise UsageError(
            f"{path} holds what no index has",
            why="; ".join(lockfile.skipped[:_SHOWN]),
            fix="build a wheel of it, put it into a folder (--find-links FOLDER), and lock that",
        )
    return lockfile


def pinned(
    index: PackageIndex, lockfile: LockFile, target: Target, policy: Policy = _WHEELS_ALONE
) -> Lock:
    """Return exactly what a lock says: nothing is added, and nobody asks what packages require.

    Args:
        index: where its files are looked up.
        lockfile: what the user locked.
        target: what it is installed on.
        policy: says of which packages a source distribution will do.

    Raises:
        UsageError: it is for another Python, or installs nothing there.
        ResolutionError: no index has a file of some package that lock and target admit.
        IndexUnavailableError: an index cannot be asked.
    """
    refuse_python(lockfile, target.python, "the base")
    packages = in_target(lockfile, target)
    if not packages:
        raise UsageError(
            f"{lockfile.path} installs nothing here",
            why=f"no package of it is for Python {target.python}",
            fix="name another base with --base (stackgen images lists them)",
        )
    index.candidates_many([each.name for each in packages])  # together, not one by one
    found = [(each, _artifact(index, each, target, policy)) for each in packages]
    problems = [f"{p.name} {p.version}: {a}" for p, a in found if isinstance(a, str)]
    if problems:
        more = f", and {len(problems) - _SHOWN} more" * (len(problems) > _SHOWN)
        raise ResolutionError(
            f"{lockfile.path} cannot be installed here",
            why="; ".join(problems[:_SHOWN]) + more,
            fix=_fix([(p.name, a) for p, a in found if isinstance(a, str)]),
        )
    return Lock(artifacts=tuple(a for _, a in found if isinstance(a, Artifact)))


def _artifact(
    index: PackageIndex, package: LockedPackage, target: Target, policy: Policy
) -> Artifact | str:
    """Return the file that the target takes, or why there is none."""
    files = index.candidates_many([package.name])[package.name]
    if files is None:
        return "no index has it"
    hashes = ((package.name, frozenset(package.hashes)),) if package.hashes else ()
    policy = replace(policy, hashes=hashes)
    pin = SpecifierSet(f"=={package.version}", prereleases=True)
    offered = Selector(target, policy).select(files, [str(pin)])
    fitting = [each.found for each in offered if pin.contains(each.version)]
    why = next((each for each in fitting if isinstance(each, str)), "no index has this version")
    return _first_file(fitting) or why.partition(" (--allow-build")[0]  # the fix tells how


def _fix(problems: Sequence[tuple[str, str]]) -> str:
    sources = [name for name, why in problems if "only a source distribution" in why]
    parts = ["lock again for this base, or name the index that has it (--extra-index-url)"] * (
        len(sources) < len(problems)
    )
    if sources:
        options = " ".join(f"--allow-build {name}" for name in sources[:_SHOWN])
        parts.append(f"if you trust their authors, let sources be built here: add {options}")
    return "; ".join(parts)


def _first_file(found: Sequence[Artifact | str]) -> Artifact | None:
    return next((each for each in found if isinstance(each, Artifact)), None)
