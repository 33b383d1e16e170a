#!/usr/bin/env bash
# Makes the virtual environment that the Makefile uses, once: environment.sh FOLDER
#
# The interpreter that already imports torch is taken where there is one, and its
# torch and Triton are used as they are: a ROCm or CUDA container keeps its own.
# torch is installed only where no interpreter has it. PYTHON=… names another one.
set -euo pipefail

cd "$(dirname "$0")/.."
venv=$(realpath -m "${1:?usage: environment.sh FOLDER}")
stamp=$venv/.installed
torch_page=https://pytorch.org/get-started/locally/

say() { printf '%s\n' "$*" >&2; }
fail() { say "error: $1" "  remedy: $2"; exit 1; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
has_torch() { "$1" -c 'import torch' >/dev/null 2>&1; }
finds() { "$venv/bin/python" -c "import importlib.util as u, sys; sys.exit(u.find_spec('$1') is None)"; }

# What the environment depends on; a change of any of it installs anew.
wanted() {
    sha256sum pyproject.toml constraints.txt scripts/environment.sh
    printf '%s\n' "$PWD" "${PYTHON:-}"
}

# First interpreter that is new enough and passes a test. The environment's own, which
# is on the PATH where it is activated, is to be made anew and so does not count.
choose() {
    local python
    for python in ${PYTHON:-python3 python python3.14 python3.13 python3.12 python3.11}; do
        python=$(command -v "$python") || continue
        if [[ $python != "$venv"/* ]] && new_enough "$python" && "$1" "$python"; then
            echo "$python"
            return
        fi
    done
    return 1
}

# torch of a Python that is too old for portkit is a trap on a GPU host: name it.
old_python_with_torch() {
    local python
    for python in ${PYTHON:-python3 python}; do
        if command -v "$python" >/dev/null && ! new_enough "$python" && has_torch "$python"; then
            command -v "$python"
            return
        fi
    done
    return 1
}

# PyPI's torch is the CUDA build: right on an NVIDIA host, wrong on an AMD one.
refuse_wrong_torch() {
    if [[ -e ${PORTKIT_KFD:-/dev/kfd} ]]; then
        fail "this host has an AMD GPU and no Python 3.11 or later here imports torch; PyPI's torch would not see the GPU" \
            "install a ROCm build of torch as $torch_page says, or use a container that has one, then run make again"
    fi
}

# --system-site-packages shows the packages of the base interpreter. Where torch is in
# a virtual environment, as some containers have it, a path file shows those of that.
share_packages() {
    local python=$1 options=()
    if "$python" - <<'PY'; then options=(--system-site-packages); fi
import pathlib, sys
config = pathlib.Path(sys.prefix, "pyvenv.cfg")
alone = config.is_file() and "include-system-site-packages = true" not in config.read_text()
sys.exit(alone)
PY
    "$python" -m venv "${options[@]}" "$venv"
    "$python" - "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" <<'PY'
import pathlib, sys, sysconfig
if sys.prefix != sys.base_prefix:
    paths = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    pathlib.Path(sys.argv[1], "portkit_parent.pth").write_text("\n".join(paths) + "\n")
PY
}

# Quiet as long as it works: what pip says of a conflict is all that helps then.
pip_install() {
    local said=$venv/pip.log
    "$venv/bin/python" -m pip install --progress-bar off --constraint "$1" "${@:2}" >"$said" 2>&1 && return
    tail -n 25 "$said" >&2
    fail "pip could not install portkit's environment" "mend what pip names above, or name another Python: make PYTHON=/path/to/python3"
}

# Names torch and Triton nowhere, so that pip can't lay another build over them. What
# portkit needs itself goes into the environment even where the interpreter has it:
# otherwise the tools would lack their commands there.
install_beside_torch() {
    local pins=$venv/constraints.txt
    grep -v -E '^(torch|triton|numpy)==' constraints.txt >"$pins"
    pip_install "$pins" --ignore-installed --editable '.[test,fleet,lint,report,browser,docs]'
    pip_install "$pins" --no-deps liger-kernel
    finds triton || pip_install constraints.txt --no-deps triton
    finds numpy || pip_install constraints.txt numpy
}

main() {
    if [[ -x $venv/bin/python ]] && "$venv/bin/python" -c 'import portkit' 2>/dev/null &&
        [[ "$(cat "$stamp" 2>/dev/null)" == "$(wanted)" ]]; then
        return
    fi
    local python
    if python=$(choose has_torch); then
        say "environment: $venv, on $python, which brings torch"
        rm -rf "$venv"
        share_packages "$python"
        install_beside_torch
    elif python=$(old_python_with_torch) && [[ -e ${PORTKIT_KFD:-/dev/kfd} || -e /dev/nvidiactl ]]; then
        fail "$python brings torch but is older than Python 3.11" "use a container whose Python is 3.11 or later"
    elif python=$(choose true); then
        refuse_wrong_torch
        say "environment: $venv, on $python; installs torch, which takes a while"
        rm -rf "$venv"
        "$python" -m venv "$venv"
        pip_install constraints.txt --editable '.[run,test,liger,fleet,lint,report,browser,docs]'
    else
        fail "no Python 3.11 or later found among: ${PYTHON:-python3 python python3.11 …}" "install one, or name it: make PYTHON=/path/to/python3"
    fi
    wanted >"$stamp"
}

main
