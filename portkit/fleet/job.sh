#!/usr/bin/env bash
# One job of a fleet on its host: locks, preflight, `pytest --benchmark`, and what became of it.
#
# job.env beside it says what to do. `outcome` says what became of it: a word and its value a line, and
# the last line of a word counts. What is printed goes to files, since ssh's backend reads no pipe before
# the end; and the exit code is 0 however the run went, since it fetches nothing from a job that failed.
# shellcheck disable=SC2154,SC2317
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
# shellcheck source=/dev/null
. ./job.env

child='' left=() session='' ancestors=' ' units=()

say() { printf '%s %s\n' "$1" "${2//$'\n'/ }" >>outcome; }

finish() { # cause, words
    say cause "$1"
    say why "$2"
    say end "$(date +%s)"
    exit 0
}

# The fields of /proc/PID/stat from the state on; the name before them may have spaces.
stat_fields() {
    local text
    { read -r -d '' text <"/proc/$1/stat"; } 2>/dev/null
    [[ -n ${text:-} ]] || return 1
    read -r -a fields <<<"${text##*) }"
}

start_time() { stat_fields "$1" && echo "${fields[19]}"; }

is_alive() { stat_fields "$1" && [[ ${fields[0]} != [ZX] ]]; }

note_ancestors() {
    local pid=$$
    stat_fields $$ && session=${fields[3]}
    while ((pid > 1)) && stat_fields "$pid"; do
        ancestors+="$pid "
        pid=${fields[1]}
    done
}

