"""Locks of conda environments: conda-lock.yml, pixi.lock. What they take from an index is read.

The packages of conda are listed as facts. A package is locked for platforms; each becomes a marker.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from stackgen.locks import fields
from stackgen.locks.direct import is_url
from stackgen.locks.fields import MalformedError, Table
from stackgen.model.packages import LockedPackage, LockFile

if TYPE_CHECKING:
    import yaml

_MACHINES = {
    "linux-64": ("linux", "x86_64"),
    "linux-aarch64": ("linux", "aarch64"),
    "linux-ppc64le": ("linux", "ppc64le"),
    "linux-s390x": ("linux", "s390x"),
    "osx-64": ("darwin", "x86_64"),
    "osx-arm64": ("darwin", "arm64"),
    "win-64": ("win32", "AMD64"),
    "win-arm64": ("win32", "ARM64"),
}
_ARCHIVE = re.compile(r"(?P<name>.+)-(?P<version>[^-]+)-[^-]+\.(?:conda|tar\.bz2)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A package on one platform; by_conda: it is no package of an index."""

    name: str
    version: str
    platform: str
    sha256: str = ""
    group: str = "default"
    by_conda: bool = False


def read_conda_lock(text: str, *, path: str, companion: str | None) -> LockFile:  # noqa: ARG001 one signature
    """Read a conda-lock.yml.

    Raises:
        MalformedError: it is not one.
    """
    content = fields.table(parse_yaml(text), "the file")
    found, skipped = [], []
    for entry in fields.tables(content.get("package"), "package"):
        name = _field(entry, "name")
        by_conda = _field(entry, "manager") != "pip"
        hashes = entry.get("hash") if isinstance(entry.get("hash"), dict) else {}
        if not by_conda and not _field(fields.table(hashes, "a hash"), "sha256"):
            skipped.append(f"{name}: comes from a file or a repository, not from an index")
            continue
        category = _field(entry, "category") or "main"
        found.append(
            _Entry(
                name=name,
                version=_field(entry, "version"),
                platform=_field(entry, "platform"),
                sha256=_field(fields.table(hashes, "a hash"), "sha256"),
                group="default" if category == "main" else category,
                by_conda=by_conda,
            )
        )
    if "package" not in content:
        raise MalformedError("it is YAML, and not that of conda-lock")
    return _lock(found, path=path, format_="conda-lock", skipped=skipped)


def read_pixi(text: str, *, path: str, companion: str | None) -> LockFile:  # noqa: ARG001 one signature
    """Read a pixi.lock, of which the environment "default" is what is installed by default.

    Raises:
        MalformedError: it is not one.
    """
    content = fields.table(parse_yaml(text), "the file")
    environments = fields.table(content.get("environments"), "environments")
    if not environments:
        raise MalformedError("it is YAML, and not that of pixi: it has no environments")
    details = {_url(each): each for each in fields.tables(content.get("packages"), "packages")}
    own = "default" if "default" in environments else next(iter(environments))
    found: list[_Entry] = []
    skipped: list[str] = []
    for environment, value in environments.items():
        group = "default" if environment == own else environment
        platforms = fields.table(fields.table(value, environment).get("packages"), "packages")
        for platform, listed in platforms.items():
            for each in fields.tables(listed, f"the packages of {platform}"):
                if entry := _pixi_entry(each, details, platform, group):
                    found.append(entry)
                else:
                    place = next((str(value)[:80] for value in each.values()), "an entry")
                    skipped.append(f"{place}: comes from no index")
    return _lock(found, path=path, format_="pixi", skipped=skipped)


def _pixi_entry(
    listed: Table, details: dict[str, Table], platform: str, group: str
) -> _Entry | None:
    url = _url(listed)
    entry = details.get(url, {})
    if not any(kind in listed for kind in ("conda", "pypi")):
        return None
    by_conda = "conda" in listed
    name, version = _field(entry, "name"), _field(entry, "version")
    if not (name and version):
        name, version = name_and_version(url)
    if not name or (not by_conda and not is_url(url)):
        return None
    return _Entry(
        name=name,
        version=version,
        platform=platform,
        sha256=_field(entry, "sha256"),
        group=group,
        by_conda=by_conda,
    )


_DEEPEST = 100


