#!/bin/sh
# Run stackgen in a container, next to the engine of its host.
#
# The engine resolves paths of mounts on the host. So what stackgen mounts into stacks (its
# indicators, its cache) has to lie below one folder with the same path on the host and in here.
set -eu

home=${STACKGEN_HOME:-/var/lib/stackgen}
python=/opt/stackgen/bin/python
installed=$("$python" -c 'import pathlib, stackgen; print(pathlib.Path(stackgen.__file__).parent)')
# Two builds of one version differ in the digests that their installation recorded.
build=$("$python" -c 'import hashlib, importlib.metadata as m, stackgen
record = m.distribution("stackgen").read_text("RECORD") or ""
print(stackgen.__version__, hashlib.sha256(record.encode()).hexdigest()[:12], sep="-")')
copy=$home/package/$build

if [ ! -d "$copy/stackgen" ]; then
    mkdir -p "$home/package"
    making=$(mktemp -d "$home/package/making.XXXXXX")
    cp -R "$installed" "$making/stackgen"
    chmod -R a+rX "$making"
    mv -T "$making" "$copy" 2>/dev/null || rm -rf "$making" # another container was first
fi

export PYTHONPATH="$copy"
export STACKGEN_CACHE="${STACKGEN_CACHE:-$home/cache}"
export STACKGEN_KB="${STACKGEN_KB:-$home/stackgen.db}"
exec "$python" -m stackgen "$@"
