#!/usr/bin/env bash
# Installs the Slurm and the sshd that tests of fleets start, where there are none and root may: slurm.sh
#
# Without them those tests are skipped, with this reason, and all others run.
set -uo pipefail

say() { printf '%s\n' "$*" >&2; }

PATH=$PATH:/usr/sbin:/sbin
missing=()
command -v slurmctld >/dev/null && command -v slurmd >/dev/null || missing+=(slurm-wlm)
command -v munged >/dev/null || missing+=(munge)
command -v sshd >/dev/null || missing+=(openssh-server)
((${#missing[@]})) || exit 0
if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
    say "no ${missing[*]} here, and no right to install it: tests of fleets will be skipped"
    exit 0
fi
say "installs ${missing[*]}, for the tests of fleets"
export DEBIAN_FRONTEND=noninteractive
install() { timeout 300 apt-get install --yes --no-install-recommends "${missing[@]}" >/dev/null 2>&1; }
if ! { install || { timeout 120 apt-get update >/dev/null && install; }; }; then
    say "${missing[*]} could not be installed: tests of fleets will be skipped"
fi
exit 0
