"""The store of layers: one deterministic tar per wheel and Python, shared by several processes.

Of a large layer that an engine has, the tar is removed and its description stays: the same bytes
are made from the wheel again where another engine, or an image on other layers, needs them.
"""

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from stackgen.errors import BuildError, DamagedLayersError, StorageError
from stackgen.images.layers import LAYOUT, STACK_PYTHON, Aside, Compiler, Layer
from stackgen.images.unpack import (
    LayerTar,
    merge,
    unpack,
    unpack_sources,
    unpacked_size,
)
from stackgen.model.identity import content_id
from stackgen.model.packages import Artifact
from stackgen.model.reports.images import ItemKind, StoreItem
from stackgen.model.stacks import Base
from stackgen.storage.files import (
    DISK_FULL,
    file_sha256,
    free_bytes,
    occupied_bytes,
    remove_path,
    storage_error,
)
from stackgen.storage.leases import Leases, Locks

# Temporary folders, which are leftovers as soon as their process has ended

_NAME = re.compile(r"tmp-[0-9a-f]+-(\d+)")  # the number is the disk space it reserves, in bytes
_DISK_SPACE_LOCK = "room"


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """Temporary folders below the root of a store."""

    root: Path
    leases: Leases

    @contextmanager
    def folder(
        self, locks: Locks, need: int, remove: Callable[[Path], object] = _remove
    ) -> Iterator[Path]:
        """Yield a new folder, which is removed with its contents at the end.

        Args:
            locks: lock the folder against ``sweep``.
            need: bytes of disk space to reserve; reservations of other processes count, too.
            remove: is called with the folder at the end.

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
            remove(path)

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
_WORKERS = 2  # unpacking inflates and hashes without the interpreter lock
LARGE_BYTES = 60 << 20
"""Frameworks and NumPy are larger, and little else. With their wheels and the tars of all other
layers, a campaign's disk space stays below 1.3 times that of the engine."""
# The sources and the tar with bytecode exist at once: seen 1.2 times the unpacked bytes.
_SPACE_FACTOR = 1.5


