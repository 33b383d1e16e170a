#!/usr/bin/env bash
# Installs the Slurm, its accounting and the sshd that tests of fleets start, where there are none and root may: slurm.sh
#
# Without them those tests are skipped, with this reason, and all others run.
set -uo pipefail

say() { printf '%s\n' "$*" >&2; }

PATH=$PATH:/usr/sbin:/sbin
needed() { # package, its programs
    local program
    for program in "${@:2}"; do
        command -v "$program" >/dev/null || { missing+=("$1") && return; }
    done
}

missing=()
needed slurm-wlm slurmctld slurmd
needed munge munged
needed openssh-server sshd
needed slurmdbd slurmdbd
needed mariadb-server-core mariadbd mariadb-install-db # without the service that mariadb-server starts
needed mariadb-client-core my_print_defaults
((${#missing[@]})) || exit 0
if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
    say "no ${missing[*]} here, and no right to install it: tests of fleets will be skipped"
    exit 0
fi
say "installs ${missing[*]}, for the tests of fleets"
export DEBIAN_FRONTEND=noninteractive
install() { timeout 300 apt-get install --yes --no-install-recommends "$@" >/dev/null 2>&1; }
each() { # one by one: a system without the database still has a Slurm
    local package failed=()
    for package in "${missing[@]}"; do install "$package" || failed+=("$package"); done
    ((${#failed[@]} == 0)) || say "${failed[*]} could not be installed: tests of fleets that need it will be skipped"
}
install "${missing[@]}" || { timeout 120 apt-get update >/dev/null && install "${missing[@]}"; } || each
exit 0
