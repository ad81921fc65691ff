"""The engine for commands that do nothing without one, and the base that a user means."""

import re

from stackgen.builders.bases import BaseBuilder
from stackgen.builders.engine import Engine, connect
from stackgen.errors import EngineError, UsageError

DEFAULT_BASE = "bookworm-py311"
_VERSION = re.compile(r"(?:python)?(3\.\d+)")


def needed_engine() -> Engine:
    """Return the engine that answers.

    Raises:
        EngineError: none does; what it proposes can be done with images, too.
    """
    try:
        return connect()
    except EngineError as error:
        start = "start Docker, or name another engine in DOCKER_HOST"
        if "permission denied" in error.why.lower():
            start = "become a member of the group docker, or name an engine of yours in DOCKER_HOST"
        fix = f"{start}; without one, measure in virtualenvs: stackgen explore"
        raise EngineError(error.what, why=error.why, fix=fix) from error


def base_name(bases: BaseBuilder, asked: str) -> str:
    """Return the base that somebody means: by its name, an image's, or a version of Python.

    Args:
        bases: that the engine holds or can make.
        asked: what the user wrote; "" for the default base.

    Raises:
        UsageError: there is no such base, and nobody hands out an image of that name.
    """
    pythons = {each.name: each.python for each in bases.definitions()}
    name = asked or DEFAULT_BASE
    if name in pythons or bases.engine.image(name) is not None:
        return name
    if match := _VERSION.fullmatch(name):
        fitting = [each for each, python in pythons.items() if python == match[1]]
        if not fitting:
            raise UsageError(
                f"there is no base with Python {match[1]}",
                why="; ".join(f"{each} has Python {of}" for each, of in pythons.items() if of),
                fix="take one of these, or define one in a folder of yours (STACKGEN_IMAGES)",
            )
        return DEFAULT_BASE if DEFAULT_BASE in fitting else fitting[0]
    if not bases.possible(name):
        raise UsageError(
            f"there is no base {name}",
            why="the engine has no image of that name, and no registry hands one out here",
            fix=f"take one of {', '.join(pythons)}, or a Python such as --base 3.11",
        )
    return name
