"""From option groups to commands of the command line, loaded when they are run.

``command`` turns a function that takes option groups (see ``stackgen.model.options``) into one
that typer understands: each field becomes an option under the heading of its group.
"""

import functools
import importlib
import inspect
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from stackgen.cli.config import VARIABLES, CommandOption, find_config
from stackgen.errors import UsageError
from stackgen.model.options import Option, declared_options

COMMON = "Options"
"""The heading of the options that most users need, which come first."""
_FORMATS = frozenset({"--format", "--json", "--markdown"})
"""Options that say how a result is written: one of them, given by the user, replaces a default."""
CONTEXT = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One command: where its function is, and what a list of commands says of it.

    target: ``module:function``; of a group ``module:table``, the entries by name.
    heading: the section of the list that it stands in.
    """

    target: str
    summary: str
    heading: str = "Commands"
    examples: tuple[str, ...] = ()
    group: bool = False


def subcommand(function: Callable[..., None], summary: str, *examples: str) -> Entry:
    """Return the entry of a command of a group, which is loaded together with the group."""
    target = f"{function.__module__}:{function.__name__}"
    return Entry(target=target, summary=summary, examples=examples)


@dataclass(frozen=True, slots=True)
class Without:
    """Annotates an option group: which of its fields a command does not have as options."""

    fields: tuple[str, ...]


class _Help:
    """Explains a command without loading what running it takes.

    The lines of an epilog are written as they are: examples are to be copied.
    """

    epilog: str | None

    def get_help_option(self, ctx: Any) -> Any:
        """Return ``--help``, without a value that typer would have to convert."""
        return _without_conversion(super().get_help_option(ctx))  # type: ignore[misc]

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the examples under a heading."""
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.splitlines():
                    formatter.write(f"  {line}\n")


