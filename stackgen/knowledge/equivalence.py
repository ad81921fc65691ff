"""Which stacks are equivalent on an indicator, and which of them a lock stands for.

A timing is decided by the framework, NumPy, every distribution with compiled code that the process
had loaded, the minor version of Python, and the variables that were set. What else is installed
does not matter. The allocator is such a variable, and threads are arguments of the indicator. Full
Python version, system and libraries make a base: evidence moves between these with added variance.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from packaging.utils import canonicalize_name
from packaging.version import Version

from stackgen.knowledge.graph import StackNode
from stackgen.locks.reading import in_target
from stackgen.model.evidence import Change
from stackgen.model.identity import IndicatorId, StackId
from stackgen.model.inspections import IndicatorCall
from stackgen.model.packages import Artifact, LockedPackage, LockFile, Target
from stackgen.model.stacks import PROGRAM, BaseFacts, Stack

FRAMEWORKS = {
    "tensorflow": frozenset({"tensorflow", "tensorflow-cpu", "tensorflow-gpu", "intel-tensorflow"}),
    "torch": frozenset({"torch"}),
    "jax": frozenset({"jax", "jaxlib"}),
    "mxnet": frozenset({"mxnet"}),
    "paddlepaddle": frozenset({"paddlepaddle", "paddlepaddle-gpu"}),
}
"""The distributions of each framework; any other component of an indicator has its own name."""
VARIED = (
    *("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "intel-tensorflow", "torch", "numpy"),
    *("jax", "jaxlib", "mxnet", "paddlepaddle", "paddlepaddle-gpu"),
)
"""The packages that vary by themselves, in the order in which users see them."""
_LISTED = 3  # packages, in a note
_ALWAYS = frozenset(name for own in FRAMEWORKS.values() for name in own)

Versions = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Setting:
    """What besides versions must be equal for a comparison to be one of versions.

    python: implementation and minor version. variables: sorted (name, value) pairs.
    """

    python: str
    variables: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, facts: BaseFacts, variables: tuple[tuple[str, str], ...] = ()) -> "Setting":
        """Return the setting of stacks with these variables on a base."""
        implementation, _, full = facts.python.rpartition(" ")
        minor = ".".join(full.split(".")[:2])
        return cls(f"{implementation} {minor}".strip(), variables)


@dataclass(frozen=True, slots=True)
class Nodes:
    """All nodes of an indicator, where only some of their stacks were loaded.

    names: of the distributions that decide a timing, by node, the most specific ones first.
    keys: of the nodes. decisive: of each stack that was loaded, one of the names.
    """

    names: Sequence[tuple[str, ...]]
    keys: Container[str]
    decisive: Mapping[StackId, tuple[str, ...]]


class Equivalence:
    """The nodes of the evidence graph: measured stacks, equivalent ones merged, by indicator."""

    def __init__(
        self,
        stacks: Mapping[StackId, Stack],
        loaded: Mapping[IndicatorId, Mapping[StackId, set[str]]],
        calls: Mapping[IndicatorId, IndicatorCall],
        whole: Mapping[IndicatorId, Nodes] | None = None,
    ) -> None:
        """Merge what is equivalent.

        Args:
            stacks: that are known.
            loaded: of them, the distributions that decide their timings, by indicator.
            calls: the indicators, without controls.
            whole: what all stacks of the knowledge base make, where these are a part of them; it
                takes the place of ``loaded``.
        """
        self._stacks = stacks
        self._versions = {each: normal_versions(stack) for each, stack in stacks.items()}
        self._keys: dict[IndicatorId, Container[str]] = {}
        self._names: dict[IndicatorId, Sequence[tuple[str, ...]]] = {}
        self._nodes: dict[IndicatorId, dict[StackId, StackNode]] = {}
        self._decisive: dict[IndicatorId, Mapping[StackId, tuple[str, ...]]] = {}
        self.stacks: dict[IndicatorId, dict[str, list[StackId]]] = {}
        for indicator, known in sorted((whole or {}).items()):
            self._add(indicator, known.decisive, stacks)
            self._names[indicator], self._keys[indicator] = known.names, known.keys
        for indicator, by_stack in sorted(loaded.items() if whole is None else ()):
            call = calls[indicator]
            if call.indicator.component == PROGRAM:
                decisive = decisive_of_program([stacks[each] for each in by_stack])
                found = {stack.id: names for stack, names in decisive.items()}
            else:
                brings = component_distributions(call)
                found = {stack: names for stack, names in by_stack.items() if names & brings}
            every = {stack: tuple(sorted(names | _ALWAYS)) for stack, names in found.items()}
            self._add(indicator, every, stacks)

    def _add(
        self,
        indicator: IndicatorId,
        decisive: Mapping[StackId, tuple[str, ...]],
        stacks: Mapping[StackId, Stack],
    ) -> None:
        nodes = self._nodes[indicator] = {}
        self._decisive[indicator] = decisive
        merged = self.stacks[indicator] = {}
        self._keys[indicator] = merged
        # The most specific first: a stack that loads more agrees on more.
        names = sorted({*decisive.values()}, key=lambda each: (-len(each), each))
        self._names[indicator] = names
        for stack in sorted(decisive):
            facts, variables = stacks[stack].facts, stacks[stack].settings
            key = node_key(decisive[stack], self._versions[stack], Setting.of(facts, variables))
            nodes[stack] = StackNode(key=key, base=base_name(facts))
            merged.setdefault(key, []).append(stack)

    @property
    def indicators(self) -> tuple[IndicatorId, ...]:
        """Return the indicators that any stack was inspected with."""
        return tuple(self._nodes)

    def nodes(self, indicator: IndicatorId) -> Mapping[StackId, StackNode]:
        """Return the node of each stack that was inspected with an indicator."""
        return self._nodes.get(indicator, {})

    def find(self, indicator: IndicatorId, versions: Versions, setting: Setting) -> str | None:
        """Return the key of the node that agrees with these versions on all that decides.

        Nothing with these very versions needs to have been measured; None where no node agrees.
        """
        keys = self._keys.get(indicator, ())
        return find_node(self._names.get(indicator, ()), keys, versions, setting)

    def names(self, indicator: IndicatorId) -> Sequence[tuple[str, ...]]:
        """Return which distributions decide a timing, by node, the most specific ones first."""
        return self._names[indicator]

    def decisive(self, indicator: IndicatorId, stack: StackId) -> tuple[str, ...]:
        """Return the distributions that decide the timing of a stack on an indicator."""
        return self._decisive[indicator][stack]

    def find_all(self, versions: Versions, setting: Setting) -> dict[IndicatorId, str]:
        """Return the node that agrees, by indicator; indicators without one are left out."""
        found = ((each, self.find(each, versions, setting)) for each in self.indicators)
        return {indicator: key for indicator, key in found if key is not None}

    def stands(self, stack: StackId) -> bool:
        """Return whether a stack is one of any node: it loaded what an indicator measures."""
        return any(stack in nodes for nodes in self._nodes.values())

    def stands_for(self, indicator: IndicatorId, stack: StackId, locked: "LockedOn") -> bool:
        """Return whether a stack is the node that a lock has on an indicator, where it was used."""
        node = self.nodes(indicator).get(stack)
        if node is None:
            return False
        known = self._stacks[stack]
        setting = Setting.of(known.facts, known.settings)
        return node.key == self.find(indicator, locked.versions(known.facts), setting)

    def differing(self, stack: StackId, versions: Versions) -> tuple[str, ...]:
        """Return in which packages that decide a timing versions differ from those of a stack.

        It is the fewest over all indicators.
        """
        own = self._versions[stack]
        found = [
            tuple(each for each in self._decisive[i][stack] if own.get(each) != versions.get(each))
            for i, nodes in self._nodes.items()
            if stack in nodes
        ]
        return min(found, key=len, default=())

    def versions(self, stack: StackId) -> Versions:
        """Return the normalised versions of a stack."""
        return self._versions[stack]


def find_node(
    names: Sequence[tuple[str, ...]], keys: Container[str], versions: Versions, setting: Setting
) -> str | None:
    """Return the first of the keys that these versions have; None where they have none of them."""
    return next((key for each in names if (key := node_key(each, versions, setting)) in keys), None)


def node_key(names: tuple[str, ...], versions: Versions, setting: Setting) -> str:
    """Return what a node is, in words: equal for what agrees on these names, and on no others."""
    found = [(name, versions.get(name)) for name in names]
    pins = [f"{name} {value}" for name, value in found if value]
    missing = [f"no {name}" for name, value in found if not value and name not in _ALWAYS]
    variables = [f"{name}={value}" for name, value in setting.variables]
    return ", ".join([*pins, *missing, setting.python, *variables])


@dataclass(frozen=True, slots=True)
class LockedOn:
    """The versions that a lock installs, by base."""

    lockfile: LockFile
    _known: dict[BaseFacts, Versions] = field(default_factory=dict)

    def versions(self, facts: BaseFacts) -> Versions:
        """Return the version of each package that the lock installs on such a base."""
        if facts not in self._known:
            packages = in_target(self.lockfile, target_of(facts))
            self._known[facts] = {canonicalize_name(p.name): _normal(p.version) for p in packages}
        return self._known[facts]


def target_of(facts: BaseFacts) -> Target:
    """Return what of a base decides the markers of a lock; the rest is this machine's own."""
    python = facts.python.split()[-1]
    minor = ".".join(python.split(".")[:2])
    markers = (("python_full_version", python), ("python_version", minor))
    return Target(python=python, markers=markers, tags=())


