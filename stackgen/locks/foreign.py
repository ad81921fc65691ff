"""Tell files that are none of ours by how they look."""

import re

from stackgen.locks.fields import MalformedError


def filename(path: str) -> str:
    """Return the last part of a path or a URL."""
    return re.split(r"[/\\]", path)[-1]


def beginning(text: str) -> str:
    """Return a text without what it may begin with and does not mean.

    Raises:
        MalformedError: it is empty, or nothing that a person wrote.
    """
    start = text.lstrip("\ufeff \t\r\n")
    if not start:
        raise MalformedError("it is empty")
    if start.startswith("<"):
        raise MalformedError("it seems to be HTML or XML (a download that went wrong?)")
    if "\0" in start:
        raise MalformedError("it is a binary file")
    return start


def foreign_text(name: str, start: str) -> str:
    """Return what a text file of another tool seems to be; "" where nothing speaks for one."""
    if name == "pixi.lock" or re.search(r"\Aversion: \d+\s+environments:\s*$", start, re.MULTILINE):
        return (
            "the pixi.lock of pixi, whose packages are conda's; run inside the environment: "
            "pip list --format=freeze > requirements.txt"
        )
    if re.search(r"^channels:|^dependencies:\s*$", start, re.MULTILINE):
        return "the environment.yml of conda"
    if name.startswith("conda-lock") or re.search(r"^\s*content_hash:", start, re.MULTILINE):
        return "a lock of conda-lock"
    if re.search(r"^@EXPLICIT", start, re.MULTILINE):
        return "an explicit list of conda"
    if re.search(r"^lockfileVersion:|^# yarn lockfile", start, re.MULTILINE):
        return "the lock of a JavaScript tool"
    if name in ("go.sum", "Gemfile.lock"):
        return f"the {name} of another language"
    if name.endswith((".yml", ".yaml")):
        return "YAML, which no lock of ours is written in"
    if name.endswith(".py"):
        return "Python code"
    return ""
