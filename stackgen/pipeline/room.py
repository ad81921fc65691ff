"""How much disk stacks will take that are not built yet."""

from collections.abc import Mapping, Sequence

from stackgen.artifacts.layers import LayerStore
from stackgen.artifacts.unpack import unpacked_size
from stackgen.artifacts.wheels import WheelStore
from stackgen.builders.virtualenv_store import VirtualenvStore
from stackgen.pipeline.places import Places
from stackgen.values import Artifact, Base, Kind, Lock, Stack

_UNPACKED = 2.7  # bytes per byte of wheel, where only its size is known: seen 2.3 to 4.2
_WITH_BYTECODE = 1.3  # per unpacked byte: seen 1.05 to 1.3
_LINKS = 500_000  # of folders and small files, for each wheel that a virtualenv links


def room_for(
    locks: Sequence[Lock], base: Base, *, places: Places, downloads: Mapping[str, int]
) -> int:
    """Return about how many bytes building these locks takes, beside their wheels.

    An image's layers are there twice, in our store and in the engine, which may have another disk:
    they are counted as if it had not. Layers that exist may still have to be sent where the engine
    has no stack of ours: then they count once.

    Args:
        locks: what will be built.
        base: what it is built on.
        places: where virtualenvs and layers are.
        downloads: sizes of the wheels that are not here yet, by their sha256.
    """
    wheels = WheelStore(places.cache)
    distinct: dict[str, Artifact] = {each.sha256: each for lock in locks for each in lock.artifacts}

    def installed(artifacts: Sequence[Artifact]) -> int:
        return round(sum(_unpacked(each, wheels, downloads) for each in artifacts) * _WITH_BYTECODE)

    if base.kind is Kind.VIRTUALENV:
        virtualenvs = VirtualenvStore(places.cache / "virtualenvs")
        new = (x for x in locks if not virtualenvs.has(Stack(lock=x, facts=base.facts)))
        linked = sum(len(lock.artifacts) for lock in new)
        return installed(virtualenvs.lacking(base, distinct.values())) + linked * _LINKS
    layers = LayerStore(places.cache / "layers")
    lacking = layers.lacking(base, distinct.values())
    sent = lacking if layers.stacks() else tuple(distinct.values())
    return installed(lacking) + installed(sent)


def _unpacked(artifact: Artifact, wheels: WheelStore, downloads: Mapping[str, int]) -> float:
    path = wheels.path(artifact) if artifact.is_wheel else None
    if path is not None:
        return unpacked_size(path)
    return (downloads.get(artifact.sha256) or artifact.size or 0) * _UNPACKED
