"""``stackgen provenance``: a lock against indexes on the loopback, and against OSV records."""

import json
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from packaging.version import Version

from stackgen.errors import UsageError
from stackgen.locks.sources import read_sources
from stackgen.model.reports.provenance import FindingCode
from stackgen.provenance.vulnerabilities import OsvRecords, affected
from tests.in_process import run_command
from tests.tiny_index import TinyIndex, make_wheel, serving, sha256
from tools.reference import json_schema

_WHEEL = "alpha-1.0-py3-none-any.whl"
_INSTALLABLE = {"alpha-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"}
_CONTENT = make_wheel("alpha", members=_INSTALLABLE)
_HASH = sha256(_CONTENT)
_OTHER = sha256(b"another file")
_SCHEMA = Draft202012Validator(json_schema("provenance"))


@pytest.fixture
def index() -> Iterator[TinyIndex]:
    with serving() as found:
        found.add(_WHEEL, _CONTENT)
        yield found


def _environ(folder: Path, index: TinyIndex, *more: TinyIndex) -> dict[str, str]:
    return {
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "STACKGEN_SEED": "",
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": index.simple,
        "PIP_EXTRA_INDEX_URL": " ".join(each.simple for each in more),
    }


def _check(
    folder: Path, text: str, index: TinyIndex, *more: TinyIndex, options: tuple[str, ...] = ()
) -> tuple[int, set[tuple[str, str]], str]:
    """Return exit code, (severity, code) of all findings, and the whole report."""
    name = "Pipfile.lock" if text.startswith("{") else "lock.toml" if "[[" in text else "lock.txt"
    name = "conda-lock.yml" if "content_hash" in text else name
    name = "pixi.lock" if "\nenvironments:" in text else name
    (folder / name).write_text(text)
    done = run_command(
        *("provenance", name, "--json", *options),
        folder=folder,
        environ=_environ(folder, index, *more),
    )
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert not list(_SCHEMA.iter_errors(report))
    codes = {(each["severity"], each["code"]) for each in report["findings"]}
    return done.returncode, codes, done.stdout


def test_releases_that_share_a_message_take_one_line(tmp_path: Path, index: TinyIndex) -> None:
    names = [f"absent-{number}" for number in range(40)]
    lines = ["alpha==1.0+cpu", *(f"{name}==1.0" for name in names)]
    (tmp_path / "lock.txt").write_text("\n".join(lines))
    environ = _environ(tmp_path, index)
    done = run_command("provenance", "lock.txt", folder=tmp_path, environ=environ)
    shown = done.stdout.splitlines()
    assert "  41 releases: the lock states no hash of it:" in shown
    assert max(len(each) for each in shown if "absent" in each) <= 100
    assert all(f"{name}==1.0" in done.stdout for name in names)
    assert "a local version comes from another index: name that with" in done.stdout


