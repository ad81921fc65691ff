"""The documents that make an image out of layers: equal inputs give equal bytes."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stackgen.values import Lock, Stack, StackId
from stackgen.values.sources import BUILT_HERE

LAYOUT = "2"  # of the layers and of the skeleton; a change makes every layer anew
PREFIX = "/opt/stack"
STACK_PYTHON = f"{PREFIX}/bin/python"
STACK_LABEL = "stackgen.stack"
LAYOUT_LABEL = "stackgen.layout"
BASE_LABEL = "stackgen.base"
PACKAGES_LABEL = "stackgen.packages"
BUILT_LABEL = "stackgen.built-here"  # names what was built from its sources on this machine
"""JSON: name, version, file name and sha256 of each wheel, sorted by name."""
LAYERS_LABEL = "stackgen.layers"
"""JSON: the file names of the wheels in each of the stack's own layers, bottom first; the lowest
one, without any, makes the virtualenv."""
OCI_LABELS = "org.opencontainers.image."
_EPOCH = "1980-01-01T00:00:00Z"  # an image's age would change its id
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseImage:
    """What a stack's image takes over from its base.

    id: of the image in the engine.
    name: of the base, for people.
    digest: under which a registry knows it; "" where none does.
    diff_ids: of its layers, bottom first.
    env: sorted (variable, value) pairs of its configuration.
    user: who runs in it where nobody says otherwise; "" for root.
    """

    id: str
    name: str
    digest: str = ""
    diff_ids: tuple[str, ...]
    architecture: str
    os: str = "linux"
    variant: str = ""
    env: tuple[tuple[str, str], ...] = ()
    user: str = ""


def chain_ids(diff_ids: Iterable[str]) -> tuple[str, ...]:
    """Return the name under which an engine keeps each layer: a digest of it and all below.

    Source: OCI image specification, "Layer ChainID".
    """
    chain: list[str] = []
    for diff_id in diff_ids:
        text = f"{chain[-1]} {diff_id}" if chain else diff_id
        chain.append(
            diff_id if not chain else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
        )
    return tuple(chain)


def image_tag(stack_id: StackId) -> str:
    """Return the tag of a stack's image."""
    return f"stackgen:{stack_id[:16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLayer:
    """A layer of a stack's image above its base.

    wheels: file names of what is installed in it; none in the lowest one.
    """

    diff_id: str
    wheels: tuple[str, ...] = ()


def image_config(
    stack: Stack, base: BaseImage, layers: Sequence[OwnLayer], *, version: str
) -> bytes:
    """Return the configuration of a stack's image as canonical JSON.

    Args:
        stack: what is installed.
        base: what it is installed on.
        layers: the stack's own layers, bottom first.
        version: of stackgen.
    """
    platform = {"architecture": base.architecture, "os": base.os}
    if base.variant:
        platform["variant"] = base.variant
    return canonical(
        {
            **platform,
            "created": _EPOCH,
            "config": {
                "Cmd": [STACK_PYTHON],
                "Env": [f"{name}={value}" for name, value in _environment(stack, base)],
                "Labels": _labels(stack, base, layers, version),
                "WorkingDir": "/",
                **({"User": base.user} if base.user else {}),
            },
            "history": _history(base, layers, version),
            "rootfs": {
                "type": "layers",
                "diff_ids": [*base.diff_ids, *(layer.diff_id for layer in layers)],
            },
        }
    )


def load_manifest(config: bytes, *, tag: str, members: Sequence[str]) -> bytes:
    """Return the ``manifest.json`` of an archive that an engine loads.

    Args:
        config: what ``image_config`` returned.
        tag: the image's tag.
        members: the archive's member of each layer, bottom first; a thin archive lacks some.
    """
    return canonical([{"Config": config_member(config), "RepoTags": [tag], "Layers": [*members]}])


def config_member(config: bytes) -> str:
    """Return the name of the configuration within the archive."""
    return f"{hashlib.sha256(config).hexdigest()}.json"


def layer_member(diff_id: str) -> str:
    """Return the name of a layer within the archive."""
    return f"{diff_id.removeprefix('sha256:')}/layer.tar"


def _environment(stack: Stack, base: BaseImage) -> list[tuple[str, str]]:
    inherited = dict(base.env)
    path = inherited.get("PATH", _DEFAULT_PATH)
    own = {"PATH": f"{PREFIX}/bin:{path}", "VIRTUAL_ENV": PREFIX}
    return sorted({**inherited, **own, **dict(stack.settings)}.items())


def _labels(
    stack: Stack, base: BaseImage, layers: Sequence[OwnLayer], version: str
) -> dict[str, str]:
    packages = [[a.name, a.version, a.filename, a.sha256] for a in stack.lock.artifacts]
    built = [f"{a.name}=={a.version}" for a in stack.lock.artifacts if a.index == BUILT_HERE]
    return {
        **({BUILT_LABEL: " ".join(built)} if built else {}),
        STACK_LABEL: stack.id,
        LAYOUT_LABEL: LAYOUT,
        PACKAGES_LABEL: canonical(packages).decode(),
        LAYERS_LABEL: canonical([layer.wheels for layer in layers]).decode(),
        "stackgen.lock": stack.lock.id,
        BASE_LABEL: base.id,
        "stackgen.version": version,
        f"{OCI_LABELS}created": _EPOCH,
        f"{OCI_LABELS}title": "stackgen stack",
        f"{OCI_LABELS}version": stack.id[:16],
        f"{OCI_LABELS}base.name": base.name,
        f"{OCI_LABELS}base.digest": base.digest or base.id,
        f"{OCI_LABELS}description": _describe(stack.lock),
    }


def _describe(lock: Lock) -> str:
    return " ".join(f"{name}=={version}" for name, version in lock.versions.items())


def _history(base: BaseImage, layers: Sequence[OwnLayer], version: str) -> list[dict[str, str]]:
    """Return what each layer is; `docker history` shows it."""
    below = [{"created": _EPOCH, "created_by": f"base {base.name}"}] * len(base.diff_ids)
    own = [
        {
            "created": _EPOCH,
            "created_by": f"stackgen {version}: {', '.join(layer.wheels) or 'virtualenv'}",
        }
        for layer in layers
    ]
    return [*below, *own]


def canonical(document: object) -> bytes:
    """Return JSON; equal documents are equal bytes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")
