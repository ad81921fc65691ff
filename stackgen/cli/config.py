"""Defaults of options from ``stackgen.toml``, or ``[tool.stackgen]`` of a pyproject.toml.

A key at the top counts for every command that has the option; one in a table of a command's name
(``[explore]``, ``[kb.stats]``) for that command alone. A relative path counts from the folder of
the file. What is given on the command line wins.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from stackgen.errors import UsageError
from stackgen.model import toml

FILES = ("stackgen.toml", "pyproject.toml")
WATCH = "watch"
"""The table of what ``nightly`` watches; it holds no options (``stackgen.nightly.watch``)."""
VARIABLES = {"kb": "STACKGEN_KB"}
"""Options that an environment variable gives: after the command line, before a file."""
NOT_CONFIGURABLE = frozenset({"env", "help", "version", WATCH})
"""``env`` takes secrets, which belong in no file; ``watch`` is a table of what is watched; the
others print something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOption:
    """An option of a command, as a configuration file sees it.

    name: of the parameter. key: of the option in the file, its long flag without dashes.
    kind: ``bool``, ``int``, ``float``, ``Path``, or another for whatever is given as text.
    """

    name: str
    key: str
    kind: type
    repeated: bool
    default: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """One configuration file.

    path: None where there is none. values: its content; of a pyproject.toml the stackgen table.
    """

    path: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    def defaults(self, command: str, options: Iterable[CommandOption]) -> dict[str, Any]:
        """Return the defaults of a command's options, by the names of their fields.

        Args:
            command: its name, with that of its group before it: ``kb stats``.
            options: what the command declares.

        Raises:
            UsageError: a value has the wrong type, or the command's table an unknown key.
        """
        own = self._table(command)
        by_key = {each.key: each for each in options if each.key not in NOT_CONFIGURABLE}
        unknown = sorted(
            key for key, value in own.items() if key not in by_key and not isinstance(value, dict)
        )
        if unknown:
            raise self._error(
                f"{unknown[0]} is no option of stackgen {command}",
                f"see: stackgen {command} --help (a key is an option's name without dashes)",
            )
        # A table may bear the name of an option: [kb] holds the commands of the knowledge base.
        every = {key: v for key, v in self.values.items() if not isinstance(v, dict)}
        given = {key: v for key, v in {**every, **own}.items() if key in by_key}
        return {by_key[key].name: self._text(value, by_key[key]) for key, value in given.items()}

    def has_others(self, options: Iterable[CommandOption]) -> bool:
        """Return whether a key at the top, or a table, is for no option of these."""
        keys = {each.key for each in options} - NOT_CONFIGURABLE
        return any(
            isinstance(v, dict) or key not in keys for key, v in self.values.items() if key != WATCH
        )

    def refuse_unknown(self, commands: Iterable[tuple[str, Iterable[CommandOption]]]) -> None:
        """Refuse a key that no command has as an option, and a table that is no command's.

        Args:
            commands: the names of all, each with its options.

        Raises:
            UsageError: there is such a key or table.
        """
        groups: dict[str, set[str]] = {}
        keys = {WATCH}
        for name, options in commands:
            group, _, own = name.partition(" ")
            groups.setdefault(group, set()).add(own)
            keys |= {each.key for each in options} - NOT_CONFIGURABLE
        for key, value in self.values.items():
            if key not in keys and key not in groups:
                self._refuse_key(key, value)
            is_group = "" not in groups.get(key, {""})  # [kb] holds tables of commands alone
            for name in sorted(value) if is_group and isinstance(value, dict) else ():
                if name not in groups[key]:
                    self._refuse_key(f"{key}.{name}", value[name])

    def _refuse_key(self, key: str, value: object) -> NoReturn:
        table = "table" if isinstance(value, dict) else "option"
        raise self._error(
            f"there is no {table} {key}", "remove it, or see what there is: stackgen config --all"
        )

    def _table(self, command: str) -> Mapping[str, Any]:
        found: Any = self.values
        for part in command.split():
            found = found.get(part, {})
            if not isinstance(found, dict):
                return {}
        return dict(found)

    def _text(self, value: Any, option: CommandOption) -> Any:
        """Return a value as the command line would give it."""
        if option.repeated:
            items = value if isinstance(value, list) else [value]
            if any(isinstance(each, dict | list | bool) for each in items):
                raise self._error(f"{option.key} is a list of texts", f'{option.key} = ["..."]')
            return [self._plain(each, option) for each in items]
        if isinstance(value, dict | list):
            raise self._error(f"{option.key} is a single value", f'{option.key} = "..."')
        if option.kind is bool:
            if not isinstance(value, bool):
                raise self._error(f"{option.key} is true or false", f"{option.key} = true")
            return value
        if isinstance(value, bool):
            raise self._error(f"{option.key} is a single value", f'{option.key} = "..."')
        return value if option.kind in (int, float) else self._plain(value, option)

    def _plain(self, value: Any, option: CommandOption) -> str:
        """Return a value as text; a path as it is from the folder of the file."""
        text = str(value)
        is_path = (
            option.kind is Path
            or (option.key == "pi" and text.endswith(".py"))
            or (option.key == "find-links" and "://" not in text)
        )
        if is_path and self.path is not None:
            return str(self.path.parent / Path(text).expanduser())
        return text

    def _error(self, why: str, fix: str) -> UsageError:
        return UsageError(f"cannot take options from {self.path}", why=why, fix=fix)


