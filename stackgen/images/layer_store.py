"""The store of layers: one deterministic tar per wheel and Python, shared by several processes."""

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from stackgen.errors import BuildError, DamagedLayersError, StorageError
from stackgen.images.layers import LAYOUT, STACK_PYTHON, Compiler, Layer
from stackgen.images.unpack import unpack, unpacked_size
from stackgen.model.identity import content_id
from stackgen.model.packages import Artifact
from stackgen.model.reports.images import ItemKind, StoreItem
from stackgen.model.stacks import Base
from stackgen.storage.files import (
    CHUNK_BYTES,
    DISK_FULL,
    atomic_write,
    file_sha256,
    free_bytes,
    occupied_bytes,
    remove_path,
    storage_error,
)
from stackgen.storage.leases import Leases, Locks

# Layers as tar files, whose bytes depend only on names and contents of their members

# 1980: zip archives, which some packages make of their own files, know nothing earlier.
_MTIME = 315532800
_END = bytes(2 * tarfile.BLOCKSIZE)


class HashingWriter:
    """A file that computes the digest of its content while it is written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, content: bytes) -> int:
        """Write and count."""
        self._digest.update(content)
        self.size += len(content)
        return self._file.write(content)

    @property
    def diff_id(self) -> str:
        """Return the name of a layer with these bytes."""
        return f"sha256:{self._digest.hexdigest()}"


def write_tree(root: Path, file: BinaryIO, path: Path) -> Layer:
    """Write everything below ``root``, sorted by name.

    Args:
        root: stands for the root of the image.
        file: where the tar is written.
        path: where the tar will be found later.
    """
    out = HashingWriter(file)
    for member in _members(root):
        _write_member(root, member, out)
    return _finish(out, path)


def write_entries(
    entries: Iterable[tuple[tarfile.TarInfo, bytes]], file: BinaryIO, path: Path
) -> Layer:
    """Write members that exist in memory alone."""
    out = HashingWriter(file)
    for entry, content in entries:
        plain = plain_entry(entry)
        plain.size = len(content)
        out.write(_header(plain))
        out.write(content + bytes(-len(content) % tarfile.BLOCKSIZE))
    return _finish(out, path)


def merge(parts: Sequence[Layer], file: BinaryIO, path: Path) -> Layer:
    """Merge layers into one with the members of all; later layers replace members of earlier ones.

    An engine refuses a layer that names a file twice, so equal folders are written once. A file in
    place of a folder takes away all that was in it, as it would in a layer of its own.
    """
    out = HashingWriter(file)
    with contextlib.ExitStack() as stack:
        chosen: dict[str, tuple[tarfile.TarInfo, tarfile.TarFile]] = {}
        for part in parts:
            archive = stack.enter_context(tarfile.open(part.path))
            for entry in archive:
                below = chosen.get(entry.name)
                if below is not None and below[0].isdir() and not entry.isdir():
                    _forget_below(entry.name, chosen)
                chosen[entry.name] = entry, archive
        for _, (entry, archive) in sorted(chosen.items()):
            out.write(_header(entry))
            if source := archive.extractfile(entry) if entry.isreg() else None:
                _copy(source, out, entry.size)
    return _finish(out, path)


def _forget_below(folder: str, chosen: dict[str, tuple[tarfile.TarInfo, tarfile.TarFile]]) -> None:
    for name in [name for name in chosen if name.startswith(f"{folder}/")]:
        del chosen[name]


def copy_whole(source: IO[bytes], file: BinaryIO, path: Path) -> Layer:
    """Copy a complete layer."""
    out = HashingWriter(file)
    _copy(source, out)
    return Layer(path=path, diff_id=out.diff_id, size=out.size)


def plain_entry(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member without owner, time, or the permissions of a umask."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = _MTIME
    executable = entry.isdir() or entry.issym() or entry.mode & stat.S_IXUSR
    entry.mode = 0o755 if executable else 0o644
    return entry


def _members(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders.sort()
        relative = os.path.relpath(folder, root)
        if relative != ".":
            yield relative
        yield from (os.path.normpath(f"{relative}/{name}") for name in sorted(files))


def _write_member(root: Path, member: str, out: HashingWriter) -> None:
    path = root / member
    status = path.lstat()
    entry = tarfile.TarInfo(member)
    entry.mode = status.st_mode
    if stat.S_ISDIR(status.st_mode):
        entry.type = tarfile.DIRTYPE
        out.write(_header(plain_entry(entry)))
        return
    entry.size = status.st_size
    out.write(_header(plain_entry(entry)))
    with path.open("rb") as source:
        _copy(source, out, entry.size)


def _copy(source: IO[bytes], out: HashingWriter, size: int = 0) -> None:
    """Copy everything, and fill up the last block of a member of that size."""
    while chunk := source.read(CHUNK_BYTES):
        out.write(chunk)
    out.write(bytes(-size % tarfile.BLOCKSIZE))


def _header(entry: tarfile.TarInfo) -> bytes:
    return entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _finish(out: HashingWriter, path: Path) -> Layer:
    out.write(_END)
    return Layer(path=path, diff_id=out.diff_id, size=out.size)


# Temporary folders, which are leftovers as soon as their process has ended

_NAME = re.compile(r"tmp-[0-9a-f]+-(\d+)")  # the number is the disk space it reserves, in bytes
_DISK_SPACE_LOCK = "room"


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """Temporary folders below the root of a store."""

    root: Path
    leases: Leases

    @contextmanager
    def folder(self, locks: Locks, need: int) -> Iterator[Path]:
        """Yield a new folder, which is removed with its contents at the end.

        Args:
            locks: lock the folder against ``sweep``.
            need: bytes of disk space to reserve; reservations of other processes count, too.

        Raises:
            OSError: there is less free disk space (ENOSPC), or the folder cannot be created.
        """
        path = self.root / f"tmp-{secrets.token_hex(8)}-{need}"
        locks.try_acquire(path.name)  # before it exists: it is never seen unlocked
        locks.acquire(_DISK_SPACE_LOCK)  # its holder waits for no other lock
        try:
            self._require_disk_space(need)
            path.mkdir()
        finally:
            locks.release(_DISK_SPACE_LOCK)
        try:
            path.chmod(0o755)  # a compiling container may run as another user
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def sweep(self, *, remove: bool = True) -> tuple[Path, ...]:
        """Return (and remove) folders and files of killed processes."""
        found = []
        with self.leases.locks() as locks:
            for path in (*self.root.glob("tmp-*"), *self.root.glob("??/tmp-*")):
                if locks.try_acquire(path.name):
                    found.append(path)
                    if remove:
                        with contextlib.suppress(OSError):
                            remove_path(path)
        return tuple(found)

    def _require_disk_space(self, need: int) -> None:
        free = free_bytes(self.root)
        reserved = {path: _reserved_bytes(path) for path in self.root.glob("tmp-*")}
        if free >= need + sum(reserved.values()):
            return
        # What other processes have written is no longer free: only the rest of their need counts.
        others = sum(
            max(0, reserved[path] - occupied_bytes(path)) for path in reserved if self._lives(path)
        )
        if free < need + others:
            more = f", of which others need {others >> 20} MiB" if others else ""
            raise OSError(errno.ENOSPC, f"{free >> 20} MiB are free{more}")

    def _lives(self, path: Path) -> bool:
        with self.leases.locks() as locks:
            return not locks.try_acquire(path.name)


def _reserved_bytes(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else 0


_PREFIX = str(Path(STACK_PYTHON).parent.parent)
_WORKERS = 2  # unpacking is half inflating, half waiting for the disk
# The tree, its bytecode and the tar exist at once: seen 2.3 times the unpacked bytes.
_SPACE_FACTOR = 2.5


class LayerStore:
    """Content-addressed store of layers in a folder.

    This object has leases on the layers that it returned.

    root: is created where it does not exist.
    notify: is called with a sentence about each damaged layer.
    """

    def __init__(self, root: Path, *, notify: Callable[[str], None] | None = None) -> None:
        self.root = root
        self._notify = notify
        self._leases = Leases(root)
        self._staging = Staging(root=root, leases=self._leases)

    def skeleton(self, base: Base) -> Layer:
        """Return the layer that makes ``/opt/stack`` a virtualenv of the base's interpreter."""
        key = _skeleton_key(base)
        return self._one(key, lambda file, path: write_entries(_skeleton(base), file, path))

    def layers(
        self, base: Base, wheels: Sequence[tuple[Artifact, Path]], compiler: Compiler
    ) -> Mapping[str, Layer]:
        """Return the layer of each wheel by the wheel's sha256; missing layers are built.

        All missing layers are byte-compiled in one process, since its start is slow. A layer that
        another process is building is waited for.

        Raises:
            BuildError: a wheel is invalid, or the interpreter does not run.
            StorageError: the disk is full or cannot be written.
        """
        wanted = {_key(base, pair[0]): pair for pair in wheels}

        def make(keys: Sequence[str], locks: Locks) -> None:
            self._make(base, {key: wanted[key] for key in keys}, compiler, locks)

        self._create_missing(wanted, make)
        return {artifact.sha256: self._existing(_key(base, artifact)) for artifact, _ in wheels}

    def touch(self, base: Base, artifacts: Sequence[Artifact]) -> None:
        """Hold leases on the existing layers of these wheels, and note that they are used."""
        for key in (_skeleton_key(base), *(_key(base, each) for each in artifacts)):
            self._find(key)

    def merged(self, parts: Sequence[Layer]) -> Layer:
        """Return one layer with the members of all parts.

        Raises:
            DamagedLayersError: a part is damaged.
        """
        key = content_id("merged", [LAYOUT, *(part.diff_id for part in parts)])
        size = sum(part.size for part in parts)

        def write(file: BinaryIO, path: Path) -> Layer:
            self.refuse_damaged(parts)
            return merge(parts, file, path)

        return self._one(key, write, need=size)

    def refuse_damaged(self, layers: Iterable[Layer]) -> None:
        """Compare layers with their digests, and remove damaged ones.

        Raises:
            DamagedLayersError: a layer was damaged.
        """
        damaged = [layer for layer in layers if not _is_whole(layer)]
        if not damaged:
            return
        for layer in damaged:
            name = _description(layer.path).get("of") or layer.diff_id[:19]
            with self._explained("changed"):  # regardless of leases: it is useless to all
                layer.path.with_suffix(".json").unlink(missing_ok=True)
                layer.path.unlink(missing_ok=True)
            if self._notify:
                self._notify(f"The cache was damaged: the layer of {name} is made anew.")
        raise DamagedLayersError(
            f"{len(damaged)} layer(s) in {self.root} were damaged",
            why="their bytes are not what was written; they were removed",
            fix="run the same command again; if it stays so, look at the disk, and run: "
            "stackgen images fsck --repair",
        )

    def add_base_layer(self, diff_id: str, source: IO[bytes]) -> Layer:
        """Store a base's layer."""
        key = _external_key(diff_id)
        return self._one(key, lambda file, path: copy_whole(source, file, path))

    def base_layer(self, diff_id: str) -> Layer | None:
        """Return a base's layer, if it is stored."""
        return self._find(_external_key(diff_id))

    def missing(self, base: Base, artifacts: Iterable[Artifact]) -> tuple[Artifact, ...]:
        """Return the wheels without a layer."""
        return tuple(each for each in artifacts if not self._path(_key(base, each)).exists())

    def hold(self, stack_id: str) -> None:
        """Hold a lease on the image of a stack, and note that the image belongs to this store."""
        self._leases.hold(_stack_name(stack_id))
        note = self._stacks / stack_id
        with contextlib.suppress(OSError):  # in a read-only store, nothing is evicted
            note.parent.mkdir(parents=True, exist_ok=True)
            note.touch()

    def stacks(self) -> frozenset[str]:
        """Return the ids of the stacks whose images belong to this store."""
        return frozenset(path.name for path in self._stacks.glob("*"))

    def claim(self, stack_id: str) -> contextlib.AbstractContextManager[bool]:
        """Claim a stack's image; yield False where another process holds a lease on it."""
        return self._leases.claim(_stack_name(stack_id))

    def forget(self, stack_id: str) -> None:
        """Note that a stack's image is gone."""
        (self._stacks / stack_id).unlink(missing_ok=True)

    @property
    def _stacks(self) -> Path:
        return self.root / "stacks"

    def items(self) -> Iterator[StoreItem]:
        """Yield all layers, in no order."""
        for path in self.root.glob("??/*.tar"):
            with contextlib.suppress(FileNotFoundError):  # another process evicts, too
                status = path.stat()
                yield StoreItem(
                    kind=ItemKind.LAYER,
                    name=_description(path).get("of") or path.stem[:12],
                    path=str(path),
                    size=status.st_size,
                    used_at=status.st_mtime,
                )

    def drop(self, item: StoreItem, *, dry_run: bool = False) -> bool:
        """Remove a layer without a lease; return whether it is (or would be) removed.

        Raises:
            StorageError: the folder cannot be written.
        """
        path = Path(item.path)
        with self._explained("changed"), self._leases.claim(path.stem) as claimed:
            if claimed and not dry_run:
                path.with_suffix(".json").unlink(missing_ok=True)
                path.unlink(missing_ok=True)
            return claimed

    def leftovers(self, *, remove: bool = False) -> tuple[Path, ...]:
        """Return (and remove) what killed processes left."""
        if not self.root.exists():
            return ()
        with self._explained("changed"):
            lone = tuple(self._lone_descriptions(remove=remove))
            return tuple(sorted((*self._staging.sweep(remove=remove), *lone)))

    def _lone_descriptions(self, *, remove: bool) -> Iterator[Path]:
        for description in self.root.glob("??/*.json"):
            with self._leases.claim(description.stem) as claimed:
                if claimed and not description.with_suffix(".tar").exists():
                    yield description
                    if remove:
                        description.unlink(missing_ok=True)

    def _create_missing(
        self, keys: Iterable[str], make: Callable[[Sequence[str], Locks], None]
    ) -> None:
        with self._explained("written"):
            self._leases.create_missing(
                keys, exists=lambda key: self._find(key) is not None, create=make
            )

    def _one(self, key: str, write: Callable[[BinaryIO, Path], Layer], *, need: int = 0) -> Layer:
        """Return a layer that is built alone and has about ``need`` bytes."""

        def make(_: Sequence[str], locks: Locks) -> None:
            with self._explained("written", need), self._staging.folder(locks, need) as folder:
                self._write(folder, key, write)

        self._create_missing([key], make)
        return self._existing(key)

    def _make(
        self,
        base: Base,
        wheels: Mapping[str, tuple[Artifact, Path]],
        compiler: Compiler,
        locks: Locks,
    ) -> None:
        self._staging.sweep()
        need = int(sum(unpacked_size(wheel) for _, wheel in wheels.values()) * _SPACE_FACTOR)
        with self._explained("written", need), self._staging.folder(locks, need) as staging:

            def lay_out(pair: tuple[Artifact, Path]) -> None:
                tree = staging / pair[0].sha256
                tree.mkdir()
                unpack(*pair, tree, prefix=_PREFIX, site=site_packages(base))

            def store(key: str) -> None:
                artifact, _ = wheels[key]
                tree = staging / artifact.sha256
                self._write(
                    staging,
                    key,
                    lambda file, path: write_tree(tree, file, path),
                    of=artifact.filename,
                )
                shutil.rmtree(tree)

            with ThreadPoolExecutor(_WORKERS) as pool:
                with compiler.compiling(base, staging) as compile_all:
                    list(pool.map(lay_out, wheels.values()))
                    _compile(compile_all)
                list(pool.map(store, wheels))

    def _path(self, key: str) -> Path:
        return self.root / key[:2] / f"{key}.tar"

    def _find(self, key: str) -> Layer | None:
        self._leases.hold(key)
        layer = recorded(self._path(key))
        with contextlib.suppress(OSError):  # a read-only store
            if layer is not None:
                os.utime(layer.path)
        return layer

    def _existing(self, key: str) -> Layer:
        if layer := self._find(key):
            return layer
        raise StorageError(
            f"a layer vanished from {self.root}",
            why="another process pruned the store while this stack was assembled",
            fix="run the same command again",
        )

    def _write(
        self,
        staging: Path,
        key: str,
        write: Callable[[BinaryIO, Path], Layer],
        *,
        of: str = "",
    ) -> None:
        """Write a tar and its description; a reader sees both complete, or none."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path, folder=staging) as file:
            layer = write(file, path)
        description = {"diff_id": layer.diff_id, "size": layer.size, "of": of}
        with atomic_write(path.with_suffix(".json"), folder=staging) as file:
            file.write(json.dumps(description).encode())

    @contextlib.contextmanager
    def _explained(self, action: str, need: int = 0) -> Iterator[None]:
        """Explain errors of the disk; ``need`` is in bytes."""
        try:
            yield
        except OSError as error:
            if error.errno not in _DISK_ERRORS:
                raise
            what = f"the store of layers in {self.root} cannot be {action}"
            raise storage_error(what, error, needed_bytes=need) from error


_DISK_ERRORS = DISK_FULL | {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR}


def _compile(compile_all: Callable[[], None]) -> None:
    try:
        compile_all()
    except BuildError as error:
        # It runs in another process, of which only the output is known.
        if os.strerror(errno.ENOSPC) in error.why:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise


def _is_whole(layer: Layer) -> bool:
    try:
        return f"sha256:{file_sha256(layer.path)}" == layer.diff_id
    except FileNotFoundError:
        return False


def recorded(path: Path) -> Layer | None:
    """Return the layer of a tar by its description; None where they do not match."""
    description = _description(path)
    try:
        layer = Layer(path=path, diff_id=description["diff_id"], size=int(description["size"]))
        return layer if path.stat().st_size == layer.size else None
    except (OSError, ValueError, KeyError):
        return None


def _description(path: Path) -> Mapping[str, str]:
    try:
        description = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        return {str(key): str(value) for key, value in description.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def site_packages(base: Base) -> str:
    """Return the folder of a stack's packages on a base."""
    abi = base.target.tags[0].split("-")[1] if base.target.tags else ""
    threading = "t" if re.fullmatch(r"cp\d+t", abi) else ""
    return f"{_PREFIX}/lib/python{base.target.python_minor}{threading}/site-packages"


