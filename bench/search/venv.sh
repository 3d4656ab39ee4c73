#!/usr/bin/env bash
# A virtual environment with the peer (Optuna) and the functions (COCO) of `make bench-search`, in the cache folder; prints its
# path. Optuna's GP asks for greenlet to be fast. PyTorch, which Optuna's GP needs, is that of `bench/torchrun/venv.sh`.
set -euo pipefail
cd "$(dirname "$0")"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/elastune"
venv="$cache/bench-venv-search"
if [ ! -e "$venv/.complete" ]; then
  torch="$(../torchrun/venv.sh)"
  echo "elastune: making a virtual environment with Optuna (about 300 MB, once)" >&2
  rm -rf "$venv"
  python3 -m venv "$venv" >&2 || { echo "elastune: python3-venv is missing; run: apt-get install python3-venv" >&2; exit 1; }
  "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary=:all: \
    'optuna==5.0.0' 'greenlet==3.5.*' 'cmaes==0.13.1' 'scipy==1.17.*' 'coco-experiment==2.8.2' >&2 \
    || { rm -rf "$venv"; echo "elastune: Optuna could not be fetched; run: $PWD/venv.sh" >&2; exit 1; }
  site() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])'; }
  site "$torch" > "$(site "$venv")/torch.pth"
  "$venv/bin/python" -c 'import optuna, cmaes, cocoex, scipy, torch' >&2
  touch "$venv/.complete"
fi
echo "$venv"