def base_name(facts: BaseFacts) -> str:
    """Return what distinguishes bases of one Python minor version."""
    return repr(facts)


def varied_in(names: Container[str]) -> list[str]:
    """Return which of these packages vary by themselves; JAX beside TensorFlow follows it."""
    found = [each for each in VARIED if each in names]
    follows = FRAMEWORKS["jax"] if FRAMEWORKS["tensorflow"] & {*found} else frozenset()
    return [each for each in found if each not in follows]


def versions_of(lockfile: LockFile, facts: BaseFacts | None = None) -> Mapping[str, str]:
    """Return the version of each package of a lock, for whatever base it is.

    Of a package with several, that of a base counts, where one is given.
    """
    packages = [*lockfile.packages, *(in_target(lockfile, target_of(facts)) if facts else ())]
    return {str(canonicalize_name(each.name)): each.version for each in packages}


def default_versions(lockfile: LockFile, facts: BaseFacts | None = None) -> Mapping[str, str]:
    """Return the versions of what a lock installs by default, without its other groups."""
    default = tuple(each for each in lockfile.packages if each.group == "default")
    return versions_of(replace(lockfile, packages=default), facts)


def filled(lockfile: LockFile, stacks: Iterable[Stack], python: str) -> LockFile:
    """Return a requirements.txt that pins few packages with the rest as it was measured.

    Many pin a framework and NumPy alone. What these need is installed with them; of the measured
    stacks with the same frameworks and NumPy, the one most like the file says in which versions:
    of several, the one with the newest NumPy, as an installer takes it. An older one would make a
    recommendation of what is installed already.

    Args:
        stacks: that were measured.
        python: its minor version; stacks of others count where none is of it.
    """
    own = {name: _normal(version) for name, version in versions_of(lockfile).items()}
    pinned = {name: own[name] for name in VARIED if name in own}
    hashed = any(each.hashes for each in lockfile.packages)
    if lockfile.format != "requirements" or hashed or not frameworks(pinned):
        return lockfile
    found = []
    for stack in stacks:
        versions = normal_versions(stack)
        needed = versions.keys() - pinned.keys()
        # PyTorch runs without NumPy, and is measured without it, too.
        shared = {name: version for name, version in pinned.items() if name in versions}
        if (
            shared == {name: versions[name] for name in shared}
            and frameworks(versions) == frameworks(own)
            and 2 * len(needed & own.keys()) < len(needed)
        ):
            other = sum(versions[name] != own[name] for name in needed & own.keys())
            is_own = Setting.of(stack.facts, ()).python.split()[-1] == python
            age = [-part for part in _release(versions["numpy"])] if "numpy" in versions else []
            found.append((not is_own, len(pinned) - len(shared), other, age, stack.id, stack))
    if not found:
        return lockfile
    stack = min(found)[-1]
    added = tuple(
        LockedPackage(name=name, version=version)
        for name, version in sorted(stack.lock.versions.items(), key=lambda e: by_importance(e[0]))
        if name not in own
    )
    listed = ", ".join(f"{each.name} {each.version}" for each in added[:_LISTED])
    more = f" and {len(added) - _LISTED} more" if len(added) > _LISTED else ""
    return replace(
        lockfile,
        packages=(*lockfile.packages, *added),
        notes=(
            *lockfile.notes,
            f"it pins {len(own)} package{'s' * (len(own) != 1)}; what they need is taken as it was "
            f"measured with them: {listed}{more}",
        ),
    )