def _formats(index: TinyIndex) -> dict[str, str]:
    """Return a lock of alpha 1.0 in each format."""
    url, file = index.simple, f"{index.url}/files/{_WHEEL}"
    return {
        "requirements": f"alpha==1.0 --hash=sha256:{_HASH}\n",
        "pipfile": json.dumps(
            {
                "_meta": {"sources": [{"name": "own", "url": url, "verify_ssl": True}]},
                "default": {
                    "alpha": {"version": "==1.0", "hashes": [f"sha256:{_HASH}"], "index": "own"}
                },
            }
        ),
        "poetry": f'[[package]]\nname = "alpha"\nversion = "1.0"\n'
        f'files = [{{file = "{_WHEEL}", hash = "sha256:{_HASH}"}}]\n'
        f'[package.source]\ntype = "legacy"\nurl = "{url}"\nreference = "own"\n'
        '[metadata]\nlock-version = "2.0"\n',
        "uv": 'version = 1\nrequires-python = ">=3.8"\n[[package]]\nname = "me"\nversion = "1"\n'
        'source = { virtual = "." }\ndependencies = [{ name = "alpha" }]\n'
        '[[package]]\nname = "alpha"\nversion = "1.0"\n'
        f'source = {{ registry = "{url}" }}\n'
        f'wheels = [{{ url = "{file}", hash = "sha256:{_HASH}" }}]\n',
        "pdm": '[metadata]\nlock_version = "4.5.0"\n[[package]]\nname = "alpha"\n'
        f'version = "1.0"\nfiles = [{{file = "{_WHEEL}", hash = "sha256:{_HASH}"}}]\n',
        "pylock": 'lock-version = "1.0"\ncreated-by = "test"\n[[packages]]\nname = "alpha"\n'
        f'version = "1.0"\nindex = "{url}"\nwheels = [{{name = "{_WHEEL}", '
        f'url = "{file}", hashes = {{sha256 = "{_HASH}"}}}}]\n',
        "conda-lock": "metadata:\n  content_hash: {}\npackage:\n- name: alpha\n"
        "  version: '1.0'\n  manager: pip\n  platform: linux-64\n"
        f"  url: {file}\n  hash:\n    sha256: {_HASH}\n",
        "pixi": "version: 6\nenvironments:\n  default:\n    packages:\n      linux-64:\n"
        f"      - pypi: {file}\npackages:\n- pypi: {file}\n  name: alpha\n  version: '1.0'\n"
        f"  sha256: {_HASH}\n",
    }


@pytest.mark.parametrize(
    "name", ["requirements", "pipfile", "poetry", "uv", "pdm", "pylock", "conda-lock", "pixi"]
)
def test_a_sound_lock_of_each_format_has_no_error(
    name: str, index: TinyIndex, tmp_path: Path
) -> None:
    code, found, text = _check(tmp_path, _formats(index)[name], index)
    assert (code, found - {("warning", "insecure-transport")}) == (0, set())
    report = json.loads(text)
    assert (report["format"], report["artifacts"], report["packages"]) == (name, 1, 1)
    assert report["vulnerabilities"]["not_checked"]  # stated, and never taken for "none"


@pytest.mark.parametrize("name", ["requirements", "pipfile", "poetry", "uv", "pdm", "pylock"])
def test_a_changed_hash_is_an_error_in_each_format(
    name: str, index: TinyIndex, tmp_path: Path
) -> None:
    text = _formats(index)[name].replace(_HASH, _OTHER)
    code, found, _ = _check(tmp_path, text, index)
    assert (code, ("error", "wrong-hash") in found) == (7, True)


def _of_alpha(index: TinyIndex, **described: object) -> None:
    """Let the index describe alpha in JSON, with further keys of its file or page."""
    status = described.pop("status", None)
    file = {
        "filename": _WHEEL,
        "url": f"../../files/{_WHEEL}",
        "hashes": {"sha256": _HASH},
        **described,
    }
    index.add_json("alpha", [file] if described.get("files", True) else [])
    if status:
        document = json.loads(index.files["/simple/alpha/"])
        document["project-status"] = status
        index.files["/simple/alpha/"] = json.dumps(document).encode()


_Change = Callable[[TinyIndex, TinyIndex], str]
_LINE = f"alpha==1.0 --hash=sha256:{_HASH}\n"


def _second(content: bytes) -> _Change:
    def change(_: TinyIndex, other: TinyIndex) -> str:
        other.add(_WHEEL, content)
        return _LINE

    return change


def _only_on_second(index: TinyIndex, other: TinyIndex) -> str:
    index.files.pop("/simple/alpha/")
    index.add("alpha-0.9-py3-none-any.whl", make_wheel("alpha", "0.9"))
    other.add(_WHEEL, _CONTENT)
    return _formats(index)["pipfile"]


def _with(**described: object) -> _Change:
    def change(index: TinyIndex, _: TinyIndex) -> str:
        _of_alpha(index, **described)
        return _LINE

    return change


