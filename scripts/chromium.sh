#!/usr/bin/env bash
# Installs the Chromium that the tests of the HTML report open it in, where there is none and root may: chromium.sh
#
# Without one those tests are skipped, with this reason, and all others run.
set -uo pipefail

say() { printf '%s\n' "$*" >&2; }

for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && exit 0
done
if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
    say "no Chromium here, and no right to install one: the tests of the HTML report will be skipped"
    exit 0
fi
say "installs chromium, for the tests of the HTML report"
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update && apt-get install --yes --no-install-recommends chromium; } >/dev/null; then
    say "chromium could not be installed: the tests of the HTML report will be skipped"
fi
exit 0
