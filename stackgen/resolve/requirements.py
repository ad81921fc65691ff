"""The input of a resolution: requirements, constraints, overrides, exclusions and a policy."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stackgen.errors import UsageError
from stackgen.model.choices import Prereleases
from stackgen.resolve.candidates import Policy
from stackgen.resolve.dependencies import parse_requirement

_USER_INFO = re.compile(r"//[^/@\s]+@")

Alternatives = tuple[Requirement, ...]
"""Packages of one role (``tensorflow|tensorflow-cpu``): a stack holds exactly one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What stacks must satisfy.

    requirements: what every stack holds.
    alternatives: roles, each filled by one of several packages; the others stay out.
    constraints: versions that are admitted of packages, if a stack holds them at all.
    overrides: what counts in place of everything that is required of these packages.
    excluded: packages that are left out wherever something requires them.
    locked: (package, version) pairs of a lock: no other version of these packages, and nothing else
        than a constraint would let in.
    """

    requirements: tuple[Requirement, ...] = ()
    alternatives: tuple[Alternatives, ...] = ()
    constraints: tuple[Requirement, ...] = ()
    overrides: tuple[Requirement, ...] = ()
    excluded: tuple[str, ...] = ()
    locked: tuple[tuple[str, str], ...] = ()
    policy: Policy = field(default_factory=Policy)

    def __post_init__(self) -> None:
        for each in self.constraints:
            if each.url or each.extras:
                raise UsageError(
                    f"cannot take the constraint {str(each)!r}",
                    why="a constraint limits versions; it takes no extras and no address",
                    fix="write it as in 'numpy<2', or make it a requirement",
                )
        left_out = {canonicalize_name(name) for name in self.excluded}
        both = left_out & set(self.names)
        if both:
            raise UsageError(
                f"{min(both)} is both required and excluded",
                why="--exclude leaves a package out wherever something requires it",
                fix="take away the requirement or the --exclude",
            )

        in_roles = {canonicalize_name(each.name) for role in self.alternatives for each in role}
        for each in self.overrides:
            if each.marker and canonicalize_name(each.name) in in_roles:
                raise UsageError(
                    f"cannot take the override {str(each)!r}",
                    why="it may take away a package of which a role needs one",
                    fix="write it without a marker, or name one package instead of alternatives",
                )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the packages that the user named, in order, roles by their alternatives."""
        named = [*self.requirements, *(each for role in self.alternatives for each in role)]
        return tuple(dict.fromkeys(str(canonicalize_name(each.name)) for each in named))

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the requirements as the user would write them, roles included."""
        roles = ("|".join(_shown(each) for each in role) for role in self.alternatives)
        return (*(_shown(each) for each in self.requirements), *roles)

    @property
    def content(self) -> list[object]:
        """Return what identifies these requirements, as plain values."""
        policy = self.policy
        return [
            sorted(self.texts),
            sorted(str(each) for each in self.constraints),
            sorted(_shown(each) for each in self.overrides),
            sorted(self.excluded),
            [_known(policy.prereleases), policy.newest_upload, sorted(policy.allow_build)],
            sorted(policy.compared),
        ]

    def combinations(self) -> tuple["Combination", ...]:
        """Return each way to fill the roles; just one where there are none."""
        found = []
        for chosen in product(*(range(len(role)) for role in self.alternatives)):
            picked = [role[i] for role, i in zip(self.alternatives, chosen, strict=True)]
            request = replace(self, requirements=(*picked, *self.requirements), alternatives=())
            # By role: roles may share a package, which is then barred where it fills but one.
            pairs = zip(self.alternatives, picked, strict=True)
            barred = {
                str(canonicalize_name(each.name))
                for role, one in pairs
                for each in role
                if each is not one
            }
            found.append(Combination(request=request, chosen=chosen, barred=frozenset(barred)))
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """One way to fill the roles.

    request: with the chosen packages as requirements, first of all.
    chosen: by role, which of its alternatives.
    barred: the packages that were not chosen; no stack may hold them.
    """

    request: Requirements
    chosen: tuple[int, ...]
    barred: frozenset[str]


def _known(policy: Prereleases) -> object:
    """Return a policy as stored requests have it: from when there was nothing but ``--pre``."""
    plain = {Prereleases.ALLOW: True, Prereleases.EXPLICIT: policy.value}
    plain[Prereleases.DISALLOW] = policy.value
    return plain.get(policy, False)


def _shown(requirement: Requirement) -> str:
    """Return a requirement without the user's name and password in its address."""
    return _USER_INFO.sub("//", str(requirement))


def parse_requirements(*texts: str) -> Requirements:
    """Read requirements; ``a|b>=1`` admits either package.

    Raises:
        UsageError: one of them cannot be read.
    """
    plain = [text for text in texts if "|" not in _names(text)]
    roles = [text for text in texts if "|" in _names(text)]
    return Requirements(
        requirements=tuple(parse_requirement(text) for text in plain),
        alternatives=tuple(_alternatives(text) for text in roles),
    )


def _names(text: str) -> str:
    """Return the part of a requirement before any version, marker or address."""
    for stop in ("<", ">", "=", "!", "~", ";", "@", "("):
        text = text.partition(stop)[0]
    return text


def _alternatives(text: str) -> Alternatives:
    names = _names(text)
    rest = text[len(names) :]
    parts: Sequence[str] = [name.strip() for name in names.split("|")]
    found = tuple(parse_requirement(f"{name}{rest}") for name in parts)
    twice = len({canonicalize_name(each.name) for each in found}) < len(found)
    if twice or found[0].marker:
        raise UsageError(
            f"cannot read the alternatives {text!r}",
            why="they name a package twice" if twice else "a role takes no marker",
            fix='write them as in "tensorflow|tensorflow-cpu>=2.12", in quotes',
        )
    return found
