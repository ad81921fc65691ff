"""Layers and the documents of images (engine archives, OCI layouts): equal inputs, equal bytes."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from stackgen.errors import BuildError
from stackgen.model.identity import StackId
from stackgen.model.packages import BUILT_HERE, Artifact, Lock
from stackgen.model.stacks import Base, Stack

LAYOUT = "3"  # of the layers and of the skeleton; a change makes every layer anew
PREFIX = "/opt/stack"
STACK_PYTHON = f"{PREFIX}/bin/python"
STACK_LABEL = "stackgen.stack"
LAYOUT_LABEL = "stackgen.layout"
BASE_LABEL = "stackgen.base"
BUILT_LABEL = "stackgen.built-here"  # lists packages that were built locally from sources
PACKAGES_LABEL = "stackgen.packages"
"""JSON: name, version, file name and sha256 of each wheel, sorted by name."""
LAYERS_LABEL = "stackgen.layers"
"""JSON: the file names of the wheels in each of the stack's own layers, bottom first; the lowest
one, without any, makes the virtualenv."""
OCI_LABELS = "org.opencontainers.image."
_EPOCH = "1980-01-01T00:00:00Z"  # an image's age would change its id
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineImage:
    """An image in an engine.

    digests: its digests in registries (``name@sha256:...``).
    diff_ids: of its layers, bottom first.
    env: sorted (variable, value) pairs of its configuration.
    user: its default user; "" for root.
    size: bytes of all its layers, shared ones included.
    tagged_at: ISO 8601, when it was last loaded or tagged; "" where the engine does not say.
    """

    id: str
    diff_ids: tuple[str, ...]
    architecture: str
    os: str = "linux"
    variant: str = ""
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    env: tuple[tuple[str, str], ...] = ()
    user: str = ""
    size: int = 0
    tagged_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer on disk.

    diff_id: ``sha256:`` and the digest of the uncompressed tar.
    size: bytes of the tar.
    """

    path: Path
    diff_id: str
    size: int


Aside = Callable[[Callable[[], object]], None]
"""Has a function called, maybe by another thread."""


def at_once(action: Callable[[], object]) -> None:
    """Call a function."""
    action()


class Compiler(Protocol):
    """Byte-compiles for a base."""

    def compiling(self, base: Base, staging: Path) -> AbstractContextManager[Callable[[], None]]:
        """Start while wheels are unpacked into ``staging``; yield a function that compiles them.

        The function byte-compiles every source below ``staging``, whose folders are roots of file
        systems. An invalid source gets no bytecode: templates and code for other versions are
        common in wheels.

        Raises:
            BuildError: the base's interpreter does not run.
        """


def chain_ids(diff_ids: Iterable[str]) -> tuple[str, ...]:
    """Return the engine's id of each layer: a digest of it and all layers below.

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

    wheels: file names of its wheels; none in the lowest layer.
    """

    diff_id: str
    wheels: tuple[str, ...] = ()


def image_config(
    stack: Stack, base: EngineImage, layers: Sequence[OwnLayer], *, base_name: str, version: str
) -> bytes:
    """Return the configuration of a stack's image as canonical JSON.

    Args:
        stack: what is installed.
        base: what it is installed on.
        layers: the stack's own layers, bottom first.
        base_name: what stackgen calls the base.
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
                "Labels": _labels(stack, base, layers, base_name, version),
                "WorkingDir": "/",
                **({"User": base.user} if base.user else {}),
            },
            "history": _history(len(base.diff_ids), layers, base_name, version),
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


def _environment(stack: Stack, base: EngineImage) -> list[tuple[str, str]]:
    inherited = dict(base.env)
    path = inherited.get("PATH", _DEFAULT_PATH)
    own = {"PATH": f"{PREFIX}/bin:{path}", "VIRTUAL_ENV": PREFIX}
    return sorted({**inherited, **own, **dict(stack.settings)}.items())


def _labels(
    stack: Stack, base: EngineImage, layers: Sequence[OwnLayer], base_name: str, version: str
) -> dict[str, str]:
    packages = [[a.name, a.version, a.filename, a.sha256] for a in stack.lock.artifacts]
    built = [f"{a.name}=={a.version}" for a in stack.lock.artifacts if a.index == BUILT_HERE]
    digests = [each.rpartition("@")[2] for each in base.digests]
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
        f"{OCI_LABELS}base.name": base_name,
        f"{OCI_LABELS}base.digest": digests[0] if digests else base.id,
        f"{OCI_LABELS}description": _describe(stack.lock),
    }


def _describe(lock: Lock) -> str:
    return " ".join(f"{name}=={version}" for name, version in lock.versions.items())


def _history(
    below: int, layers: Sequence[OwnLayer], base_name: str, version: str
) -> list[dict[str, str]]:
    """Return a description of each layer for `docker history`; ``below`` are of the base."""
    own = [
        {
            "created": _EPOCH,
            "created_by": f"stackgen {version}: {', '.join(layer.wheels) or 'virtualenv'}",
        }
        for layer in layers
    ]
    return [{"created": _EPOCH, "created_by": f"base {base_name}"}] * below + own


def canonical(document: object) -> bytes:
    """Return JSON; equal documents are equal bytes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")