_CASES: dict[str, tuple[_Change, set[tuple[str, str]]]] = {
    "short hash": (lambda *_: "alpha==1.0 --hash=sha256:12ab\n", {("error", "invalid-hash")}),
    "md5 alone": (lambda *_: f"alpha==1.0 --hash=md5:{'0' * 32}\n", {("error", "invalid-hash")}),
    "no hash": (lambda *_: "alpha==1.0\n", {("warning", "no-hash")}),
    "some without hash": (
        lambda *_: _LINE + "alpha==1.0; python_version<'3'\nbeta==1\n",
        {("error", "no-hash"), ("error", "missing-package")},
    ),
    "no project": (
        lambda *_: f"gamma==1 --hash=sha256:{_OTHER}\n",
        {("error", "missing-package")},
    ),
    "no release": (
        lambda *_: f"alpha==2 --hash=sha256:{_OTHER}\n",
        {("error", "missing-release")},
    ),
    "no file": (
        lambda i, _: _formats(i)["pdm"].replace("any.whl", "linux_x86_64.whl"),
        set(),  # the name alone is wrong; the hash decides, as it does for pdm
    ),
    "file gone": (
        lambda i, _: (
            _formats(i)["pdm"].replace("any.whl", "linux_x86_64.whl").replace(_HASH, _OTHER)
        ),
        {("error", "missing-file")},
    ),
    "hash of another release": (
        lambda i, _: (
            (i.add("alpha-2.0-py3-none-any.whl", make_wheel("alpha", "2.0")), "")[1]
            + f"alpha==1.0 --hash=sha256:{sha256(make_wheel('alpha', '2.0'))}\n"
        ),
        {("error", "wrong-hash")},
    ),
    "equal file on two indexes": (_second(_CONTENT), set()),
    "other file on the second index": (
        _second(make_wheel("alpha", members={"x.py": b""})),
        {("warning", "different-artifacts")},
    ),
    "other index": (
        _only_on_second,
        {("error", "other-index"), ("warning", "insecure-transport")},
    ),
    "unknown index": (
        lambda *_: f"--index-url https://evil.invalid/simple\n{_LINE}",
        {("error", "index-not-allowed")},
    ),
    "unknown server of files": (
        lambda i, _: _formats(i)["uv"].replace(f"{i.url}/files", "https://evil.invalid"),
        {("error", "index-not-allowed"), ("warning", "insecure-transport")},
    ),
    "certificates not verified": (
        lambda *_: f"--trusted-host evil.invalid\n{_LINE}",
        {("warning", "insecure-transport")},
    ),
    "yanked": (_with(yanked="it breaks"), {("warning", "yanked")}),
    "archived": (_with(status={"status": "archived"}), {("warning", "archived")}),
    "deprecated": (_with(status={"status": "deprecated"}), {("warning", "deprecated")}),
    "quarantined": (
        _with(files=False, status={"status": "quarantined", "reason": "malware"}),
        {("error", "quarantined"), ("error", "missing-release")},
    ),
}


@pytest.mark.parametrize("case", _CASES)
def test_what_is_wrong_has_a_code_and_a_severity(
    case: str, index: TinyIndex, tmp_path: Path
) -> None:
    change, expected = _CASES[case]
    with serving() as other:
        code, found, _ = _check(tmp_path, change(index, other), index, other)
    assert found == expected
    assert code == (7 if any(severity == "error" for severity, _ in expected) else 0)


def test_an_html_page_states_yanks_and_status_too(index: TinyIndex, tmp_path: Path) -> None:
    page = index.files["/simple/alpha/"].replace(b" >", b' data-yanked="">')
    head = b'<meta name="pypi:project-status" content="archived">'
    index.files["/simple/alpha/"] = head + page
    _, found, _ = _check(tmp_path, _LINE, index)
    assert found == {("warning", "yanked"), ("warning", "archived")}
    _, again, _ = _check(tmp_path, _LINE, index, options=("--offline",))
    assert again == found  # the cached page states it as well