class LayerStore:
    """Content-addressed store of layers in a folder.

    This object has leases on the layers that it returned.

    root: is created where it does not exist.
    notify: is called with a sentence about each damaged layer.
    large_bytes: layers from this size on have no tar beside the copy in an engine.
    """

    def __init__(
        self,
        root: Path,
        *,
        notify: Callable[[str], None] | None = None,
        large_bytes: int = LARGE_BYTES,
    ) -> None:
        self.root = root
        self._large_bytes = large_bytes
        self._notify = notify
        self._leases = Leases(root)
        self._staging = Staging(root=root, leases=self._leases)
        self._remove: Callable[[Path], object] = _remove

    @contextmanager
    def removing_aside(self) -> Iterator[Aside]:
        """Within this context, a thread removes temporary folders; it has ended with the context.

        To remove thousands of files is mostly to wait for the disk. Yields a function that has the
        same thread call another one, whose errors are raised at the end.
        """
        begun = []
        with ThreadPoolExecutor(1) as pool:

            def aside(action: Callable[[], object]) -> None:
                try:
                    begun.append(pool.submit(action))
                except RuntimeError:  # of another thread's context, which has ended
                    action()

            self._remove = lambda folder: aside(partial(_remove, folder))
            try:
                yield aside
            finally:
                self._remove = _remove
        for each in begun:
            each.result()

    def skeleton(self, base: Base) -> Layer:
        """Return the layer that makes ``/opt/stack`` a virtualenv of the base's interpreter."""
        key = _skeleton_key(base)
        return self._one(key, lambda tar: _write_skeleton(base, tar))

    def layers(
        self,
        base: Base,
        wheels: Sequence[tuple[Artifact, Path]],
        compiler: Compiler,
        *,
        whole: bool = False,
    ) -> Mapping[str, Layer]:
        """Return the layer of each wheel by the wheel's sha256; missing layers are built.

        With ``whole``, the tars of all of them exist; without, some may have been removed.

        All missing layers are byte-compiled in one process, since its start is slow. A layer that
        another process is building is waited for.

        Raises:
            BuildError: a wheel is invalid, or the interpreter does not run.
            DamagedLayersError: a layer that was made again is not what it was.
            StorageError: the disk is full or cannot be written.
        """
        wanted = {_key(base, pair[0]): pair for pair in wheels}

        def make(keys: Sequence[str], locks: Locks) -> None:
            self._make(base, {key: wanted[key] for key in keys}, compiler, locks)

        self._create_missing(wanted, make, whole=whole)
        return {each.sha256: self._existing(_key(base, each), whole=whole) for each, _ in wheels}

    def release(self, layers: Iterable[Layer]) -> None:
        """Remove the tars of large layers, which an engine has; others may be sent again soon.

        A tar that another process is about to send stays.
        """
        for layer in layers:
            if layer.size >= self._large_bytes and _description(layer.path).get("of"):
                with contextlib.suppress(OSError), self._leases.claim(layer.path.stem) as claimed:
                    if claimed:
                        layer.path.unlink(missing_ok=True)

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

        def write(tar: LayerTar) -> None:
            self.refuse_damaged(parts)
            merge(parts, tar)

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
        return self._one(key, lambda tar: tar.copy_layer(source))

    def base_layer(self, diff_id: str) -> Layer | None:
        """Return a base's layer, if it is stored."""
        return self._find(_external_key(diff_id))

    def missing(self, base: Base, artifacts: Iterable[Artifact]) -> tuple[Artifact, ...]:
        """Return the wheels without a layer."""
        return tuple(each for each in artifacts if recorded(self._path(_key(base, each))) is None)

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
                lone = not description.with_suffix(".tar").exists()
                if claimed and lone and not _description(description).get("of"):
                    yield description
                    if remove:
                        description.unlink(missing_ok=True)

    def _create_missing(
        self,
        keys: Iterable[str],
        make: Callable[[Sequence[str], Locks], None],
        *,
        whole: bool = True,
    ) -> None:
        def exists(key: str) -> bool:
            return self._find(key, whole=whole) is not None

        with self._explained("written"):
            self._leases.create_missing(keys, exists=exists, create=make)

    def _one(self, key: str, write: Callable[[LayerTar], None], *, need: int = 0) -> Layer:
        """Return a layer that is built alone and has about ``need`` bytes."""

        def make(_: Sequence[str], locks: Locks) -> None:
            with self._explained("written", need), self._staging.folder(locks, need) as folder:
                with (folder / key).open("xb") as file:
                    tar = LayerTar(file)
                    write(tar)
                    layer = tar.finish(self._path(key))
                self._store(folder / key, layer)

        self._create_missing([key], make)
        return self._existing(key)

    def _make(
        self,
        base: Base,
        wheels: Mapping[str, tuple[Artifact, Path]],
        compiler: Compiler,
        locks: Locks,
    ) -> None:
        """Make layers: sources are unpacked and compiled, and meanwhile all else is written."""
        self._staging.sweep()
        need = int(sum(unpacked_size(wheel) for _, wheel in wheels.values()) * _SPACE_FACTOR)
        site = site_packages(base)
        with (
            self._explained("written", need),
            self._staging.folder(locks, need, self._remove) as staging,
        ):
            trees = staging / "trees"
            trees.mkdir()
            trees.chmod(0o755)  # a compiling container may run as another user

            def unpack_python(key: str) -> None:
                tree = trees / wheels[key][0].sha256
                tree.mkdir()
                unpack_sources(*wheels[key], tree, prefix=_PREFIX, site=site)

            def begin(key: str) -> LayerTar:
                tar = LayerTar(files.enter_context((staging / key).open("xb")))
                unpack(*wheels[key], tar, prefix=_PREFIX, site=site)
                return tar

            def finish(key: str, tar: LayerTar) -> None:
                artifact, _ = wheels[key]
                tree = trees / artifact.sha256
                for path in sorted(tree.rglob("*.pyc"), key=str):
                    tar.add(str(path.relative_to(tree)), path.read_bytes())
                self._store(staging / key, tar.finish(self._path(key)), of=artifact.filename)

            # The largest first: it takes longest, and the small ones pass beside it.
            keys = sorted(wheels, key=lambda key: -wheels[key][1].stat().st_size)
            with contextlib.ExitStack() as files, _pool(_WORKERS + 1) as pool:
                laid_out = [pool.submit(unpack_python, key) for key in keys]
                begun = [pool.submit(begin, key) for key in keys]
                with compiler.compiling(base, trees) as compile_all:  # starts meanwhile
                    for each in laid_out:
                        each.result()
                    try:
                        _compile(compile_all)
                    finally:  # what is wrong with a wheel explains more
                        tars = [each.result() for each in begun]
                list(pool.map(finish, keys, tars))

    def _path(self, key: str) -> Path:
        return self.root / key[:2] / f"{key}.tar"

    def _find(self, key: str, *, whole: bool = True) -> Layer | None:
        self._leases.hold(key)
        layer = recorded(self._path(key))
        if layer is None or (whole and not layer.path.exists()):
            return None
        with contextlib.suppress(OSError):  # a read-only store, or the tar was removed
            os.utime(layer.path)
        return layer

    def _existing(self, key: str, *, whole: bool = True) -> Layer:
        if layer := self._find(key, whole=whole):
            return layer
        raise StorageError(
            f"a layer vanished from {self.root}",
            why="another process pruned the store while this stack was assembled",
            fix="run the same command again",
        )

    def _store(self, written: Path, layer: Layer, *, of: str = "") -> None:
        """Move a tar to its place and describe it; a reader sees both complete, or none.

        Nothing waits for the disk: an engine compares each layer with its digest, so that what a
        power cut damages is made again.
        """
        path = layer.path
        path.parent.mkdir(parents=True, exist_ok=True)
        before = recorded(path)
        written.chmod(0o644)
        written.replace(path)
        description = written.with_suffix(".json")
        description.write_text(
            json.dumps({"diff_id": layer.diff_id, "size": layer.size, "of": of}), encoding="utf-8"
        )
        description.chmod(0o644)
        description.replace(path.with_suffix(".json"))
        if before is not None and before != layer:
            raise DamagedLayersError(
                f"the layer of {of} is not what it was",
                why=f"it is {layer.diff_id[:19]} now, and was {before.diff_id[:19]}",
                fix="run the same command again",
            )

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


