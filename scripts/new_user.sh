#!/usr/bin/env bash
# Tries the everyday commands as somebody who just installed the package: in an environment and a folder of their own.
#   scripts/new_user.sh [FOLDER]   FOLDER has torch and Triton already; without it they are downloaded with portkit[run]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

git -C "$root" archive HEAD | tar -x -C "$(mkdir -p "$place/source" && echo "$place/source")"
python3 -m venv "$place/env"
if [ $# -gt 0 ]; then
  "$place/env/bin/pip" install -q "$place/source" pytest
  echo "$1" > "$("$place/env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch-there.pth"
else
  "$place/env/bin/pip" install -q "$place/source[run]" pytest
fi

mkdir "$place/home" && cd "$place/home"
run() { echo "== portkit $*"; env -i PATH=/usr/bin:/bin HOME="$place/home" "$place/env/bin/portkit" "$@"; }

run init mine
run schema matrix -o schema.json
run check mine/kernels/bias_relu.py:bias_relu --arg 'x=bf16[4096,4096]' --arg 'bias=bf16[4096]' --findings 0
printf 'import torch\ndef build(): return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()).eval()\n' > model.py
run toggle model.py:build --input 'f32[8,64]' --modes '' --seconds 1
for report in "$root"/reports/*-h200-*; do kept+=("$report"); done
run savings -w llama3-8b-prefill,llama3-8b-decode "${kept[@]}" | head -20
run sweep "${kept[@]}" | head -20
echo "all everyday commands work in $("$place/env/bin/python" --version)"