def test_codes_and_ids_are_ignored_and_unknown_codes_refused(
    index: TinyIndex, tmp_path: Path
) -> None:
    text = _LINE.replace(_HASH, _OTHER)
    code, found, report = _check(tmp_path, text, index, options=("--ignore", "wrong-hash"))
    assert (code, found, json.loads(report)["ignored"]) == (0, set(), 1)
    done = run_command(
        *("provenance", "lock.txt", "--ignore", "wrong-hahs"),
        folder=tmp_path,
        environ=_environ(tmp_path, index),
    )
    assert done.returncode == 2
    assert "wrong-hash" in done.stderr


def test_an_allowed_list_narrows_what_a_lock_may_name(index: TinyIndex, tmp_path: Path) -> None:
    text = f"--index-url {index.simple}\n{_LINE}"
    other = ("--allow-index", "https://other.invalid/simple")
    assert ("error", "index-not-allowed") not in _check(tmp_path, text, index)[1]
    assert ("error", "index-not-allowed") in _check(tmp_path, text, index, options=other)[1]
    evil = "--index-url https://other.invalid/simple\n" + _LINE
    assert _check(tmp_path, evil, index, options=other)[1] == set()


@pytest.mark.parametrize("command", ["provenance", "advise"])
@pytest.mark.parametrize("name", ["requirements", "pipfile", "poetry", "uv", "pdm", "pylock"])
def test_no_address_of_a_lock_is_contacted(
    command: str, name: str, index: TinyIndex, tmp_path: Path
) -> None:
    with serving() as evil:
        text = _formats(evil)[name]
        if name == "requirements":
            text = f"--index-url {evil.simple}\n--find-links {evil.url}/files/\n{text}"
        path = tmp_path / {"pipfile": "Pipfile.lock", "requirements": "r.txt"}.get(name, "x.toml")
        path.write_text(text)
        environ = _environ(tmp_path, index) | {"STACKGEN_KB": str(tmp_path / "kb.db")}
        done = run_command(command, path.name, folder=tmp_path, environ=environ)
        assert done.returncode in ((0, 7) if command == "provenance" else (3,)), done.stderr
        assert evil.requested == []


def test_the_guide_explains_each_code() -> None:
    guide = (Path(__file__).parents[1] / "docs/guides/provenance.md").read_text()
    assert [each.value for each in FindingCode if f"`{each.value}`" not in guide] == []


# Attestations

_PUBLISHER: dict[str, object] = {
    "kind": "GitHub",
    "repository": "o/alpha",
    "workflow": "release.yml",
    "claims": None,
}


def _attested(index: TinyIndex, releases: dict[str, dict[str, object] | None]) -> None:
    """Serve releases with who published them; None: without attestation."""
    files: list[dict[str, object]] = []
    for version, publisher in releases.items():
        name = f"alpha-{version}-py3-none-any.whl"
        content = _CONTENT if version == "1.0" else make_wheel("alpha", version)
        index.files[f"/files/{name}"] = content
        files.append(
            {
                "filename": name,
                "url": f"../../files/{name}",
                "hashes": {"sha256": sha256(content)},
                "provenance": publisher and f"{index.url}/integrity/{name}/provenance",
            }
        )
        bundle: dict[str, object] = {"publisher": publisher, "attestations": []}
        document = {"version": 1, "attestation_bundles": [bundle]}
        index.files[f"/integrity/{name}/provenance"] = json.dumps(document).encode()
    index.add_json("alpha", files)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (_PUBLISHER, _PUBLISHER, set()),
        (_PUBLISHER, {**_PUBLISHER, "workflow": "publish.yml"}, set()),
        (_PUBLISHER, {**_PUBLISHER, "repository": "x/alpha"}, {("warning", "attestation-changed")}),
        (_PUBLISHER, None, {("warning", "attestation-missing")}),
        (None, _PUBLISHER, set()),
        (None, None, set()),
    ],
)
def test_a_new_publisher_of_a_project_is_a_warning(
    before: dict[str, object] | None,
    now: dict[str, object] | None,
    expected: set[tuple[str, str]],
    index: TinyIndex,
    tmp_path: Path,
) -> None:
    _attested(index, {"0.9": before, "1.0": now})
    code, found, _ = _check(tmp_path, _LINE, index)
    assert (code, found) == (0, expected)


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ('{kind = "GitHub", repository = "o/alpha"}', set()),
        ('{kind = "GitHub", repository = "x/alpha"}', {("error", "attestation-changed")}),
    ],
)
def test_a_publisher_other_than_the_lock_states_is_an_error(
    stated: str, expected: set[tuple[str, str]], index: TinyIndex, tmp_path: Path
) -> None:
    _attested(index, {"1.0": _PUBLISHER})
    text = f"{_formats(index)['pylock']}attestation-identities = [{stated}]\n"
    _, found, _ = _check(tmp_path, text, index)
    assert found - {("warning", "insecure-transport")} == expected


