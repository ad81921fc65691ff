"""What would decide an answer: the command that measures it, and what that needs."""

import math
import platform
import shlex
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from stackgen.campaign.backend import DEFAULT_BASE
from stackgen.campaign.candidates import may_vary, pinned
from stackgen.campaign.prepare import BUILD_BYTES_S, DOWNLOAD_BYTES_S, rough_estimate
from stackgen.commands.advise_request import AdviseRequest, measure_command
from stackgen.commands.lock_changes import index_requirements
from stackgen.errors import IndexUnavailableError, ResolutionError, UsageError
from stackgen.images.base_definitions import read_definitions
from stackgen.images.targets import stated_target
from stackgen.index import PackageIndex
from stackgen.knowledge.allowed import listed
from stackgen.knowledge.equivalence import VARIED, default_versions, varied_in, versions_of
from stackgen.locks.reading import admits_python, in_target
from stackgen.model.choices import Prereleases
from stackgen.model.evidence import Advice, Answer, ChangePolicy
from stackgen.model.packages import LockFile, Target
from stackgen.resolve.candidates import Policy, Selector
from stackgen.resolve.dependencies import parse_requirement
from stackgen.storage.wheels import WheelStore

CANDIDATES = 2
"""How many stacks one campaign for an advice compares with the lock at most."""
_MINUTES = 15  # the budget that is proposed
_USUAL_S, _STEP_S = 120.0, 300.0  # of it, for downloads and images; more of that makes it longer


@dataclass(kw_only=True)
class NextMeasurement:
    """Measuring for a lock that nothing is decided of.

    update: whether it is compared with another lock.
    target: what is resolved for, if that is known. store: the wheels that need no download.
    """

    request: AdviseRequest
    lockfile: LockFile
    update: bool
    target: Target | None
    index: PackageIndex
    store: WheelStore

    def command(self, advice: Advice, download: int) -> str:
        """Return the command that measures what would decide an answer.

        Args:
            advice: the answer.
            download: how many bytes have to be downloaded first: the budget has to last for them.
        """
        getting_s = download / DOWNLOAD_BYTES_S + download / BUILD_BYTES_S
        more = max(0, math.ceil((getting_s - _USUAL_S) / _STEP_S))
        minutes = _MINUTES + more * round(_STEP_S / 60)
        return measure_command(self.request, self._admitting(advice), self._base, minutes)

    @cached_property
    def _base(self) -> str:
        if self.request.target.base or self.request.options.python:
            return ""
        return python_with_wheels(self.lockfile, self.index)

    def needs(self, advice: Advice) -> tuple[int | None, int | None]:
        """Return about what measuring will download, and take on disk; None where not known."""
        varied = {each.name for following in advice.next for each in following.changes}
        varied |= {*varied_in(versions_of(self.lockfile)), *self.request.options.only}
        others = 1 if self.update else CANDIDATES
        try:
            own = pinned(self.index, self.lockfile, self._here())
            needs = rough_estimate(own, varied, others, index=self.index, store=self.store)
        except (IndexUnavailableError, ResolutionError, UsageError):
            return None, None
        return needs or (None, None)

    def _here(self) -> Target:
        """Return the target, or that of the newest Python here that the lock admits."""
        own = self.request.options.python or platform.python_version()
        pythons = (own, *(f"3.{minor}" for minor in range(14, 5, -1)))
        python = next((p for p in pythons if admits_python(self.lockfile, p)), own)
        python = self._base or python
        return self.target or stated_target(python=python, platform="linux")

    @cached_property
    def is_pinned(self) -> bool:
        """Return whether the user's own requirements admit no other versions of what varies."""
        policy = replace(self.request.options.policy, allow_major=True, allow_downgrade=True)
        free = replace(self.lockfile, requirements=())
        try:
            return not self._admits_another(policy, self.lockfile) and self._admits_another(
                policy, free
            )
        except (IndexUnavailableError, UsageError):
            return False

    def _admitting(self, advice: Advice) -> str:
        """Return the option without which nothing is measured beside the lock; "" for none.

        Of a lock that nothing is known of, the newest versions are measured; it may hold them.
        """
        if advice.answer is Answer.ELSEWHERE and not advice.next:
            return advice.option
        if advice.answer is not Answer.UNKNOWN or advice.next or self.update:
            return ""
        policy = self.request.options.policy
        wider = {
            "": policy,
            "--allow-major": replace(policy, allow_major=True),
            "--allow-downgrade": replace(policy, allow_downgrade=True),
        }
        try:
            return next(
                (o for o, each in wider.items() if self._admits_another(each, self.lockfile)), ""
            )
        except (IndexUnavailableError, UsageError):
            return ""

    def _admits_another(self, policy: ChangePolicy, lockfile: LockFile) -> bool:
        """Return whether anything of the lock has another version that may be taken.

        Raises:
            IndexUnavailableError: an index cannot be read.
            UsageError: nothing may change.
        """
        target = self._here()
        locked = {str(canonicalize_name(e.name)): e.version for e in in_target(lockfile, target)}
        ranges: dict[str, SpecifierSet] = {}
        environment = dict(target.environment)
        for each in map(parse_requirement, free_requirements(lockfile, policy, target)):
            if each.marker and not each.marker.evaluate(environment):
                continue
            name = str(canonicalize_name(each.name))
            ranges[name] = ranges.get(name, SpecifierSet()) & each.specifier
        selector = Selector(target, Policy())
        return any(
            not (isinstance(one.found, str) or one.barred or one.is_fallback)
            and Version(one.version).public != Version(locked[name]).public
            and ranges[name].contains(one.version)
            for name, files in self.index.candidates_many(ranges).items()
            for one in selector.select(files or (), ())
        )


