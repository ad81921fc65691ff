"""The documents that make an image out of layers: equal inputs give equal bytes."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stackgen.values import Lock, Stack, StackId

LAYOUT = "1"  # of the layers and of the skeleton; a change makes every layer anew
PREFIX = "/opt/stack"
STACK_PYTHON = f"{PREFIX}/bin/python"
STACK_LABEL = "stackgen.stack"
LAYOUT_LABEL = "stackgen.layout"
_EPOCH = "1980-01-01T00:00:00Z"  # an image's age would change its id
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseImage:
    """What a stack's image takes over from its base.

    id: of the image in the engine.
    diff_ids: of its layers, bottom first.
    env: sorted (variable, value) pairs of its configuration.
    """

    id: str
    diff_ids: tuple[str, ...]
    architecture: str
    os: str = "linux"
    variant: str = ""
    env: tuple[tuple[str, str], ...] = ()


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


def image_config(stack: Stack, base: BaseImage, layers: Sequence[str], *, version: str) -> bytes:
    """Return the configuration of a stack's image as canonical JSON.

    Args:
        stack: what is installed.
        base: what it is installed on.
        layers: diff ids of the stack's own layers, bottom first.
        version: of stackgen.
    """
    platform = {"architecture": base.architecture, "os": base.os}
    if base.variant:
        platform["variant"] = base.variant
    return _canonical(
        {
            **platform,
            "created": _EPOCH,
            "config": {
                "Cmd": [STACK_PYTHON],
                "Env": [f"{name}={value}" for name, value in _environment(stack, base)],
                "Labels": _labels(stack, base, version),
                "WorkingDir": "/",
            },
            "history": _history(len(base.diff_ids), len(layers), version),
            "rootfs": {"type": "layers", "diff_ids": [*base.diff_ids, *layers]},
        }
    )


def load_manifest(config: bytes, *, tag: str, members: Sequence[str]) -> bytes:
    """Return the ``manifest.json`` of an archive that an engine loads.

    Args:
        config: what ``image_config`` returned.
        tag: the image's tag.
        members: the archive's member of each layer, bottom first; a thin archive lacks some.
    """
    return _canonical([{"Config": config_member(config), "RepoTags": [tag], "Layers": [*members]}])


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


def _labels(stack: Stack, base: BaseImage, version: str) -> dict[str, str]:
    return {
        STACK_LABEL: stack.id,
        LAYOUT_LABEL: LAYOUT,
        "stackgen.lock": stack.lock.id,
        "stackgen.base": base.id,
        "stackgen.version": version,
        "org.opencontainers.image.title": "stackgen stack",
        "org.opencontainers.image.version": stack.id[:16],
        "org.opencontainers.image.base.digest": base.id,
        "org.opencontainers.image.description": _describe(stack.lock),
    }


def _describe(lock: Lock) -> str:
    return " ".join(f"{name}=={version}" for name, version in lock.versions.items())


def _history(below: int, above: int, version: str) -> list[dict[str, str]]:
    base = [{"created": _EPOCH, "created_by": "base"}] * below
    own = [{"created": _EPOCH, "created_by": f"stackgen {version}"}] * above
    return [*base, *own]


def _canonical(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")
