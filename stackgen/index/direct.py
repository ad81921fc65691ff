"""Files that a requirement names by their address, outside of every index."""

import re
from dataclasses import replace
from urllib.parse import parse_qs, unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stackgen.errors import IndexUnavailableError, UsageError
from stackgen.index.cache import Download
from stackgen.index.config import IndexLocation, location
from stackgen.index.pages import is_artifact, name_and_version, with_local_hash
from stackgen.index.replies import FRESH_S, IndexAccess
from stackgen.model.files import DIRECT
from stackgen.model.packages import Artifact
from stackgen.storage.files import path_of, stream_sha256

_OK = 200
_SHA256 = re.compile(r"[0-9a-f]{64}")
_REPOSITORY = re.compile(r"(git|hg|svn|bzr)(\+[a-z]+)?:|ssh:", re.IGNORECASE)


class DirectFiles:
    """The file at an address. Its hash is read off the address, or computed once."""

    def __init__(self, access: IndexAccess) -> None:
        self._access = access

    def artifact(self, requirement: Requirement) -> Artifact:
        """Return the wheel or sdist that a requirement names.

        Raises:
            UsageError: it names something else, another project, or a file of another hash.
            IndexUnavailableError: the file must be read for its hash, and cannot be.
        """
        url = requirement.url or ""
        place = _place(requirement.name, url)
        if place.credentials is not None:
            self._access.transport().add_credentials(place)
        filename = unquote(urlsplit(place.url).path.rpartition("/")[2])
        name, version = _release(canonicalize_name(requirement.name), filename)
        stated = _stated_hash(requirement.name, url)
        bare = Artifact(
            name=name,
            version=version,
            filename=filename,
            sha256=stated,
            url=place.url,
            index=DIRECT,
        )
        if path_of(place.url) is not None:
            return self._local(bare)
        return bare if stated else self._hashed(bare)

    def _local(self, stated: Artifact) -> Artifact:
        found = with_local_hash(replace(stated, sha256=""), self._access.cache)
        if not found.sha256:
            raise UsageError(
                f"there is no file {path_of(stated.url)}",
                why=f"the requirement on {stated.name} names it",
                fix="correct the path in the requirement",
            )
        if stated.sha256 not in ("", found.sha256):
            raise UsageError(
                f"{stated.filename} is not the file that the requirement means",
                why=f"its SHA-256 is {found.sha256}, the requirement states {stated.sha256}",
                fix="correct the hash behind #sha256=, or get the right file",
            )
        return found

    def _hashed(self, artifact: Artifact) -> Artifact:
        """Return the artifact with its hash, read in full unless the server says it is the same."""
        now = self._access.clock()
        known = self._access.cache.download(artifact.url)
        if known is None and self._access.config.offline:
            raise IndexUnavailableError(
                f"offline, and {artifact.filename} was not looked at before",
                why="its address states no hash, so it must be read once",
                fix="run the same command once without --offline, or add #sha256= to the address",
            )
        if known is None or not (self._access.config.offline or 0 <= now - known.fetched < FRESH_S):
            known = self._confirmed(artifact.url, known) or self._read(artifact.url)
            self._access.cache.keep_download(artifact.url, known)
        return replace(artifact, sha256=known.sha256, size=known.size)

    def _confirmed(self, url: str, known: Download | None) -> Download | None:
        mark = self._mark(url) if known and known.mark else ""
        same = known is not None and mark == known.mark != ""
        return replace(known, fetched=self._access.clock()) if known and same else None

    def _read(self, url: str) -> Download:
        from tempfile import TemporaryFile

        mark = self._mark(url)
        with TemporaryFile() as file:
            self._access.transport().download(url, file)
            size = file.seek(0, 2)
            file.seek(0)
            digest = stream_sha256(file)
        return Download(fetched=self._access.clock(), mark=mark, size=size, sha256=digest)

    def _mark(self, url: str) -> str:
        """Return a validator of this content (ETag or date, with length); "" for none."""
        reply = self._access.transport().head(url)
        self._access.transport().check(reply)
        validator = reply.headers.get("ETag") or reply.headers.get("Last-Modified", "")
        length = reply.headers.get("Content-Length", "")
        return f"{validator} {length}" if validator and reply.status == _OK else ""


def _place(name: str, url: str) -> IndexLocation:
    if _REPOSITORY.match(url):
        raise UsageError(
            f"cannot take {name} from a repository",
            why="stackgen measures files that can be had again as they are, not checkouts",
            fix="build a wheel of it once (pip wheel), and name that: 'name @ file:///...whl'",
        )
    return location(re.sub(r"^file:(?!//)", "", url))


def _release(name: str, filename: str) -> tuple[str, str]:
    """Return name and version by the file's name."""
    found = name_and_version(filename, name) if is_artifact(filename) else None
    if found is not None:
        return found
    other = name_and_version(filename, "") if filename.endswith(".whl") else None
    raise UsageError(
        f"{filename or 'the address'} is no wheel or source distribution of {name}",
        why=f"it is one of {other[0]}" if other else "its name does not have the form of one",
        fix="let the requirement name the file's own project, as in 'name @ file:///...whl'",
    )


def _stated_hash(name: str, url: str) -> str:
    """Return the SHA-256 behind the address; "" where there is none."""
    stated = parse_qs(urlsplit(url).fragment).get("sha256", [""])[0].lower()
    if stated and not _SHA256.fullmatch(stated):
        raise UsageError(
            f"the hash of {name} cannot be read",
            why=f"{stated[:20]!r} is no SHA-256: that has 64 hexadecimal digits",
            fix="correct what stands behind #sha256=, or leave it out",
        )
    return stated
