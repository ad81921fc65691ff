"""Image archives, as engines load them, made piece by piece."""

import tarfile
from collections.abc import Generator, Iterable, Iterator, Sequence

from stackgen import layers
from stackgen.layers import BaseImage, Layer
from stackgen.layers.image import config_member, layer_member

_CHUNK = 1 << 20


def image_archive(
    tag: str, base: BaseImage, own: Sequence[Layer], config: bytes, *, sent: Iterable[Layer]
) -> Generator[bytes, None, None]:
    """Yield an image archive, piece by piece, so that it needs no disk.

    Args:
        tag: the image's tag.
        base: what it is based on.
        own: the layers above the base, bottom first.
        config: the image's configuration.
        sent: the layers that the archive holds.
    """
    diff_ids = [*base.diff_ids, *(layer.diff_id for layer in own)]
    members = [layer_member(diff_id) for diff_id in diff_ids]
    yield from _file(config_member(config), config)
    yield from _file("manifest.json", layers.load_manifest(config, tag=tag, members=members))
    for layer in {layer.diff_id: layer for layer in sent}.values():
        yield _header(layer_member(layer.diff_id), layer.size)
        with layer.path.open("rb") as source:
            while chunk := source.read(_CHUNK):
                yield chunk
        yield bytes(-layer.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _file(name: str, content: bytes) -> Iterator[bytes]:
    yield _header(name, len(content))
    yield content + bytes(-len(content) % tarfile.BLOCKSIZE)


def _header(name: str, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry.tobuf(tarfile.PAX_FORMAT)
