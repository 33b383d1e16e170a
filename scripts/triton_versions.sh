#!/usr/bin/env bash
# Runs the tests on several Triton releases: triton_versions.sh VENV [version …]
#
# Each release gets an environment of its own beside VENV, which lends it all other
# packages, torch included. Results go to build/triton-versions, and the table of
# docs/triton-versions.md is made anew from them. ARGS="…" goes to pytest.
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1
venv=$(realpath "${1:?usage: triton_versions.sh VENV [version …]}")
shift
(($#)) || set -- 3.5.1 3.6.0 3.7.1 3.8.0 3.9.0
results=build/triton-versions
suites=(tests/pure tests/refused tests/records tests/interpreted tests/compiled tests/diverging)
mkdir -p "$results"

# An environment whose own Triton comes before the lender's.
environment() {
    local version=$1 folder=$2 packages
    "$folder/bin/python" -c "import triton; raise SystemExit(triton.__version__ != '$version')" 2>/dev/null && return
    rm -rf "$folder"
    "$venv/bin/python" -m venv --without-pip "$folder" || return
    packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    "$venv/bin/python" -c 'import sysconfig; print("import site; site.addsitedir({!r})".format(sysconfig.get_path("purelib")))' \
        >"$packages/portkit_lender.pth"
    "$venv/bin/python" -m pip --python "$folder/bin/python" install --quiet --no-deps "triton==$version"
}

failed=()
for version; do
    folder=$venv-triton-$version
    echo "Triton $version"
    if ! environment "$version" "$folder"; then
        failed+=("$version")
        continue
    fi
    # shellcheck disable=SC2086  # ARGS is several words on purpose
    "$folder/bin/python" -m pytest "${suites[@]}" --junitxml="$results/$version.xml" \
        -o junit_family=xunit1 ${ARGS:-} || failed+=("$version")
done
"$venv/bin/python" scripts/triton_table.py "$results" docs/triton-versions.md || failed+=(table)
if ((${#failed[@]})); then
    echo "failed: ${failed[*]}" >&2
    exit 1
fi
