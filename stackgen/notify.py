"""Sends findings to webhooks, and writes them for a forge; what may pass is retried."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import requests

from stackgen.errors import StackgenError, UsageError
from stackgen.model.findings import Finding

_TIMEOUT_S = 10.0
_PAUSES_S = (1.0, 4.0)
_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})


class NotificationError(StackgenError):
    """A message could not be delivered; the next night tries again."""

    exit_code = 8


def notify(
    target: str,
    finding: Finding,
    environ: Mapping[str, str],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Send one finding to one target.

    Args:
        target: as in the configuration: ``slack:env:NAME``, ``webhook:file:PATH``,
            ``github-summary``, ``github-issue:FOLDER``.
        finding: what is sent.
        environ: the user's variables.
        sleep: waits between tries.

    Raises:
        NotificationError: it was not delivered.
        UsageError: a variable is not set, or a file cannot be read or written.
    """
    kind, _, place = target.partition(":")
    if kind == "github-summary":
        _append(
            _variable("GITHUB_STEP_SUMMARY", environ), f"## {finding.title}\n\n{_body(finding)}"
        )
    elif kind == "github-issue":
        _append(
            f"{place}/finding-{finding.id}.md", f"# {finding.title}\n\n{_body(finding)}", anew=True
        )
    else:
        content = {"text": _plain(finding)} if kind == "slack" else payload(finding)
        headers = {"Content-Type": "application/json", "Idempotency-Key": finding.id}
        body = msgspec.json.encode(content)
        deliver(kind, "POST", secret_address(place, environ), body, headers, sleep=sleep)


def check_address(target: str, environ: Mapping[str, str]) -> None:
    """Check that what a target of messages or metrics names exists; nothing is sent.

    Servers are not looked up.

    Raises:
        UsageError: it does not.
    """
    kind, _, place = target.partition(":")
    if kind in ("slack", "webhook"):
        secret_address(place, environ)
    elif kind == "github-summary":
        _variable("GITHUB_STEP_SUMMARY", environ)
    elif kind != "push" and not Path(place).is_dir():
        raise UsageError(
            f"cannot write into {place}", why="there is no such folder", fix=f"run: mkdir {place}"
        )


def payload(finding: Finding) -> dict[str, object]:
    """Return a finding as a JSON object: its fields, its id and its title."""
    fields: dict[str, object] = msgspec.to_builtins(finding)
    return {"schema": "stackgen/finding/1", "id": finding.id, "title": finding.title, **fields}


def secret_address(place: str, environ: Mapping[str, str]) -> str:
    """Return the address that a variable or a file holds; it is never shown.

    Raises:
        UsageError: there is no such variable or file, or it holds no address.
    """
    source, _, name = place.partition(":")
    if source == "env":
        found = _variable(name, environ)
    else:
        try:
            found = Path(name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"cannot read the address of a webhook from {name}",
                why=getattr(error, "strerror", None) or "it is not UTF-8",
                fix="name a file with one line, the address",
            ) from error
    if not found.startswith(("https://", "http://")):
        raise UsageError(
            f"{name} holds no address of a webhook",
            why="an address begins with https:// or http://",
            fix=f"put the whole address into {name}",
        )
    return found


def deliver(
    name: str,
    method: str,
    address: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Send a request, three times at most; the address appears in no message.

    Raises:
        NotificationError: nothing took it.
    """
    why = ""
    for pause in (*_PAUSES_S, None):
        try:
            reply = requests.request(
                method, address, data=body, headers=dict(headers), timeout=_TIMEOUT_S,
                allow_redirects=False,
            )  # fmt: skip
        except requests.RequestException as error:
            why = type(error).__name__  # its text has the address in it
        else:
            if reply.status_code < 300:
                return
            why = f"it answered {reply.status_code}"
            if reply.status_code not in _RETRIED:
                break
        if pause is not None:
            sleep(pause)
    raise NotificationError(
        f"{name} did not take the message",
        why=why,
        fix="check the address and the network; the next night tries again",
    )


def _variable(name: str, environ: Mapping[str, str]) -> str:
    found = environ.get(name, "")
    if not found:
        raise UsageError(
            f"the variable {name} is not set",
            why="a notification target of the watch names it",
            fix=f"set {name}, or remove the target",
        )
    return found


def _append(place: str, text: str, *, anew: bool = False) -> None:
    try:
        with Path(place).open("w" if anew else "a", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except OSError as error:
        raise UsageError(
            f"cannot write {place}",
            why=error.strerror or str(error),
            fix="name a folder that can be written",
        ) from error


def _plain(finding: Finding) -> str:
    lines = [f"*stackgen {finding.watch}*: {finding.title}"]
    if finding.attribution is not None:
        lines.append(f"Cause: {finding.attribution.answer}")
    return "\n".join([*lines, f"```{finding.command}```"])


def _body(finding: Finding) -> str:
    """Return the finding in Markdown."""
    rows = [f"| {name} | {old or '-'} | {new or '-'} |" for name, old, new in finding.changes]
    lines = [f"Watch `{finding.watch}`, found {finding.found_at}, id `{finding.id}`.", ""]
    if finding.detail:
        lines += ["```", finding.detail, "```", ""]
    if finding.attribution is not None:
        lines += [f"Cause: {finding.attribution.answer}", ""]
    lines += ["| package | before | after |", "|---|---|---|", *rows, ""]
    return "\n".join([*lines, "Reproduce it:", "", "```", finding.command, "```", ""])