# Processes of this job that are left: of its session, or with its word in their environment.
find_left() {
    local entry pid marked=() of_session=()
    mapfile -t marked < <(grep -lzx "PORTKIT_FLEET_NONCE=$nonce" /proc/[0-9]*/environ 2>/dev/null)
    for entry in /proc/[0-9]*; do
        if stat_fields "${entry#/proc/}" && [[ ${fields[3]} == "$session" ]]; then of_session+=("$entry/"); fi
    done
    left=()
    for entry in "${marked[@]}" "${of_session[@]}"; do
        pid=${entry#/proc/}
        pid=${pid%%/*}
        if [[ $ancestors != *" $pid "* && " ${left[*]} " != *" $pid "* ]] && is_alive "$pid"; then left+=("$pid"); fi
    done
}

# Ends what is left of the job. What survives SIGKILL hangs in the kernel, most likely in the GPU's
# driver, and whatever ran on that GPU next would hang or be disturbed: it gets a mark.
clear_or_quarantine() {
    find_left
    ((${#left[@]})) || return 0
    kill -KILL "${left[@]}" 2>/dev/null
    local second
    for ((second = 0; second < die_within; second++)); do
        find_left
        ((${#left[@]})) || return 0
        sleep 1
    done
    local name unit
    name=$(tr '\0\n' '  ' <"/proc/${left[0]}/cmdline" 2>/dev/null)
    name=${name% }
    for unit in "${units[@]}"; do
        printf '%s %s %s %s\n' "$(cat /proc/sys/kernel/random/boot_id)" "${left[0]}" "$(start_time "${left[0]}")" \
            "${name:0:60}" >"$state/$unit.quarantine"
    done
    finish survivor "process ${left[0]} (${name:0:60}) survived SIGKILL: ${units[*]} in quarantine until it is gone"
}

# A mark holds until its process is gone or the host was booted anew.
refuse_quarantined() {
    local unit boot pid started name
    for unit in "${units[@]}"; do
        [[ -e $state/$unit.quarantine ]] || continue
        read -r boot pid started name <"$state/$unit.quarantine"
        if [[ $boot == "$(cat /proc/sys/kernel/random/boot_id)" ]] && is_alive "$pid" &&
            [[ $(start_time "$pid") == "$started" ]]; then
            finish quarantined "$unit is in quarantine: process $pid ($name) survived SIGKILL and is still there"
        fi
        rm -f "$state/$unit.quarantine"
    done
}

# One lock a GPU, held to the end of this process.
lock_units() {
    local unit file
    for unit in "${units[@]}"; do
        file=$state/$unit.lock
        [[ -e $file ]] || : >"$file" 2>/dev/null
        exec {lock}<"$file" || finish failed "no lock can be made at $file"
        flock -w "$lock_seconds" "$lock" || finish locked "$unit is locked by another job (waited $lock_seconds s)"
    done
}

# GPUs by number: those that the place names, else those that Slurm gave.
name_units() {
    local index given=("${devices[@]}") node=${SLURMD_NODENAME:+$SLURMD_NODENAME-}
    if ((!${#given[@]})); then IFS=, read -r -a given <<<"${SLURM_JOB_GPUS:-}"; fi
    for index in "${given[@]}"; do units+=("${node}gpu-$index"); done
    ((${#units[@]})) || units=("${node}cpu")
}

# A command within a time, killed if SIGTERM does not end it; its exit code is in `code`.
within() { # seconds, file of its output, command
    timeout --kill-after="$kill_after" "$1" "${@:3}" >"$2" 2>&1 &
    child=$!
    wait "$child"
    code=$?
    child=''
}

on_signal() {
    if [[ -n $child ]]; then
        kill -TERM "$child" 2>/dev/null
        wait "$child"
    fi
    clear_or_quarantine
    finish cancelled "was told to stop by $1"
}

last_words() { grep -v '^[[:space:]]*$' "$1" | tail -n "${2:-1}" | cut -c -300 | tr '\n' ' '; }

preflight() {
    say stage preflight
    within "$preflight_seconds" preflight.out "${container[@]}" "$python" -m portkit.fleet.preflight "${expected[@]}"
    clear_or_quarantine
    case $code in
        0) ;;
        3) finish absent "$(last_words preflight.out)" ;;
        124 | 137) finish no_answer "the host's GPUs gave no answer within $preflight_seconds s" ;;
        *)
            local words
            words=$(last_words preflight.out)
            [[ $words == *"No module named 'portkit'"* ]] && words+="; name the place's interpreter: \`python:\` in the fleet file"
            finish failed "preflight ended with code $code: $words"
            ;;
    esac
}

benchmark() {
    say stage run
    local began=$SECONDS
    within "$job_seconds" pytest.out "${container[@]}" "$python" -m pytest "${arguments[@]}"
    say code "$code"
    clear_or_quarantine
    if ((SECONDS - began >= job_seconds && code != 0)); then
        finish timeout "pytest did not end within $job_seconds s and was ended (code $code)"
    fi
    local told
    told="pytest ended with code $code: $(last_words pytest.out 3)"
    case $code in
        0 | 1) if compgen -G 'report/*.jsonl' >/dev/null; then finish "done" ""; else finish no_report "$told"; fi ;;
        *) finish failed "$told" ;;
    esac
}

main() {
    say nonce "$nonce"
    say pid $$
    say started "$(date +%s)"
    say node "${SLURMD_NODENAME:-}"
    say job "${SLURM_JOB_ID:-}"
    say stage locks
    trap 'on_signal SIGTERM' TERM
    trap 'on_signal SIGINT' INT
    trap 'on_signal SIGHUP' HUP
    mkdir report || finish stale "a folder of reports was there before the job"
    state=${PORTKIT_FLEET_STATE:-/tmp/portkit-fleet}
    # shellcheck disable=SC2174
    mkdir -p -m 1777 "$state"
    if [[ -z ${SLURM_JOB_ID:-} ]]; then ln -sfn "$PWD" "/tmp/portkit-fleet-$nonce"; fi # the driver's way to it
    note_ancestors
    name_units
    say units "${units[*]}"
    refuse_quarantined
    if ((locked)); then lock_units; fi
    if [[ -e setup.sh ]]; then
        # shellcheck source=/dev/null
        . ./setup.sh >setup.out 2>&1
    fi
    export PORTKIT_FLEET_NONCE=$nonce
    preflight
    benchmark
}

main