def differences(old: Versions, new: Versions) -> tuple[Change, ...]:
    """Return what changes between versions: what varies by itself before what follows it."""
    return tuple(
        Change(name=name, current=old.get(name), recommended=new.get(name))
        for name in sorted(old.keys() | new.keys(), key=by_importance)
        if old.get(name) != new.get(name)
    )


def by_importance(name: str) -> tuple[int, str]:
    """Return a sort key: what varies by itself stands before what follows it."""
    return (VARIED.index(name) if name in VARIED else len(VARIED)), name


def frameworks(names: Iterable[str]) -> frozenset[str]:
    """Return the frameworks whose distributions are among these.

    JAX beside TensorFlow is not one of them: TensorFlow 2.12 requires it, other versions do not.
    """
    installed = frozenset(names)
    found = frozenset(name for name, own in FRAMEWORKS.items() if own & installed)
    return found - {"jax"} if "tensorflow" in found else found


def normal_versions(stack: Stack) -> Versions:
    """Return the version of each package of a stack, normalised."""
    return {name: _normal(version) for name, version in stack.lock.versions.items()}


def decisive_of_program(stacks: Sequence[Stack]) -> Mapping[Stack, set[str]]:
    """Return the distributions that decide the timing of a user's program, by stack.

    What a program loads is not recorded (docs/adr/0016). So everything with compiled code counts,
    and everything in which the stacks that it was measured on differ.
    """
    names = {name for stack in stacks for name in stack.lock.versions}
    varied = {
        name for name in names if len({stack.lock.versions.get(name) for stack in stacks}) > 1
    }
    return {
        stack: varied | {a.name for a in stack.lock.artifacts if not is_pure(a)} for stack in stacks
    }


def is_pure(artifact: Artifact) -> bool:
    """Return whether a wheel holds no compiled code."""
    return artifact.filename.endswith("-none-any.whl")


def component_distributions(call: IndicatorCall) -> frozenset[str]:
    """Return the distributions of which an indicator measures one."""
    component = call.indicator.component
    return FRAMEWORKS.get(component, frozenset({component}))


def _release(version: str) -> tuple[int, ...]:
    """Return the first numbers of a version, of which all have equally many."""
    try:
        return (*Version(version).release, 0, 0, 0, 0)[:4]
    except ValueError:  # also a number of too many digits
        return (0, 0, 0, 0)


@cache
def _normal(version: str) -> str:
    """Return a version with three parts or more: 2.12 is 2.12.0."""
    try:
        found = Version(version)
    except ValueError:  # also a number of too many digits
        return version
    parts = (*found.release, 0, 0)[: max(3, len(found.release))]
    text = ".".join(map(str, parts))
    epoch = f"{found.epoch}!" if found.epoch else ""
    return f"{epoch}{text}{str(found)[len(epoch) + len('.'.join(map(str, found.release))) :]}"
