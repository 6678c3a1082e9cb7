#!/bin/sh
# Creates the virtual environment that everything runs in; with the word `test` the one that tests and checks run in, with
# `policies` that of the policy pack. All live in the cache folder, keyed by their requirements, so that a fresh clone or
# a changed branch finds the right one at once; `.venv`, `.venv-test` or `.venv-policies` in the clone only points to it.
set -eu
cd "$(dirname "$0")/.."
installer=tools/installer.txt
build=tools/build.txt
# Decides which packages of an environment without GPUs are left out; empty where all are installed.
variant=

case ${1-} in
    '') requirements=requirements.txt link=.venv what='Python packages of the commands (10 s, once)' ;;
    test)
        requirements=requirements-test.txt link=.venv-test what='Python packages of the tests (1 min, once)'
        variant=trainer/image/variant.py
        ;;
    policies) requirements=policies/requirements.txt link=.venv-policies what='Python packages of the policies (5 s, once)' ;;
    *)
        echo "$0: '$1' is not an environment. Fix: give no word, 'test' or 'policies'." >&2
        exit 2
        ;;
esac

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
key=$(cat "$requirements" "$installer" "$build" tools/bootstrap.sh ${variant:+"$variant"} | sha256sum | cut -c1-12)
venv=$cache/venv/$version-$key

# As images for nodes without GPUs have them: NVIDIA's libraries are half of all packages, and no test uses a GPU.
cpu_pins='import sys; from pathlib import Path; from trainer.image.variant import CPU, requirements_for
print(*requirements_for(CPU, Path(sys.argv[1]).read_text().splitlines()), sep="\n")'
stand_ins='import sysconfig; from pathlib import Path; from trainer.image.variant import write_stand_ins
write_stand_ins(Path(sysconfig.get_path("platlib")))'

if [ ! -e "$venv/.complete" ]; then
    mkdir -p "$cache/venv"
    # One builder at a time; a killed one leaves a folder without the mark, which the next one replaces.
    exec 9>"$cache/venv/.lock"
    flock 9
    if [ ! -e "$venv/.complete" ]; then
        echo "Installing the $what …" >&2
        rm -rf "$venv"
        "$python" -m venv "$venv"
        # Only files whose hashes are pinned, whatever server they come from: this may be done as root.
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$installer"
        pins=$requirements
        if [ -n "$variant" ]; then
            pins=$venv/pins.txt
            "$venv/bin/python" -c "$cpu_pins" "$requirements" >"$pins"
        fi
        # The files of pins name what their packages need.
        UV_CACHE_DIR=$cache/uv VIRTUAL_ENV=$venv "$venv/bin/uv" pip install --quiet --require-hashes --no-deps \
            --build-constraints "$build" -r "$pins"
        if [ -n "$variant" ]; then
            "$venv/bin/python" -c "$stand_ins"
        fi
        touch "$venv/.complete"
    fi
    exec 9>&-
fi
if [ ! -L "$link" ]; then
    rm -rf "$link"
fi
if [ "$(readlink "$link")" != "$venv" ]; then
    ln -sfn "$venv" "$link"
fi