@contextmanager
def _pool(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Open a pool that begins nothing more after an error."""
    with ThreadPoolExecutor(workers) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


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
    """Return the layer of a tar by its description; None where they do not match.

    A tar that can be made from a wheel again may be missing.
    """
    description = _description(path)
    try:
        layer = Layer(path=path, diff_id=description["diff_id"], size=int(description["size"]))
        return layer if path.stat().st_size == layer.size else None
    except FileNotFoundError:
        return layer if description.get("of") else None
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


def _write_skeleton(base: Base, tar: LayerTar) -> None:
    prefix = _PREFIX.lstrip("/")
    settings = {
        "home": str(Path(base.python).parent),
        "include-system-site-packages": "false",
        "version": base.target.python,
    }
    tar.add_entry(_entry(site_packages(base).lstrip("/"), tarfile.DIRTYPE))
    tar.add_entry(_entry(f"{prefix}/bin/python", tarfile.SYMTYPE, link=base.python))
    tar.add_entry(_entry(f"{prefix}/bin/python3", tarfile.SYMTYPE, link="python"))
    text = "".join(f"{name} = {value}\n" for name, value in settings.items())
    tar.add(f"{prefix}/pyvenv.cfg", text.encode())


def _entry(name: str, kind: bytes, *, link: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.linkname = link
    return entry
