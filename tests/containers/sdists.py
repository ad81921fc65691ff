"""Source distributions with a build backend of their own, made on the spot."""

import io
import tarfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

# It lies in the sources themselves, so that nothing must be installed to build with it.
BACKEND = """
import base64, hashlib, os, time, zipfile

def wheel(out, name="demo", version="1.0", stated="1.0", requires=(), tag="py3-none-any",
          source="VALUE = 1\\n", recorded=None):
    info = "%s-%s.dist-info" % (name, stated)
    lines = ["Metadata-Version: 2.2", "Name: " + name, "Version: " + stated]
    lines += ["Requires-Dist: " + each for each in requires]
    files = {
        name + ".py": source,
        info + "/METADATA": "\\n".join(lines) + "\\n",
        info + "/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: %s\\n" % tag,
    }
    rows = []
    for path, text in sorted(files.items()):
        text = recorded or text
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
        rows.append("%s,sha256=%s,%d" % (path, digest.decode().rstrip("="), len(text)))
    files[info + "/RECORD"] = "\\n".join(rows + [info + "/RECORD,,"]) + "\\n"
    name = "%s-%s-%s.whl" % (name, version, tag)
    moment = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    with zipfile.ZipFile(os.path.join(out, name), "w") as archive:
        for path, text in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(path, moment), text)
    return name

def build_wheel(out, config_settings=None, metadata_directory=None):
{act}
"""
PLAIN = "return wheel(out)"


def make_sdist(
    folder: Path,
    act: str = PLAIN,
    *,
    name: str = "demo",
    more: str = "",
    announced: Sequence[str] = (),
    requires: Sequence[str] = (),
) -> Path:
    """Write a source distribution.

    act: the body of its ``build_wheel``; more: further code of its backend.
    announced: what its PKG-INFO says that it requires; requires: what building it does.
    """
    lines = "".join(f"Requires-Dist: {each}\n" for each in announced)
    backend = BACKEND.replace("{act}", textwrap.indent(textwrap.dedent(act), "    ")) + more
    return write_sdist(
        folder,
        {
            "PKG-INFO": f"Metadata-Version: 2.2\nName: {name}\nVersion: 1.0\n{lines}",
            "pyproject.toml": f"[build-system]\nrequires = {list(requires)!r}\n"
            'build-backend = "backend"\nbackend-path = ["own"]\n',
            "own/backend.py": backend,
        },
        name=name,
    )


def write_sdist(folder: Path, files: dict[str, str], *, name: str) -> Path:
    """Write the files into an archive as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for member, text in files.items():
            entry = tarfile.TarInfo(f"{name}-1.0/{member}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path
