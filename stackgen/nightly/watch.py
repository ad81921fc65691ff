"""What is watched: the ``[watch.NAME]`` tables of the configuration file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from stackgen.campaign.options import IndexOptions
from stackgen.errors import UsageError
from stackgen.model.choices import ExecutorChoice
from stackgen.model.options import parse_duration, parse_margin
from stackgen.resolve.dependencies import parse_requirement

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_TARGET = re.compile(r"(webhook|slack):(env|file):(.+)")
FILE_TARGETS = ("github-summary", "github-issue")
"""Targets of notifications that are files; the second one takes a path: ``github-issue:PATH``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """One table of the configuration: what is measured when something was released.

    requirements: what every stack must satisfy; the packages that they name are watched.
    vary: further packages of the closure that are watched.
    bases: names of bases, images or Pythons; "" is the default one.
    indicators: names, or paths of the user's own files; empty means the default one.
    parameters: of indicators, as ``NAME=VALUE``.
    command: a program of the user's that is measured.
    budget_s: of the whole night, all bases together.
    margin: a difference that does not matter.
    detect: the smallest difference that a night shall find; with less certainty it goes on.
    notify: targets, such as ``slack:env:WEBHOOK``.
    metrics: ``file:PATH`` or ``push:URL``.
    kb: the knowledge base; None for the user's own.
    expire_days: an open finding counts for so long.
    index: which package indexes are used; options of the command, not of the table.
    """

    name: str
    requirements: tuple[str, ...]
    vary: tuple[str, ...] = ()
    bases: tuple[str, ...] = ("",)
    executor: ExecutorChoice = ExecutorChoice.AUTO
    indicators: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    command: str = ""
    budget_s: float = 7200.0
    margin: float = 0.02
    detect: float = 0.05
    notify: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    kb: Path | None = None
    expire_days: int = 30
    index: IndexOptions = IndexOptions()

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the packages whose releases count, by normalised name."""
        named = [parse_requirement(each).name for each in self.requirements]
        return tuple(dict.fromkeys(str(canonicalize_name(each)) for each in (*named, *self.vary)))

    @property
    def specifiers(self) -> Mapping[str, str]:
        """Return which versions of each watched package count."""
        found = dict.fromkeys(self.packages, "")
        for text in self.requirements:
            requirement = parse_requirement(text)
            name = str(canonicalize_name(requirement.name))
            found[name] = ",".join(filter(None, (found[name], str(requirement.specifier))))
        return found

    def key(self, base: str) -> str:
        """Return what its state is stored under: another request begins with a first night."""
        indicators = ", ".join([*sorted(set(self.indicators)), *filter(None, [self.command])])
        requested = ", ".join(self.requirements)
        return f"{self.name} | {requested} | {base} | {indicators or 'default indicators'}"


_TEXTS = {
    "requirements", "vary", "bases", "pi", "param", "notify", "metrics",
}  # fmt: skip
_KEYS = _TEXTS | {
    "executor", "command", "budget", "margin", "detect", "kb", "expire-days",
}  # fmt: skip


def read_watches(values: Mapping[str, Any], path: Path | None) -> tuple[Watch, ...]:
    """Return the watches of a configuration file.

    Args:
        values: its content.
        path: of the file; paths in it are relative to its folder.

    Raises:
        UsageError: a table has an unknown key, a value that cannot be read, or requires nothing.
    """
    tables = values.get("watch", {})
    if not isinstance(tables, dict) or not all(isinstance(each, dict) for each in tables.values()):
        raise _error(path, "watch", "each watch is a table", "[watch.NAME]")
    folder = path.parent if path else Path()
    return tuple(_named(name, table, path, folder) for name, table in tables.items())


def _named(name: str, table: Mapping[str, Any], path: Path | None, folder: Path) -> Watch:
    """Return a watch; of a value that is refused as one of an option would be, name the table."""
    try:
        return _watch(name, table, path, folder)
    except UsageError as error:
        refused = _error(path, f"watch.{name}", f"{error.what}: {error.why}", error.fix)
        raise error if error.what == refused.what else refused from error


def _watch(name: str, table: Mapping[str, Any], path: Path | None, folder: Path) -> Watch:
    where = f"watch.{name}"
    if not _NAME.fullmatch(name):
        raise _error(path, where, "a name has letters, digits, '.', '_' and '-'", "[watch.nightly]")
    if unknown := sorted(table.keys() - _KEYS):
        raise _error(
            path, where, f"there is no key {unknown[0]}", f"keys: {', '.join(sorted(_KEYS))}"
        )
    lists = {key: _texts(table[key], key, path, where) for key in _TEXTS & table.keys()}
    for key in ("command", "kb", "executor"):
        if not isinstance(table.get(key, ""), str):
            raise _error(path, where, f"{key} is a text", f'{key} = "..."')
    if not lists.get("requirements"):
        raise _error(path, where, "it requires nothing", 'requirements = ["tensorflow>=2.16"]')
    for each in lists.get("notify", ()):
        check_target(each)
    for each in lists.get("metrics", ()):
        if not re.match(r"(file|push):.", each):
            raise _error(path, where, f"metrics {each!r} go nowhere", 'metrics = ["file:PATH"]')
    days = table.get("expire-days", 30)
    if not isinstance(days, int) or days < 1:
        raise _error(path, where, "expire-days is a number of days from 1", "expire-days = 30")
    try:
        executor = ExecutorChoice(table.get("executor", "auto"))
    except ValueError as error:
        raise _error(path, where, str(error), 'executor = "auto"') from error
    found = Watch(
        name=name,
        requirements=lists["requirements"],
        vary=lists.get("vary", ()),
        bases=lists.get("bases") or ("",),
        executor=executor,
        indicators=tuple(_in_folder(each, folder) for each in lists.get("pi", ())),
        parameters=lists.get("param", ()),
        command=table.get("command", ""),
        budget_s=parse_duration(str(table.get("budget", "2h")), "--budget"),
        margin=parse_margin(str(table.get("margin", "2%"))),
        detect=parse_margin(str(table.get("detect", "5%"))),
        notify=tuple(_target_in_folder(each, folder) for each in lists.get("notify", ())),
        metrics=tuple(_target_in_folder(each, folder) for each in lists.get("metrics", ())),
        kb=folder / table["kb"] if table.get("kb") else None,
        expire_days=days,
    )
    _ = found.packages  # refuses what is no requirement
    return found


def _texts(value: Any, key: str, path: Path | None, where: str) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) and each for each in items):
        raise _error(path, where, f"{key} is a list of texts", f'{key} = ["..."]')
    return tuple(items)


def _in_folder(indicator: str, folder: Path) -> str:
    return str(folder / indicator) if indicator.endswith(".py") else indicator


def _target_in_folder(target: str, folder: Path) -> str:
    """Return a target whose file or folder, if it names one, is relative to a folder."""
    found = re.fullmatch(r"(file:|github-issue:|(?:webhook|slack):file:)(.+)", target)
    return f"{found[1]}{folder / found[2]}" if found else target


def _error(path: Path | None, where: str, why: str, fix: str) -> UsageError:
    return UsageError(f"cannot use [{where}] of {path or 'the configuration'}", why=why, fix=fix)


def check_target(text: str) -> None:
    """Refuse a notification target that cannot be used, or that has its secret in the file.

    Raises:
        UsageError: it is one.
    """
    if _TARGET.fullmatch(text) or text == FILE_TARGETS[0] or text.startswith("github-issue:"):
        return
    raise UsageError(
        f"cannot notify {text.partition(':')[0]!r}",
        why="addresses of webhooks are secrets: they are read from variables or files only",
        fix='name a target as in: "slack:env:WEBHOOK", "webhook:file:PATH", "github-summary", '
        '"github-issue:PATH"',
    )


def watch_table(watch: Watch) -> str:
    """Return a watch as text for ``stackgen.toml``."""
    from json import dumps as quoted  # a JSON text is a basic string of TOML

    def listed(texts: tuple[str, ...]) -> str:
        return f"[{', '.join(map(quoted, texts))}]"

    lines = [f"[watch.{quoted(watch.name) if '.' in watch.name else watch.name}]"]
    lines.append(f"requirements = {listed(watch.requirements)}")
    optional = {"vary": watch.vary, "pi": watch.indicators, "notify": watch.notify}
    lines += [f"{key} = {listed(texts)}" for key, texts in optional.items() if texts]
    if watch.bases != ("",):
        lines.append(f"bases = {listed(watch.bases)}")
    if watch.command:
        lines.append(f"command = {quoted(watch.command)}")
    hours = watch.budget_s / 3600
    budget = f"{hours:g}h" if hours >= 1 else f"{watch.budget_s / 60:g}m"
    lines.append(f'budget = "{budget}"')
    return "\n".join(lines) + "\n"