def parse_yaml(text: str) -> object:
    """Parse the first document of YAML, each scalar as its text: ``1.10`` is no number.

    PyYAML's own constructor recurses in C and crashes on a document that is nested deeply enough,
    so that values are made of its events.

    Raises:
        MalformedError: it is not YAML, or nested too deeply.
    """
    import yaml  # slow to load, and rarely needed

    document: list[object] = []
    open_nodes: list[list[object]] = [document]  # of a mapping, keys and values in turn
    made: dict[int, object] = {}
    anchors: dict[str, object] = {}
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)):
            if isinstance(event, yaml.CollectionEndEvent):
                _close(open_nodes.pop(), made)
            elif isinstance(event, yaml.AliasEvent):
                open_nodes[-1].append(anchors.get(str(event.anchor), ""))
            elif isinstance(event, yaml.NodeEvent):
                value, parts = _begun(event, made)
                open_nodes[-1].append(value)
                open_nodes += [parts] if parts is not None else []
                anchors |= {event.anchor: value} if event.anchor else {}
            elif isinstance(event, yaml.DocumentEndEvent):
                break
            if len(open_nodes) > _DEEPEST:
                raise MalformedError("it is YAML that is nested too deeply")
    except yaml.YAMLError as error:
        why = fields.shortened(" ".join(str(error).split()))
        raise MalformedError(f"it is not YAML: {why}") from error
    return document[0] if document else None


def _begun(event: "yaml.NodeEvent", made: dict[int, object]) -> tuple[object, list[object] | None]:
    """Return the value of a node, and the list of its parts where it has some."""
    import yaml

    if isinstance(event, yaml.ScalarEvent):
        return event.value, None
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[object] = []
        return items, items
    mapping: dict[str, object] = {}
    parts: list[object] = []
    made[id(parts)] = mapping
    return mapping, parts


def _close(parts: list[object], made: dict[int, object]) -> None:
    """Fill the mapping that some parts are of."""
    mapping = made.pop(id(parts), None)
    if isinstance(mapping, dict):
        pairs = zip(parts[::2], parts[1::2], strict=False)
        mapping.update((key, value) for key, value in pairs if isinstance(key, str))


def _url(entry: Table) -> str:
    """Return what identifies a package: in each version of the format another key."""
    return next(
        (_field(entry, key) for key in ("conda", "pypi", "url", "path") if key in entry), ""
    )


def name_and_version(url: str) -> tuple[str, str]:
    """Return name and version that the name of an archive states; "" where it states none."""
    file = url.rpartition("/")[2].partition("#")[0]
    if archive := _ARCHIVE.fullmatch(file):
        return archive["name"], archive["version"]
    try:
        name, version, _, _ = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return "", ""
    return name, str(version)


def _field(entry: Table, name: str) -> str:
    return fields.text(entry.get(name), name)


def _lock(
    entries: Sequence[_Entry], *, path: str, format_: str, skipped: Iterable[str]
) -> LockFile:
    facts = {e.name: e.version for e in _facts(entries)}
    return LockFile(
        path=path,
        format=format_,
        packages=tuple(_packages([each for each in entries if not each.by_conda])),
        requires_python=_python(entries),
        skipped=tuple(dict.fromkeys(skipped)),
        conda=tuple(sorted(facts.items())),
        notes=(f"conda installs {len(facts)} of its packages, which are no part of an advice",)
        if facts
        else (),
    )


def _facts(entries: Sequence[_Entry]) -> Iterator[_Entry]:
    """Yield what conda installs by default on one platform, Linux on x86-64 where there is it."""
    own = [each for each in entries if each.by_conda and each.group == "default"]
    platforms = {each.platform for each in own}
    platform = "linux-64" if "linux-64" in platforms else min(platforms, default="")
    yield from (each for each in own if each.platform in (platform, "noarch"))


def _packages(entries: Sequence[_Entry]) -> Iterator[LockedPackage]:
    """Yield each version once, under the marker of the platforms that have it."""
    every = {each.platform for each in entries}
    versions: dict[tuple[str, str, str], list[_Entry]] = {}
    for each in entries:
        versions.setdefault((each.name, each.version, each.group), []).append(each)
    for (name, version, group), found in versions.items():
        platforms = sorted({each.platform for each in found})
        markers = [_marker(each) for each in platforms]
        yield fields.package(
            name=name,
            version=version,
            hashes=[f"sha256:{each.sha256}" for each in found if each.sha256],
            marker=" or ".join(markers) if all(markers) and len(every) > 1 else "",
            group=group,
        )


def _marker(platform: str) -> str:
    system, machine = _MACHINES.get(platform, ("", ""))
    marker = f'sys_platform == "{system}" and platform_machine == "{machine}"'
    return f"({marker})" if system else ""


def _python(entries: Iterable[_Entry]) -> str:
    """Return the Python that conda installs, where it is one minor version."""
    own = {each.version for each in entries if each.by_conda and each.name == "python"}
    minors = {".".join(version.split(".")[:2]) for version in own}
    found = minors.pop() if len(minors) == 1 else ""
    return f"=={found}.*" if re.fullmatch(r"\d+\.\d+", found) else ""
