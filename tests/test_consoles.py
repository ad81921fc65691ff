"""Console examples of the documents: they parse, and show what a recording or a run shows.

A block of a page is checked by the comment before it:

- ``<!-- recorded: NAME -->``: its commands are in ``tests/recorded/consoles/NAME.txt``, and printed
  these lines there (``...`` stands for left-out lines); ``tools/record.py`` records;
- ``<!-- run: NAME -->``: it is run here, in a folder that a function of this file prepares;
- no comment: it shows commands alone.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from stackgen.cli import ENTRIES
from stackgen.cli.commands import build
from tests.laboratory import Laboratory
from tests.local_index import Published, publish

ROOT = Path(__file__).parents[1]
PROMPT = "$ "
FENCE = re.compile(
    r"(?:<!-- (?P<check>recorded|run): (?P<name>[\w-]+) -->\n)?```console\n(?P<body>.*?)```",
    re.DOTALL,
)


@dataclass(frozen=True)
class Example:
    """One block of a page: each command with the lines that follow it."""

    page: str
    check: str
    name: str
    steps: tuple[tuple[str, tuple[str, ...]], ...]


def sessions(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    steps: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith(PROMPT):
            steps.append((line.removeprefix(PROMPT), []))
        else:
            steps[-1][1].append(line)
    return tuple((command, tuple(lines)) for command, lines in steps)


def examples() -> Iterator[Example]:
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]:
        for found in FENCE.finditer(path.read_text("utf-8")):
            yield Example(
                page=str(path.relative_to(ROOT)),
                check=found["check"] or "",
                name=found["name"] or "",
                steps=sessions(found["body"]),
            )


EXAMPLES = list(examples())


def which(check: str) -> list[Example]:
    return [each for each in EXAMPLES if each.check == check]


def titled(example: object) -> str:
    return f"{example.page}: {example.steps[0][0]}" if isinstance(example, Example) else ""


def shows(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether lines were printed one after the other; ``...`` stands for any number of lines."""
    parts = [re.escape(line) + "\n" if line != "..." else "(?:.*\n)*" for line in shown]
    return bool(re.fullmatch("".join(parts), "".join(f"{line}\n" for line in printed)))


@pytest.mark.parametrize("example", EXAMPLES, ids=titled)
def test_commands_have_the_options_that_examples_give_them(example: Example) -> None:
    for command, _ in example.steps:
        for words in stackgen_commands(command):
            entries, path = ENTRIES, []
            made = None
            while words and (made is None or hasattr(made, "entries")):
                path.append(words.pop(0))
                entry = entries[path[-1]] if made is None else made.entries[path[-1]]
                made = build(" ".join(path), entry)
            assert made is not None, command
            made.make_context(" ".join(path), words)  # raises where an option does not exist


def stackgen_commands(command: str) -> list[list[str]]:
    """Return the arguments of each stackgen in a command line; those of ``--version`` are none."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    found: list[list[str]] = []
    collecting = False
    for word in words:
        if word == "stackgen":
            found.append([])
            collecting = True
        elif set(word) <= set("|&;<>()"):
            collecting = False
        elif collecting:
            found[-1].append(word)
    return [each for each in found if each and not each[0].startswith("-")]


@pytest.mark.parametrize("example", which(""), ids=titled)
def test_what_an_example_prints_is_checked(example: Example) -> None:
    assert not any(lines for _, lines in example.steps), "mark it as recorded or run"


@pytest.mark.parametrize("example", which("recorded"), ids=titled)
def test_recorded_examples_show_what_was_recorded(example: Example) -> None:
    path = ROOT / "tests" / "recorded" / "consoles" / f"{example.name}.txt"
    recorded = dict(sessions(path.read_text("utf-8")))
    for command, lines in example.steps:
        assert command in recorded
        assert shows(lines, recorded[command]), f"$ {command}\n" + "\n".join(recorded[command])


def offline(folder: Path) -> Laboratory:
    """A folder ``wheels`` with two releases of one package."""
    publish(folder / "index", {"speedy": {"1.0": Published(), "2.0": Published()}})
    (folder / "wheels").mkdir()
    for wheel in (folder / "index").rglob("*.whl"):
        wheel.rename(folder / "wheels" / wheel.name)
    return Laboratory(root=folder, index="")


PREPARED: dict[str, Callable[[Path], Laboratory]] = {"offline": offline}


@pytest.mark.journey
@pytest.mark.parametrize("example", which("run"), ids=titled)
def test_examples_run_as_they_are_shown(example: Example, tmp_path: Path) -> None:
    laboratory = PREPARED[example.name](tmp_path)
    for command, lines in example.steps:
        done = laboratory.shell(command)
        assert shows(lines, done.stdout.splitlines()), done


def test_recordings_hold_nothing_of_the_machine_that_they_were_made_on() -> None:
    for path in (ROOT / "tests" / "recorded" / "consoles").glob("*.txt"):
        assert not re.search(r"(?<!~)(?<![\w.])/(work|root|home|tmp)/", path.read_text("utf-8")), (
            path
        )
