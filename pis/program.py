"""Run a command in this stack, and print what it took as one line of JSON.

    python pis/program.py --project . -- python train.py --epochs 1

It starts in a fresh copy of the project: small files are copied, large ones are links to the
originals, and what it writes is thrown away. Standard library alone, Python 3.6 and newer.

Exit codes: 0 a document was printed (outcome ok, unsupported or invalid_output), 64 a wrong option;
otherwise what the command itself ended with, signals included.
"""

import argparse
import hashlib
import math
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time

import harness

REVISION = 1  # as the "revision" of an indicator: raise it when an edit may change timings
COPIED_BYTES, COPIED_IN_ALL = 1 << 20, 64 << 20  # a larger file is a link to the original
SEARCHED_BYTES = 1 << 20  # of each stream, from its end
READ_BYTES = 64 << 20  # a larger result is compared by its digest alone
LEFT_OUT = {
    ".git", ".hg", ".svn", "__pycache__", ".tox", ".nox", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".ipynb_checkpoints", "node_modules", ".idea", ".vscode", ".DS_Store",
}  # fmt: skip
LEFT_OUT_ENDS = (".pyc", ".swp", "~")
# Variables of the command alone begin so: they should not change this process.
VARIABLE = "STACKGEN_ENV_"
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
TOLERANCE = 1e-4  # of the numbers in a result, as a ratio


class Invalid(Exception):
    """The command ended well, but what it left is not what it was said to leave."""


def main():
    """Run the command as the options say, and print the document."""
    options = read_arguments(sys.argv[1:])
    folder = options.folder or tempfile.mkdtemp(prefix="stackgen-")
    try:
        document, status = measured(options, folder)
    finally:
        if not options.folder:
            shutil.rmtree(folder, ignore_errors=True)
    if status:
        end_like(status)
    harness.publish(document, options.output)


def read_arguments(arguments):
    """Return what the command line says."""
    parser = harness.Parser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--project", default=".", help="the folder that it starts in a copy of")
    parser.add_argument("--figure", default="", help="regex with one group: a number it prints")
    parser.add_argument("--better", default="lower", choices=["lower", "higher"])
    parser.add_argument("--check", default="", help="the file with its result")
    parser.add_argument("--folder", help="an empty folder to work in (by default a new one)")
    parser.add_argument("--output", help="write the document into this file, too")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    options.command = options.command[options.command[:1] == ["--"] :]
    if not options.command:
        parser.error("there is no command")
    return options


def measured(options, folder):
    """Return the document, and the status that the command ended with where that is not 0."""
    work, scratch, tools = (os.path.join(folder, name) for name in ("project", "scratch", "bin"))
    for each in (work, scratch, tools):
        os.mkdir(each)
    overlay(os.path.abspath(options.project), work)
    stale = os.path.join(work, options.check)
    if options.check and os.path.lexists(stale):
        os.unlink(stale)  # of an earlier run: this one has to write its own
    environment = own_environment(scratch, tools)
    document = {"stackgen": harness.SCHEMA, "outcome": "ok", "reason": "", "loaded": []}
    program = found(options.command[0], work, environment["PATH"])
    if program is None:
        reason = "there is no program {!r} in this stack, nor in the project"
        document.update(outcome="unsupported", reason=reason.format(options.command[0]))
        return document, 0
    before = harness.counters()
    try:
        ran = Run([program] + options.command[1:], work, environment, bool(options.figure))
    except OSError as error:  # as of a script without a first line that names its interpreter
        document.update(outcome="unsupported", reason=str(error))
        return document, 0
    circumstances = harness.circumstances(before, harness.counters())
    if ran.status:
        return document, ran.status
    try:
        document.update(results(options, ran, circumstances, (work, scratch)))
    except Invalid as error:
        document.update(outcome="invalid_output", reason=str(error))
    return document, 0