# OCI image layouts

LAYOUT_FILE = canonical({"imageLayoutVersion": "1.0.0"})
_TYPES = "application/vnd.oci.image."


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A file of a layout.

    digest: ``sha256:`` and the digest of its bytes.
    size: bytes.
    zipped: of a layer, whether it is compressed with gzip.
    """

    digest: str
    size: int
    zipped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """Properties of an image from its configuration.

    diff_ids: of its layers, bottom first.
    """

    diff_ids: tuple[str, ...]
    labels: Mapping[str, str]
    platform: Mapping[str, str]


def read_config(content: bytes) -> ImageConfig:
    """Read an image's configuration.

    Raises:
        ValueError: it is invalid.
    """
    document = json.loads(content)
    try:
        return ImageConfig(
            diff_ids=tuple(document["rootfs"]["diff_ids"]),
            labels=dict(document["config"].get("Labels") or {}),
            platform={
                key: str(document[key])
                for key in ("architecture", "os", "variant")
                if document.get(key)
            },
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it lacks {error}") from error


def image_manifest(config: ImageConfig, blob: Blob, layers: Sequence[Blob]) -> bytes:
    """Return the manifest of an image, whose annotations are its labels of the OCI.

    Args:
        config: what the configuration says.
        blob: the configuration itself.
        layers: the image's layers, bottom first.
    """
    return canonical(
        {
            "schemaVersion": 2,
            "mediaType": f"{_TYPES}manifest.v1+json",
            "config": _descriptor(blob, "config.v1+json"),
            "layers": [_descriptor(each, _layer_type(each)) for each in layers],
            "annotations": _annotations(config),
        }
    )


def image_index(config: ImageConfig, manifest: bytes, *, name: str) -> bytes:
    """Return the ``index.json`` of a layout with one image.

    Args:
        config: what the image's configuration says.
        manifest: what ``image_manifest`` returned.
        name: of the image within the layout (``oci:FOLDER:NAME``).
    """
    blob = blob_of(manifest)
    entry = {
        **_descriptor(blob, "manifest.v1+json"),
        "platform": dict(config.platform),
        "annotations": {f"{OCI_LABELS}ref.name": name},
    }
    return canonical(
        {"schemaVersion": 2, "mediaType": f"{_TYPES}index.v1+json", "manifests": [entry]}
    )


def blob_of(content: bytes) -> Blob:
    """Return the name of a document."""
    return Blob(digest=f"sha256:{hashlib.sha256(content).hexdigest()}", size=len(content))


def _descriptor(blob: Blob, kind: str) -> dict[str, object]:
    return {"mediaType": f"{_TYPES}{kind}", "digest": blob.digest, "size": blob.size}


def _layer_type(blob: Blob) -> str:
    return f"layer.v1.tar{'+gzip' * blob.zipped}"


def _annotations(config: ImageConfig) -> dict[str, str]:
    return {key: text for key, text in config.labels.items() if key.startswith(OCI_LABELS)}


# Order of layers, and wheels that share a layer

# The classic engine refuses a chain of more than 125 layers: its storage driver takes 127, and
# a running container needs two of its own.
MAX_LAYERS = 125
_VERY_LARGE = 100_000_000  # bytes of a wheel


def layer_order(
    artifacts: Iterable[Artifact], *, varied: Collection[str] = frozenset()
) -> tuple[Artifact, ...]:
    """Order a stack's wheels so that stacks share the longest and heaviest chain.

    An engine stores all layers above a changed one again. So very large wheels come first, whatever
    differs above them; then those that all stacks share, and varied packages last, in each part the
    larger ones first. Sizes are compared by powers of two, so that two releases of similar size
    have the same place.

    Args:
        artifacts: the wheels of one stack.
        varied: names of the packages that differ from stack to stack.
    """

    def key(artifact: Artifact) -> tuple[bool, bool, int, str]:
        size = artifact.size or 0
        return size < _VERY_LARGE, artifact.name in varied, -size.bit_length(), artifact.name

    return tuple(sorted(artifacts, key=key))


def layer_plan(
    ordered: Sequence[Artifact], *, max_layers: int, varied: Collection[str] = frozenset()
) -> tuple[tuple[Artifact, ...], ...]:
    """Return the wheels of each layer, bottom first; at most ``max_layers``.

    If there are more wheels than layers, the smallest common wheels share the lowest layer, and
    then the smallest varied ones.

    Raises:
        BuildError: ``max_layers`` is below 1.
    """
    if len(ordered) <= max_layers:
        return tuple((artifact,) for artifact in ordered)
    if max_layers < 1:
        raise BuildError(
            "the base image has too many layers",
            why=f"an engine takes {MAX_LAYERS} layers, and the base has no layer left for a stack",
            fix="choose another base (stackgen images), or flatten it with docker export",
        )
    expendable = sorted(ordered, key=lambda a: (a.name in varied, a.size or 0, a.name))
    merged = {artifact.name for artifact in expendable[: len(ordered) - max_layers + 1]}
    lowest = tuple(artifact for artifact in ordered if artifact.name in merged)
    return lowest, *((artifact,) for artifact in ordered if artifact.name not in merged)