# Vulnerabilities


def _record(ident: str, name: str, **affects: object) -> dict[str, object]:
    package = {"ecosystem": "PyPI", "name": name}
    return {
        "id": ident,
        "schema_version": "1.4.0",
        "summary": f"What {ident} is",
        "affected": [{"package": package, **affects}],
    }


def _range(*events: tuple[str, str]) -> dict[str, object]:
    pairs = [{kind: version} for kind, version in events]
    return {"ranges": [{"type": "ECOSYSTEM", "events": pairs}]}


@pytest.mark.parametrize(
    ("affects", "hit", "spared"),
    [
        (_range(("introduced", "0"), ("fixed", "2.0")), "0.1 1.9.9 2.0rc1 2.0.dev1", "2.0 2.0.1"),
        (_range(("introduced", "1.0"), ("last_affected", "1.5")), "1.0 1.5 1.5+cpu", "0.9 1.5.1"),
        (_range(("fixed", "2"), ("introduced", "1")), "1 1.5", "0.9 2"),  # in any order
        (
            _range(("introduced", "1"), ("fixed", "2"), ("introduced", "3"), ("fixed", "4")),
            "1.1 3 3.9",
            "0.9 2 2.9 4",
        ),
        (_range(("introduced", "0"), ("limit", "2")), "1", "2 3"),
        (_range(("introduced", "0")), "1 999", ""),
        ({"versions": ["1.0", "1.2"]}, "1 1.2.0 1.0+local", "1.1"),
        ({"ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}]}, "", "1"),
        ({**_range(("introduced", "2004d")), "versions": ["1.0"]}, "1.0", ""),
    ],
)
def test_osv_ranges_are_evaluated_as_its_schema_says(
    affects: dict[str, object], hit: str, spared: str
) -> None:
    record = _record("PYSEC-1", "Alpha_X", **affects)
    assert [v for v in hit.split() if affected(record, "alpha-x", v) is None] == []
    assert [v for v in spared.split() if affected(record, "alpha-x", v)] == []
    assert affected({**record, "withdrawn": "2024-01-01T00:00:00Z"}, "alpha-x", "1.0") is None
    assert affected(record, "alpha", "1.0") is None


_RECORDS = [
    _record("PYSEC-1", "alpha", **_range(("introduced", "0"), ("fixed", "1.1")))
    | {"aliases": ["CVE-7"]},
    _record("GHSA-1", "Alpha", **_range(("introduced", "0"), ("fixed", "1.2")))
    | {"aliases": ["CVE-7"]},
    _record("PYSEC-2", "alpha", **_range(("introduced", "1.1"), ("last_affected", "1.3"))),
    _record("PYSEC-3", "beta", **_range(("introduced", "2"))),
    _record("PYSEC-4", "gamma", **_range(("introduced", "not a version"))),
]


@pytest.fixture
def osv(tmp_path: Path) -> Path:
    folder = tmp_path / "osv"
    folder.mkdir()
    for each in _RECORDS:
        (folder / f"{each['id']}.json").write_text(json.dumps(each))
    return folder


def test_records_of_one_vulnerability_are_joined_in_a_folder_and_in_a_zip(
    osv: Path, tmp_path: Path
) -> None:
    pins = [("alpha", "1.0"), ("beta", "1.0"), ("gamma", "1.0"), ("unknown", "1")]
    names = {name for name, _ in pins}
    found = OsvRecords(osv, names).search(pins)
    (one,) = found.of("alpha", "1.0") or ()
    assert (one.id, one.aliases, one.fixed_in) == ("PYSEC-1", ("CVE-7", "GHSA-1"), ("1.1", "1.2"))
    assert found.of("beta", "1.0") == ()
    assert found.of("gamma", "1.0") is None  # not checked: the record cannot be evaluated
    assert "PYSEC-4" in found.not_checked
    packed = tmp_path / "all.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in osv.iterdir():
            archive.write(path, path.name)
    assert OsvRecords(packed, names).search(pins).found == found.found


def test_damaged_records_and_other_ecosystems_are_never_taken_for_no_vulnerability(
    osv: Path,
) -> None:
    (osv / "PYSEC-5.json").write_text('{"affected": [{"package": {"name": "Beta", ')
    found = OsvRecords(osv, {"alpha", "beta"}).search([("alpha", "1.0"), ("beta", "1.0")])
    assert found.of("beta", "1.0") is None
    assert len(found.of("alpha", "1.0") or ()) == 1
    for each in osv.iterdir():
        each.write_text(each.read_text().replace("PyPI", "npm"))
    with pytest.raises(UsageError, match="PyPI"):
        OsvRecords(osv, {"alpha"})


def test_a_known_vulnerability_is_an_error_and_can_be_ignored(
    index: TinyIndex, osv: Path, tmp_path: Path
) -> None:
    code, found, _ = _check(tmp_path, _LINE, index, options=("--osv", str(osv)))
    assert (code, found) == (7, {("error", "vulnerable")})
    ignored = ("--osv", str(osv), "--ignore", "CVE-7")
    assert _check(tmp_path, _LINE, index, options=ignored)[:2] == (0, set())


class _Osv(BaseHTTPRequestHandler):
    """A loopback server of OSV's API that knows affected versions by enumeration alone."""

    enumerated: dict[str, dict[str, list[dict[str, object]]]]

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        found = self.enumerated.get(query["package"]["name"], {}).get(query["version"], [])
        body = json.dumps({"vulns": found} if found else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def _osv_server(enumerated: dict[str, dict[str, list[dict[str, object]]]]) -> Iterator[str]:
    handler = type("Handler", (_Osv,), {"enumerated": enumerated})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1/query"
        finally:
            server.shutdown()
            thread.join()


def test_ranges_agree_with_pip_audit_on_the_same_records(
    index: TinyIndex, osv: Path, tmp_path: Path
) -> None:
    """The server lists affected versions one by one; the folder has ranges alone."""
    by_hand = {"1.0": [0, 1], "1.1": [1, 2], "1.2": [2], "1.3": [2], "1.4": []}
    enumerated = {
        "alpha": {v: [_RECORDS[number] for number in numbers] for v, numbers in by_hand.items()}
    }
    for version in by_hand:
        index.add(f"alpha-{version}-py3-none-any.whl", make_wheel("alpha", version))
    ids = {}
    with _osv_server(enumerated) as url:
        for version in ("1.1", "1.4"):
            for source in (("--osv", str(osv)), ("--audit", "osv", "--osv-url", url)):
                _, _, text = _check(tmp_path, f"alpha=={version}\n", index, options=source)
                report = json.loads(text)
                assert report["vulnerabilities"]["checked"] == 1, report
                ids[version, source[0]] = {
                    tuple(each["ids"]) for each in report["findings"] if each["ids"]
                }
    for version in ("1.1", "1.4"):
        assert ids[version, "--osv"] == ids[version, "--audit"]
    assert len(ids["1.1", "--osv"]) == 2


def test_an_audit_that_fails_is_not_checked_and_has_its_own_exit_code(
    index: TinyIndex, tmp_path: Path
) -> None:
    closed = ("--audit", "osv", "--osv-url", "http://127.0.0.1:9/v1/query")
    code, _, text = _check(tmp_path, _LINE, index, options=closed)
    assert code == 3
    assert json.loads(text)["vulnerabilities"]["checked"] == 0
    done = run_command(
        *("provenance", "lock.txt", *closed), folder=tmp_path, environ=_environ(tmp_path, index)
    )
    assert "Known vulnerabilities: not checked: pip-audit" in done.stdout


# Other tools on the same broken locks

_BROKEN = {
    "sound": (_LINE, True),
    "wrong hash": (_LINE.replace(_HASH, _OTHER), False),
    "short hash": ("alpha==1.0 --hash=sha256:12ab\n", False),
    "some without hash": (f"{_LINE}beta==1.0\n", False),
    "no release": (f"alpha==3.0 --hash=sha256:{_HASH}\n", False),
    "no project": (f"gamma==3.0 --hash=sha256:{_HASH}\n", False),
}


@pytest.mark.journey
@pytest.mark.parametrize("case", _BROKEN)
def test_pip_and_uv_refuse_the_locks_that_have_errors(
    case: str, index: TinyIndex, tmp_path: Path
) -> None:
    text, sound = _BROKEN[case]
    index.add("beta-1.0-py3-none-any.whl", make_wheel("beta"))
    code, _, _ = _check(tmp_path, text, index)
    environ = _environ(tmp_path, index) | {"UV_DEFAULT_INDEX": index.simple, "PATH": "/usr/bin"}
    pip = ["-m", "pip", "install", "--require-hashes", "--target", "out", "-r", "lock.txt"]
    uv = ["-m", "uv", "pip", "install", "--require-hashes", "--target", "out2", "-r", "lock.txt"]
    for tool in (pip, uv):
        done = subprocess.run(
            [sys.executable, *tool], cwd=tmp_path, env=environ, capture_output=True, check=False
        )
        assert (done.returncode == 0) == sound, done.stderr
    assert code == (0 if sound else 7)


@given(data=st.data())
def test_a_damaged_lock_is_read_or_refused(data: st.DataObject) -> None:
    texts = [*_formats(TinyIndex(url="http://127.0.0.1:1")).values()]
    text = data.draw(st.sampled_from(texts))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        piece = data.draw(
            st.sampled_from(["", "[", "]", "{}", "1", "null", '"', "//[", "\n", "=="])
        )
        text = text[:start] + piece + text[start + data.draw(st.integers(0, 8)) :]
    with suppress(UsageError):
        read_sources(text, path="lock")


def test_a_file_without_a_requirement_is_refused() -> None:
    for text in ("this is no lock\n", "\x01\x02 x\n{ y }\n"):
        with pytest.raises(UsageError, match="locks no package"):
            read_sources(text, path="notes.txt")
    away = read_sources("./own.whl\nno lock\n", path="requirements.txt").packages
    assert [each.elsewhere for each in away] == [
        "is no pin of an index's release",
        "is no requirement",
    ]


def test_a_release_without_pin_or_index_is_named_as_not_checked() -> None:
    text = "alpha==1.0\n-r more.txt\nbeta>=2\n-e git+https://u:secret@h.invalid/p#egg=p\nc @ https://h.invalid/c-1-py3-none-any.whl\n"
    stated = read_sources(text, path="requirements.txt")
    away = {each.name: each.elsewhere for each in stated.packages if each.elsewhere}
    assert len(away) == 4
    assert "secret" not in str(stated)
    assert Version(stated.packages[0].version) == Version("1.0")