class _Command(_Help, TyperCommand):
    """A command whose options stand under headings.

    describe: returns what its help says of the NAME that it is given beside ``--help``.
    """

    describe: Callable[[str], str] | None = None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep what was given for the help, before typer loads what it takes to convert it.

        A value of the configuration that cannot be read is refused with the name of the file.
        """
        ctx.meta["given"] = tuple(args)
        try:
            rest = super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # of pydantic
            if error.param is not None and _is_from_file(ctx, error.param):
                raise _refused(error.param, error.message) from error
            raise
        parsers = getattr(self.callback, "parsers", {})
        for param in self.params:
            if param.name in parsers and _is_from_file(ctx, param):
                try:
                    parsers[param.name](ctx.params[param.name])
                except UsageError as error:
                    raise _refused(param, f"{error.what}: {error.why}") from error
        self._prefer_given_format(ctx)
        return rest

    def _prefer_given_format(self, ctx: Any) -> None:
        """Let a format of the command line replace another one of the configuration file."""
        formats = [each for each in self.params if each.opts[-1] in _FORMATS]
        sources = {each.name: ctx.get_parameter_source(each.name) for each in formats}
        if any(source is not None and source.name == "COMMANDLINE" for source in sources.values()):
            for each in formats:
                if _is_from_file(ctx, each):
                    ctx.params[each.name] = each.default

    def get_help(self, ctx: Any) -> str:
        """Return the help, and what it says of a NAME."""
        text = super().get_help(ctx)
        given = list(ctx.meta.get("given", ()))
        if self.describe is None or not given:
            return text
        name = self.make_parser(ctx).parse_args(args=given)[0].get("name")
        return f"{text}\n\n{self.describe(name)}" if isinstance(name, str) else text

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], COMMON: []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            heading = getattr(param, "rich_help_panel", None) or COMMON
            if param.param_type_name == "argument":
                heading, record = "Arguments", (record[0].partition(" <")[0], record[1])
            sections.setdefault(heading, []).append(record)
        for heading, rows in sections.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def _is_from_file(ctx: Any, param: Any) -> bool:
    source = ctx.get_parameter_source(param.name)
    return source is not None and source.name == "DEFAULT_MAP"


def _refused(param: Any, why: str) -> UsageError:
    """Return the error for a value of the configuration file."""
    key = max(param.opts, key=len).lstrip("-")
    return UsageError(
        f"cannot take {key} from {find_config(Path.cwd()).path}",
        why=why,
        fix="correct it; stackgen config prints what is set, and where",
    )


class CommandGroup(_Help, TyperGroup):
    """Commands that are imported when one of them is run.

    entries: the commands, by name. root: those of the whole command line. path: the group's own
        name with those above it.
    """

    entries: Mapping[str, Entry]
    root: Mapping[str, Entry]
    path: str = ""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the names of all commands, in the order of the table."""
        return list(self.entries)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is named; where there is none, typer names the nearest."""
        names: Any = dict.fromkeys(self.entries)
        self.commands = names  # of these
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Return one command; None where there is none of that name."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        path = f"{self.path} {cmd_name}".strip()
        found = build(path, entry, self.root)
        if not entry.group:
            _configure(found, path, self.root)
        return found

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the list of commands from the table, so that none has to be imported."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.entries.items():
            sections.setdefault(entry.heading, []).append((name, entry.summary))
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


def build(path: str, entry: Entry, root: Mapping[str, Entry] | None = None) -> Any:
    """Import a command, and return it as typer's copy of click has it.

    Args:
        path: its name, with that of its group before it; "" for the root.
        entry: where it is.
        root: all commands, by which a configuration file is checked; those of a root by default.
    """
    module, _, attribute = entry.target.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    app = typer.Typer(
        rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=not path
    )
    epilog = "\n".join(entry.examples)
    settings = {**CONTEXT, **getattr(found, "context_settings", {})}
    if entry.group:
        entries, callback = found
        attributes = {"entries": entries, "path": path, "root": root or entries}
        app.callback(
            cls=type("Commands", (CommandGroup,), attributes),
            invoke_without_command=callback is not None and bool(path),
            no_args_is_help=callback is None or not path,
            help=inspect.getdoc(callback) if callback else entry.summary,
            epilog=epilog,
            context_settings=settings,
        )(callback or _nothing)
    else:
        describe = getattr(found, "describe", None)
        kind: Any = _Command
        if describe is not None:
            kind = type("Describing", (_Command,), {"describe": staticmethod(describe)})
        app.command(path, cls=kind, epilog=epilog, context_settings=settings)(command(found))
    made = typer.main.get_command(app)
    for param in made.params:
        _without_conversion(param)
        _take_as_given(param)
    if path:
        made.name = path.rpartition(" ")[2]
    return made


def _without_conversion(option: Any) -> Any:
    """Give a flag of typer's own False in place of None, for whose conversion it loads pydantic."""
    if getattr(option, "is_flag", False) and option.default is None:
        option.default = False
    return option


def _take_as_given(param: Any) -> None:
    """Let texts and a default pass as they are: for their conversion, typer loads pydantic."""
    descriptor = getattr(param, "type_descriptor", None)
    if descriptor is None:  # a version of typer without pydantic
        return
    convert, kind = param.process_value, descriptor.annotation
    repeated = param.multiple or param.nargs == -1

    def process_value(ctx: Any, value: Any) -> Any:
        if param.callback is not None or (value is None and param.required):
            return convert(ctx, value)
        if value is None:
            return () if repeated else None
        if kind == list[str] and isinstance(value, (list, tuple)) and all(map(_is_text, value)):
            return list(value) if value or not param.required else convert(ctx, value)
        is_plain = kind is str and _is_text(value)
        is_default = value is param.default and type(value) is kind
        return value if is_plain or is_default else convert(ctx, value)

    param.process_value = process_value


def _is_text(value: object) -> bool:
    return type(value) is str


def _configure(made: Any, path: str, commands: Mapping[str, Entry]) -> None:
    """Give a command the defaults of the user's configuration.

    Raises:
        UsageError: the file has a misspelt key or a wrong value.
    """
    config = find_config(Path.cwd())
    options = options_of(made)
    made.context_settings["default_map"] = {
        name: value
        for name, value in config.defaults(path, options).items()
        if not os.environ.get(VARIABLES.get(name, ""))
    }
    if config.has_others(options):  # only then is it worth importing all commands
        config.refuse_unknown(all_options(commands))


def options_of(made: Any) -> tuple[CommandOption, ...]:
    """Return the options of a command as a configuration file sees them."""
    return tuple(
        CommandOption(
            name=param.name,
            key=max(param.opts, key=len).lstrip("-"),
            kind=bool if param.is_flag else Path if _is_path(param) else type(param.default),
            repeated=bool(param.multiple),
            default=param.default,
        )
        for param in made.params
        if param.param_type_name == "option"
    )


