"""The documents of an OCI image layout: equal inputs give equal bytes.

Source: OCI image specification 1.0, "Image Layout", "Image Manifest" and "Image Index".
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stackgen.layers.image import OCI_LABELS, canonical

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
class Config:
    """What a layout says of an image beside its configuration.

    diff_ids: of its layers, bottom first.
    """

    diff_ids: tuple[str, ...]
    labels: Mapping[str, str]
    platform: Mapping[str, str]


def read_config(content: bytes) -> Config:
    """Read an image's configuration.

    Raises:
        ValueError: it is none.
    """
    document = json.loads(content)
    try:
        return Config(
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


def image_manifest(config: Config, blob: Blob, layers: Sequence[Blob]) -> bytes:
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


def image_index(config: Config, manifest: bytes, *, name: str) -> bytes:
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


def _annotations(config: Config) -> dict[str, str]:
    return {key: text for key, text in config.labels.items() if key.startswith(OCI_LABELS)}