def results(options, ran, circumstances, places):
    """Return the measured part of the document."""
    circumstances.update(ran.facts)
    value = ran.wall_s
    if options.figure:
        figure = last_figure(options.figure, ran.said)
        circumstances["figure"] = figure
        value = 1 / figure if options.better == "higher" else figure
    checksum = None
    if options.check:
        facts, checksum = result_of(options.check, places)
        circumstances.update(facts, checksum_tolerance=TOLERANCE)
    return {
        "values_s": [value],
        "loops": 1,
        "steady": True,
        "checksum": checksum,
        "peak_memory_bytes": ran.peak_memory_bytes,
        "circumstances": circumstances,
    }


class Run:
    """A command that has ended.

    status: as the system gives it. wall_s: from its start to its end, in seconds.
    facts: what the system counted of it, with the children that it waited for.
    said: the end of its two streams, where somebody listens.
    """

    def __init__(self, command, folder, environment, listens):
        pipe = subprocess.PIPE if listens else None
        sys.stdout.flush()
        start = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
        ends = [Passed(process.stdout, 1), Passed(process.stderr, 2)] if listens else []
        _, self.status, usage = os.wait4(process.pid, 0)
        self.wall_s = time.perf_counter() - start
        process.returncode = self.status  # it was reaped here, not by its object
        self.said = [each.end() for each in ends]
        self.peak_memory_bytes = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        self.facts = {
            "wall_s": round(self.wall_s, 6),
            "cpu_time_s": round(usage.ru_utime + usage.ru_stime, 6),
            "context_switches_voluntary": usage.ru_nvcsw,
            "context_switches_involuntary": usage.ru_nivcsw,
            "page_faults": usage.ru_minflt,
        }


class Passed(threading.Thread):
    """Passes a stream on as it comes, and remembers its end."""

    def __init__(self, source, target):
        threading.Thread.__init__(self)
        self.daemon = True
        self.source, self.target, self.kept = source, target, bytearray()
        self.start()

    def run(self):
        """Do it, until everybody who could write is gone."""
        while True:
            chunk = os.read(self.source.fileno(), 1 << 16)
            if not chunk:
                return
            self.kept += chunk
            if len(self.kept) > 2 * SEARCHED_BYTES:
                del self.kept[:-SEARCHED_BYTES]
            while chunk:
                chunk = chunk[os.write(self.target, chunk) :]

    def end(self):
        """Return the end; what the command left running may go on writing for ever."""
        self.join(0.5)
        return bytes(self.kept[-SEARCHED_BYTES:]).decode("utf-8", "replace")


def overlay(project, work):
    """Make a folder look like the project, without anything in it leading back for writing."""
    room = COPIED_IN_ALL
    for folder, names, files in os.walk(project):
        there = os.path.normpath(os.path.join(work, os.path.relpath(folder, project)))
        names[:] = [name for name in sorted(names) if belongs(folder, name)]
        for name in names + sorted(files):
            path, copy = os.path.join(folder, name), os.path.join(there, name)
            if not os.path.lexists(path):  # somebody works on the project meanwhile
                continue
            kind = os.lstat(path).st_mode
            if stat.S_ISLNK(kind):
                os.symlink(link_target(path, project), copy)
            elif stat.S_ISDIR(kind):
                os.mkdir(copy)
            elif stat.S_ISREG(kind) and belongs(folder, name):
                size = os.path.getsize(path)
                if size <= min(COPIED_BYTES, room) and copied(path, copy):
                    room -= size
                else:
                    os.symlink(path, copy)


def belongs(folder, name):
    """Return whether something of a project's folder is of its making."""
    made = name in LEFT_OUT or name.endswith(LEFT_OUT_ENDS)
    return not (made or os.path.exists(os.path.join(folder, name, "pyvenv.cfg")))


def link_target(path, project):
    """Return where a link of the project leads from its copy."""
    target = os.readlink(path)
    inside = os.path.normpath(os.path.join(os.path.dirname(path), target)) + os.sep
    if os.path.isabs(target) or inside.startswith(os.path.join(project, "")):
        return target
    return os.path.normpath(os.path.join(os.path.dirname(path), target))


def copied(path, copy):
    """Copy a file that its owner may write to; False where it cannot be read."""
    try:
        shutil.copyfile(path, copy)
    except PermissionError:
        return False
    os.chmod(copy, stat.S_IMODE(os.stat(path).st_mode) | stat.S_IRUSR | stat.S_IWUSR)
    return True


