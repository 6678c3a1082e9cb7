#!/bin/sh
# Makes the virtual environment that everything else runs in. It lives in the cache folder, keyed by the requirements,
# so that a fresh clone or a changed branch finds the right one at once; `.venv` in the clone only points to it.
set -eu
cd "$(dirname "$0")/.."
UV_VERSION=0.13.8

python=""
for candidate in python3.13 python3.12 python3.11 python3; do
    if command -v "$candidate" >/dev/null 2>&1 &&
        "$candidate" -c 'import sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "No Python 3.11 to 3.13 with the venv module on PATH. Fix: install one (Debian: apt-get install python3 python3-venv)." >&2
    exit 1
fi

cache=${ATHANOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/athanor}
version=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')
key=$(cat requirements.txt tools/bootstrap.sh | sha256sum | cut -c1-12)
venv=$cache/venv/$version-$key

if [ ! -e "$venv/.complete" ]; then
    mkdir -p "$cache/venv"
    # One builder at a time; a killed one leaves a folder without the mark, which the next one replaces.
    exec 9>"$cache/venv/.lock"
    flock 9
    if [ ! -e "$venv/.complete" ]; then
        echo "Creating the Python environment (about 30 s, most of it PyTorch) …" >&2
        rm -rf "$venv"
        "$python" -m venv "$venv"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"
        UV_CACHE_DIR=$cache/uv VIRTUAL_ENV=$venv "$venv/bin/uv" pip install --quiet -r requirements.txt
        touch "$venv/.complete"
    fi
    exec 9>&-
fi
if [ ! -L .venv ] || [ "$(readlink .venv)" != "$venv" ]; then
    rm -rf .venv
    ln -s "$venv" .venv
fi
