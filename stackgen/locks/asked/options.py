"""The options that pip takes in a requirements file, by its own rules: it uses optparse as well."""

import optparse
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from stackgen.locks.fields import MalformedError, checked_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOptions:
    """What the options of one line say, each in the order given.

    unfollowed: in words, options that change what pip would install and that we do not follow.
    """

    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    editables: tuple[str, ...] = ()
    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    prereleases: bool = False
    unfollowed: tuple[str, ...] = ()


def split_options(line: str) -> tuple[str, str]:
    """Return (what stands before the first option, the options)."""
    words = line.split(" ")
    first = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    return " ".join(words[:first]).strip(), " ".join(words[first:])


def parse_options(text: str) -> LineOptions:
    """Parse the options of a line.

    Hashes, hosts to be trusted, settings of builds and the like are accepted and dropped.

    Raises:
        MalformedError: pip knows no such option, or it lacks its value, or that is no hash.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise MalformedError(f"a quotation mark is never closed: {text!r}") from error
    found, _ = _parser().parse_args(words)
    for each in found.hashes or ():
        checked_hash(each)
    return LineOptions(
        requirements=tuple(found.requirements or ()),
        constraints=tuple(found.constraints or ()),
        editables=tuple(found.editables or ()),
        index_url=found.index_url,
        extra_index_urls=tuple(found.extra_index_urls or ()),
        find_links=tuple(found.find_links or ()),
        no_index=bool(found.no_index),
        prereleases=bool(found.pre) or ":all:" in (found.all_releases or ()),
        unfollowed=(
            *_unfollowed("--no-binary", found.no_binary, ":none:", "wheels are taken"),
            *_unfollowed("--all-releases", found.all_releases, ":all:", "see --pre"),
        ),
    )


def _unfollowed(
    option: str, values: Iterable[str] | None, harmless: str, reason: str
) -> Iterator[str]:
    for value in values or ():
        if value != harmless:
            yield f"{option} {value} is not followed: {reason}"


class _Parser(optparse.OptionParser):
    """A parser that neither prints nor ends the program."""

    def error(self, msg: str) -> NoReturn:
        """Raise what is wrong."""
        raise MalformedError(msg)


def _parser() -> _Parser:
    parser = _Parser(add_help_option=False)
    parser.add_option("-i", "--index-url", "--pypi-url", dest="index_url")
    for dest, names in (
        ("requirements", ("-r", "--requirement")),
        ("constraints", ("-c", "--constraint")),
        ("editables", ("-e", "--editable")),
        ("extra_index_urls", ("--extra-index-url",)),
        ("find_links", ("-f", "--find-links")),
        ("no_binary", ("--no-binary",)),
        ("all_releases", ("--all-releases",)),
        ("dropped", ("--only-binary",)),  # wheels and final releases are what we take by default
        ("dropped", ("--only-final",)),
        ("dropped", ("--trusted-host",)),
        ("dropped", ("--use-feature",)),
        ("hashes", ("--hash",)),
        ("dropped", ("-C", "--config-settings", "--config-setting")),
        ("dropped", ("--global-option",)),  # pip took these two until version 23
        ("dropped", ("--install-option",)),
    ):
        parser.add_option(*names, dest=dest, action="append")
    for dest, name in (("no_index", "--no-index"), ("pre", "--pre")):
        parser.add_option(name, dest=dest, action="store_true")
    for name in ("--prefer-binary", "--require-hashes", "--no-require-hashes"):
        parser.add_option(name, dest="harmless", action="store_true")
    return parser