def find_config(folder: Path) -> ConfigFile:
    """Return the configuration of the nearest folder that has one, from ``folder`` upwards.

    Raises:
        UsageError: a file is no TOML.
    """
    for place in (folder, *folder.parents):
        for name in FILES:
            path = place / name
            if _is_file(path):
                values = _read(path)
                if name == "stackgen.toml":
                    return ConfigFile(path=path, values=values)
                tool = values.get("tool")
                if isinstance(tool, dict) and "stackgen" in tool:
                    return ConfigFile(path=path, values=_stackgen_table(tool, path))
    return ConfigFile()


def _is_file(path: Path) -> bool:
    """Return whether a file is there; one that may not be looked for counts as missing."""
    try:
        return path.is_file()
    except OSError:
        return False


def _stackgen_table(tool: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    found = tool["stackgen"]
    if not isinstance(found, dict):
        raise UsageError(
            f"cannot take options from {path}",
            why="tool.stackgen is no table",
            fix="write it as in: [tool.stackgen]",
        )
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        return toml.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, toml.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {path}",
            why=getattr(error, "strerror", None) or str(error),
            fix="mend the file, or work in another folder",
        ) from error


def effective_options(
    config: ConfigFile,
    commands: Iterable[tuple[str, Iterable[CommandOption]]],
    *,
    environ: Mapping[str, str],
    only: str = "",
    every: bool = False,
) -> list[tuple[str, str, str, str]]:
    """Return rows of command, option, value and source.

    Args:
        config: the configuration file.
        commands: the names of all commands, each with its options.
        environ: the user's variables, for options that have one (VARIABLES).
        only: one of them; "" means all.
        every: also those that have their default value.

    Raises:
        UsageError: the configuration file has an unknown key or a wrong value, or there is no
            command ``only``.
    """
    found: list[tuple[str, str, str, str]] = []
    every_command = list(commands)
    for command, options in every_command:
        given = tuple(each for each in options if each.key not in NOT_CONFIGURABLE)
        values = config.defaults(command, given)
        for each in given if only in ("", command) else ():
            if variable := environ.get(VARIABLES.get(each.key, "")):
                found.append((command, each.key, variable, VARIABLES[each.key]))
            elif each.name in values:
                found.append((command, each.key, _shown(values[each.name]), str(config.path)))
            elif every:
                found.append((command, each.key, _shown(each.default), "default"))
    config.refuse_unknown(every_command)
    if only and only not in dict(every_command):
        raise UsageError(
            f"there is no command {only}",
            why="options belong to commands",
            fix="see: stackgen --help",
        )
    return found


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(str(each) for each in value)
    if value is None:
        return ""
    value = getattr(value, "value", value)
    return str(value).lower() if isinstance(value, bool) else str(value)