def python_with_wheels(lockfile: LockFile, index: PackageIndex) -> str:
    """Return the Python to name, where the one that is taken by itself has not all wheels.

    Where the lock names wheels or a range of Pythons, these decide; others are looked up. "" where
    no other one is needed, or has them.
    """
    pythons = {each.name: each.python for each in read_definitions() if each.python}
    first = {platform.python_version(), pythons.get(DEFAULT_BASE, "3.11")}
    admitted = [e for e in (*first, *pythons.values()) if admits_python(lockfile, e)]
    usual = first.intersection(admitted) or (admitted if lockfile.requires_python else first)
    if all(_has_wheels(lockfile, index, each) for each in usual):
        return ""
    shipped = sorted(pythons.values(), key=Version, reverse=True)
    others = dict.fromkeys((*shipped, *(f"3.{minor}" for minor in range(14, 5, -1))))
    return next((each for each in others if _has_wheels(lockfile, index, each)), "")


def _has_wheels(lockfile: LockFile, index: PackageIndex, python: str) -> bool:
    """Return whether the index has a file of each pin that varies for a Python."""
    if not admits_python(lockfile, python):
        return False
    target = stated_target(python=python, platform="linux")
    try:
        installed = in_target(lockfile, target)
        if not varied_in([e.name for e in installed]):
            return not varied_in(default_versions(lockfile))
        locked = {e.name: e for e in installed if not e.wheels}
        pins = {name: locked[name].version for name in varied_in(locked)}
        offered = index.candidates_many(pins)
    except (IndexUnavailableError, UsageError):
        return True  # as far as is known
    selector = Selector(target, Policy(prereleases=Prereleases.ALLOW))
    for name, version in pins.items():
        files = [e for e in offered[name] or () if e.version == version and e.is_wheel]
        found = selector.select(files, ())
        if files and all(isinstance(each.found, str) for each in found):
            return False
    return True


def free_requirements(lockfile: LockFile, policy: ChangePolicy, target: Target) -> tuple[str, ...]:
    """Return the ranges of the packages of a lock that may change, as a policy admits them.

    Raises:
        UsageError: nothing may change.
    """
    locked = {str(canonicalize_name(e.name)): e.version for e in in_target(lockfile, target)}
    ranges = {
        name: [str(e) for e in index_requirements(lockfile) if canonicalize_name(e.name) == name]
        for name in policy.only or varied_in(locked)
        if name in locked and name not in policy.keep
    }
    if not ranges:
        why = "--only and --keep leave none of its packages"
        fix = "name a package that it holds with --only, and not with --keep"
        if not (policy.only or policy.keep):
            why = f"it has neither TensorFlow, PyTorch nor NumPy for Python {target.python}"
            fix = (
                "name a Python that it is for, as in: --base 3.12; or what may change: --only NAME"
            )
        raise UsageError(f"nothing in {lockfile.path} may change", why=why, fix=fix)
    found = []
    for name, own in ranges.items():
        version = Version(locked[name])
        limits = [] if policy.allow_downgrade else [f">={version.public}"]  # PEP 440: no "+cpu"
        guarded = not policy.allow_major and (own or name in VARIED)
        if guarded and not any(">" in line or "~" in line for line in own):
            limits.append(f"<{version.major + 1}")
        found += [f"{name}{','.join(limits)}", *own]
    return tuple(found)


def explore_command(lockfile: LockFile, path: Path) -> str:
    """Return the command that measures around a lock, "" where nothing in it would vary."""
    if lockfile.conda:
        return ""
    locked = {each.name for each in lockfile.packages if each.group == "default"}
    return f"stackgen explore --from {shlex.quote(str(path))}" if any(may_vary(locked)) else ""


def own_pins(lockfile: LockFile) -> str:
    """Return the caveat on a lock whose project pins all that varies."""
    names = varied_in(default_versions(lockfile))
    return (
        f"the project requires just these versions of {listed(names)}: nothing beside them can be "
        "measured or recommended, unless it requires a range"
    )


def by_conda(lockfile: LockFile) -> str:
    """Return the caveat on a lock whose varied packages conda installs."""
    own = [f"{name} {v}" for name, v in lockfile.conda if name in (*VARIED, "pytorch")]
    return (
        f"conda installs {', '.join(own) or 'part of it'}, and only packages of an index are "
        "measured and changed; to measure them in its place, inside the environment: pip list "
        "--format=freeze > requirements.txt"
    )


def nothing_varies(lockfile: LockFile, path: Path) -> str:
    """Return the caveat on a lock without a package that varies by itself."""
    groups = {each.group for each in lockfile.packages if any(may_vary({each.name}))}
    why = "it holds neither TensorFlow, PyTorch nor NumPy"
    if groups:
        why = f"TensorFlow, PyTorch and NumPy are in its groups {listed(sorted(groups))} alone"
    return (
        f"nothing in it varies by itself ({why}); name what may: stackgen explore NAME --from "
        f"{shlex.quote(str(path))}"
    )
