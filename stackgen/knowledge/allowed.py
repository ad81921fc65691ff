"""Which changes of a lock may be recommended: by the user's options, requirements, and the rest."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from stackgen.knowledge.equivalence import VARIED, Versions, target_of
from stackgen.model.evidence import Answer, Change, ChangePolicy
from stackgen.model.packages import LockFile
from stackgen.model.stacks import BaseFacts

Admits = Callable[[LockFile, Sequence[Change], BaseFacts], str | None]
"""Returns why the rest of a lock does not admit changes on a base; None where it does."""
_NAMED = 5  # packages that a sentence names before it counts the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why changes are not recommended; ``answer`` where they are the best that was measured.

    option: of the command line that admits them; "" where none does. changes: then, what it is of.
    """

    answer: Answer
    why: str
    option: str = ""
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Says which changes may be recommended for a lock on a base."""

    lockfile: LockFile
    facts: BaseFacts
    policy: ChangePolicy
    admits: Admits

    def refusal(
        self, changes: Sequence[Change], versions: Versions, compiled: Collection[str]
    ) -> Refusal | None:
        """Return why changes may not be recommended; None where they may.

        ``versions`` are those of all packages afterwards; packages with compiled code become older
        only where that is allowed.
        """
        found = self.by_policy(changes, versions, compiled)
        if found is not None:
            return found
        reason = self.admits(self.lockfile, changes, self.facts)
        if reason is None:
            return None
        return Refusal(answer=Answer.REFUSED, why=f"{listed_changes(changes)}: {reason}")

    def despite_option(self, refused: Refusal) -> Refusal | None:
        """Return why changes may not be recommended even with the option that is against them."""
        text = listed_changes(refused.changes)
        versions = {c.name: c.recommended for c in refused.changes if c.recommended is not None}
        if broken := self.broken(versions):
            why = f"{text}: {' and '.join(broken)} forbids it"
            return Refusal(answer=Answer.REFUSED, why=why)
        reason = self.admits(self.lockfile, refused.changes, self.facts)
        return Refusal(answer=Answer.REFUSED, why=f"{text}: {reason}") if reason else None

    def by_policy(
        self, changes: Sequence[Change], versions: Versions, compiled: Collection[str]
    ) -> Refusal | None:
        """Return why the user's options or requirements refuse changes, without the resolver."""
        found = self.by_options(changes, compiled)
        if found is None and (broken := self.broken(versions)):
            why = f"{listed_changes(changes)}: {' and '.join(broken)} forbids it"
            return Refusal(answer=Answer.REFUSED, why=why)
        return found

    def by_options(self, changes: Sequence[Change], compiled: Collection[str]) -> Refusal | None:
        """Return why the user's options do not allow changes; None where they do."""
        text = listed_changes(changes)
        for each in changes:
            if each.name in self.policy.keep:
                why = f"{text}: --keep {each.name} forbids it"
                return Refusal(answer=Answer.REFUSED, why=why)
            if self.policy.only and each.name not in self.policy.only:
                why = f"{text}: --only {' --only '.join(self.policy.only)} excludes {each.name}"
                return Refusal(answer=Answer.REFUSED, why=why)
        early = [f"{each.name} {each.recommended}" for each in changes if is_early(each)]
        if early:
            why = f"{text}: {listed(early)} is no final release"
            return Refusal(answer=Answer.REFUSED, why=why)
        if not self.policy.allow_downgrade:
            older = [each.name for each in changes if each.name in compiled and is_older(each)]
            if older:
                why = f"{text}: {listed(older)} would be older; --allow-downgrade recommends it"
                option = "--allow-downgrade"
                return Refusal(answer=Answer.OLDER, why=why, option=option, changes=tuple(changes))
        if not self.policy.allow_major:
            # What others of the lock require follows them; what the user requires is the user's.
            own = {canonicalize_name(each.name) for _, each in _requirements(self.lockfile)}
            major = [
                each.name
                for each in changes
                if is_major(each) and each.name in {*own, *VARIED} and not self._ranges(each)
            ]
            if major:
                why = f"{text}: a new major version of {listed(major)}; --allow-major recommends it"
                option = "--allow-major"
                return Refusal(answer=Answer.MAJOR, why=why, option=option, changes=tuple(changes))
        return None

    def broken(self, versions: Versions) -> list[str]:
        """Return which of the user's own requirements exclude versions."""
        environment = dict(target_of(self.facts).environment)
        broken = []
        for line, requirement in _requirements(self.lockfile):
            if requirement.marker and not requirement.marker.evaluate(environment):
                continue
            version = versions.get(canonicalize_name(requirement.name))
            if version and not requirement.specifier.contains(version, prereleases=True):
                broken.append(f'the requirement "{line}"')
        return broken

    def _ranges(self, change: Change) -> bool:
        """Return whether the user's own requirements name a range that holds the new version."""
        return any(
            canonicalize_name(requirement.name) == change.name
            and any(each.operator not in ("==", "===", "!=") for each in requirement.specifier)
            and requirement.specifier.contains(change.recommended or "", prereleases=True)
            for _, requirement in _requirements(self.lockfile)
        )


def _requirements(lockfile: LockFile) -> list[tuple[str, Requirement]]:
    found = []
    for line in lockfile.requirements:
        try:
            found.append((line, Requirement(line)))
        except InvalidRequirement:
            continue
    return found


def is_early(change: Change) -> bool:
    """Return whether a change leads to a prerelease, from none."""
    pair = _pair(change)
    return pair is not None and pair[1].is_prerelease and not pair[0].is_prerelease


def is_older(change: Change) -> bool:
    """Return whether a change is to an older version."""
    pair = _pair(change)
    return pair is not None and pair[1] < pair[0]


def is_major(change: Change) -> bool:
    """Return whether a change is to a later major version."""
    pair = _pair(change)
    return pair is not None and pair[1].major > pair[0].major


def _pair(change: Change) -> tuple[Version, Version] | None:
    try:
        return Version(change.current or ""), Version(change.recommended or "")
    except ValueError:  # also a number of too many digits
        return None


def listed_changes(changes: Sequence[Change]) -> str:
    """Return changes in words, the first of them by name."""
    return listed([f"{c.name} {c.current or 'none'} -> {c.recommended or 'none'}" for c in changes])


def listed(names: Sequence[str]) -> str:
    """Return names with commas between them, the first of them by name."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