def _key(base: Base, artifact: Artifact) -> str:
    return content_id("layer", [LAYOUT, artifact.sha256, base.facts.python, site_packages(base)])


def _skeleton_key(base: Base) -> str:
    return content_id("skeleton", [LAYOUT, base.python, base.facts.python, site_packages(base)])


def _stack_name(stack_id: str) -> str:
    return f"stack {stack_id}"


def _external_key(diff_id: str) -> str:
    return content_id("foreign", diff_id)


def _skeleton(base: Base) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    site = site_packages(base).lstrip("/")
    parts = site.split("/")
    prefix = _PREFIX.lstrip("/")
    for depth in range(1, len(parts) + 1):
        yield _entry("/".join(parts[:depth]), tarfile.DIRTYPE), b""
    yield _entry(f"{prefix}/bin", tarfile.DIRTYPE), b""
    yield _entry(f"{prefix}/bin/python", tarfile.SYMTYPE, link=base.python), b""
    yield _entry(f"{prefix}/bin/python3", tarfile.SYMTYPE, link="python"), b""
    home = str(Path(base.python).parent)
    settings = {
        "home": home,
        "include-system-site-packages": "false",
        "version": base.target.python,
    }
    text = "".join(f"{name} = {value}\n" for name, value in settings.items())
    yield _entry(f"{prefix}/pyvenv.cfg", tarfile.REGTYPE), text.encode()


def _entry(name: str, kind: bytes, *, link: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.linkname = link
    return entry