def own_environment(scratch, tools):
    """Return the command's variables: ``python`` and the scripts of packages are this stack's."""
    given = {name: value for name, value in os.environ.items() if not name.startswith(VARIABLE)}
    for name, value in os.environ.items():
        if name.startswith(VARIABLE):
            given[name[len(VARIABLE) :]] = value
    folders = [os.path.dirname(sys.executable), sysconfig.get_path("scripts")]
    for name in ("python", "python3"):
        if not os.path.exists(os.path.join(folders[0], name)):
            # Not a link: a virtualenv's interpreter finds its packages by its own path.
            script = os.path.join(tools, name)
            with open(script, "w") as file:
                file.write('#!/bin/sh\nexec {} "$@"\n'.format(shlex.quote(sys.executable)))
            os.chmod(script, 0o755)
    given["PATH"] = os.pathsep.join([tools] + folders + [given.get("PATH", os.defpath)])
    given["STACKGEN_SCRATCH"] = scratch
    return given


def found(name, work, path):
    """Return the path of a program, or None."""
    if name in ("python", "python3", "python{}.{}".format(*sys.version_info)):
        return sys.executable
    if os.sep in name:
        name = os.path.join(work, name)
    return shutil.which(name, path=path)


def last_figure(regex, said):
    """Return the last number that a regex finds in what a command printed, errors last."""
    for text in said:
        matches = list(re.finditer(regex, text, re.MULTILINE))
        if matches:
            refuse_part(matches[-1])
            return number_above_zero(matches[-1].group(1))
    raise Invalid("it ended well, but nothing that it printed matches {!r}".format(regex))


def refuse_part(match):
    """Refuse what is but the beginning of a number (1e-05, 1,000) or the end of one (-1)."""
    found, text = match.group(1) or "", match.string
    sign = re.search(r"(?:^|[\s=:(\[])-$", text[: match.start(1)]) if found[:1].isdigit() else None
    exponent = re.match(r"[eE][-+]?\d+", text[match.end(1) :]) if found[-1:].isdigit() else None
    if exponent is None and re.match(r"\d{1,3}$", found):
        exponent = re.match(r"(?:,\d{3})+(?:\.\d+)?(?!\d)", text[match.end(1) :])
    if sign or exponent:
        whole = "-" * bool(sign) + found + (exponent.group() if exponent else "")
        raise Invalid(
            "it printed {!r}, of which --figure takes {!r} alone: write the group as in "
            "([0-9.e+-]+), and print numbers without commas".format(whole, found)
        )


def number_above_zero(text):
    """Return a number; None stands for a group that took no part."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        raise Invalid("the figure that it printed is no number: {!r}".format(text))
    if not 0 < value < math.inf:
        raise Invalid("the figure that it printed is not above zero: {!r}".format(text))
    return value


def result_of(name, places):
    """Return what a file of results holds, as facts and as a checksum of its numbers."""
    paths = [os.path.join(place, name) for place in places]
    path = next(filter(os.path.isfile, paths), None)
    if path is None:
        raise Invalid("it ended well, but did not write {}".format(name))
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            digest.update(chunk)
            size += len(chunk)
    facts = {"check": digest.hexdigest()}
    try:
        text = text_of(path) if size <= READ_BYTES else ""
    except UnicodeDecodeError:
        text = ""
    if not text:
        return facts, None
    facts["check_text"] = hashlib.sha256(NUMBER.sub("#", text).encode("utf-8")).hexdigest()
    return facts, checksum([float(each) for each in NUMBER.findall(text)])


def text_of(path):
    """Return a file's text."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def checksum(numbers):
    """Return a number that changes with each of these, with their order and with their signs."""
    numbers = [each for each in numbers if math.isfinite(each)]
    if not numbers:
        return None
    total = 0.0
    for place, number in enumerate(numbers):
        weight = 1 + ((place * 2654435761) % 2**32) / 2**32
        total += weight * (2 * abs(number) + number)
    return total / len(numbers)


def end_like(status):
    """End as the command did: by its signal, or with its exit code."""
    sys.stdout.flush()
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)


if __name__ == "__main__":
    main()