def _is_path(param: Any) -> bool:
    descriptor = getattr(param, "type_descriptor", None)
    if descriptor is None:  # a version of typer without pydantic
        return type(param.type).__name__.endswith("Path")
    return descriptor.annotation in (Path, list[Path])


def all_options(
    entries: Mapping[str, Entry], path: str = ""
) -> Iterator[tuple[str, tuple[CommandOption, ...]]]:
    """Yield every command that is no group, with its options; all of them are imported."""
    for name, entry in entries.items():
        full = f"{path} {name}".strip()
        if entry.group:
            module, _, attribute = entry.target.partition(":")
            yield from all_options(getattr(importlib.import_module(module), attribute)[0], full)
        else:
            yield full, options_of(build(full, entry))


def _nothing() -> None:
    """Stand for the options of a group that has none."""


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function that takes each option of its groups by itself, for typer.

    A parameter of ``function`` that is annotated with an option group may have an instance of it
    as its default: the defaults of that command.
    """
    # Not get_type_hints: on Python 3.10, a default of None makes it hide Annotated in Optional.
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, tuple[type, list[Option]]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        kind, omitted = _group(parameter.annotation)
        if not (is_dataclass(kind) and isinstance(kind, type)):
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
            continue
        given = parameter.default if parameter.default is not parameter.empty else kind()
        options = [each for each in declared_options(given) if each.name not in omitted]
        parameters += [_parameter(each, heading=getattr(kind, "TITLE", COMMON)) for each in options]
        groups[parameter.name] = (kind, options)
    parameters.sort(key=lambda each: not _is_argument(each))

    @functools.wraps(function)
    def call(**given: Any) -> None:
        values = {
            name: kind(**{each.name: _value(each, given.pop(each.name)) for each in options})
            for name, (kind, options) in groups.items()
        }
        function(**given, **values)

    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    call.parsers = {  # type: ignore[attr-defined]
        each.name: each.parse for _, options in groups.values() for each in options if each.parse
    }
    return call


def _group(hint: Any) -> tuple[Any, Collection[str]]:
    """Return the option group of an annotation, and which of its fields are left out."""
    for each in getattr(hint, "__metadata__", ()):
        if isinstance(each, Without):
            return hint.__origin__, each.fields
    return hint, ()


def _is_argument(parameter: inspect.Parameter) -> bool:
    info = getattr(parameter.annotation, "__metadata__", (None,))[0]
    return type(info).__name__ == "ArgumentInfo"


def _parameter(option: Option, *, heading: str) -> inspect.Parameter:
    """Return what typer is to see of one option."""
    metavar = option.metavar or None
    kind: Any
    info: Any
    default = option.default
    if option.argument:
        kind, default = (list[str] | None, None) if option.repeated else (str, default)
        info = typer.Argument(metavar=metavar, help=option.help, show_default=False)
    else:
        kind, default, shown = _as_text(option)
        info = typer.Option(
            *option.flags,
            metavar=metavar,
            help=option.help,
            min=option.minimum,
            max=option.maximum,
            show_default=shown,
            rich_help_panel=COMMON if option.common else heading,
        )
    annotation = Annotated[kind, info]
    only = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(option.name, only, default=default, annotation=annotation)


def _as_text(option: Option) -> tuple[Any, Any, bool]:
    """Return the type that typer reads, the default, and whether ``--help`` shows that."""
    default, item = option.default, option.item_kind
    if option.repeated:
        return list[Path] | None if item is Path else list[str] | None, None, False
    if option.parse is not None:
        shown = option.show(default) if option.show and default is not None else ""
        return str, shown, bool(shown)
    if default is None:
        return item | None, None, False
    return item, default, default not in ("", 0, False)


def _value(option: Option, given: Any) -> Any:
    """Return the value of a field from what was given on the command line."""
    if given is None or given == []:
        return option.default
    if option.parse is not None:
        if given == "":  # what ``_as_text`` gives typer for a default that is not shown
            return option.default
        return option.parse(given)
    return tuple(given) if option.repeated else given
