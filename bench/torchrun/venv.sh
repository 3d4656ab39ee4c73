#!/usr/bin/env bash
# A virtual environment with PyTorch 2.11.0 for `make bench-resize`, in the cache folder; prints its path. The wheel wants the
# CUDA libraries (gigabytes) before it imports at all. A CPU-only run calls none of them, so stubs take their place.
set -euo pipefail
cd "$(dirname "$0")"
version=2.11.0
cache="${XDG_CACHE_HOME:-$HOME/.cache}/elastune"
venv="$cache/bench-venv"
if [ ! -e "$venv/.complete" ]; then
  echo "elastune: making a virtual environment with torch $version (about 800 MB, once)" >&2
  rm -rf "$venv"
  python3 -m venv "$venv" >&2 || { echo "elastune: python3-venv is missing; run: apt-get install python3-venv" >&2; exit 1; }
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary=:all: "torch==$version" \
    'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cupti==13.0.*' typing_extensions sympy mpmath networkx jinja2 markupsafe fsspec filelock >&2 \
    || { rm -rf "$venv"; echo "elastune: torch could not be fetched; run: $PWD/venv.sh" >&2; exit 1; }
  ./stubs.py "$venv"
  "$venv/bin/python" -c 'import torch, torch.distributed as d; assert d.is_gloo_available() and not torch.cuda.is_available()' >&2
  touch "$venv/.complete"
fi
echo "$venv"
