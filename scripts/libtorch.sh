#!/usr/bin/env bash
# Puts the CPU build of libtorch 2.11.0 into the cache folder: headers and the few libraries of the PyPI wheel that need no CUDA. Called by `make setup`; prints the folder.
set -euo pipefail
version=2.11.0
cache="${XDG_CACHE_HOME:-$HOME/.cache}/elastune"
target="$cache/libtorch-$version-cpu"
if [ ! -e "$target/.complete" ]; then
  wheels="$cache/wheels-$version"
  mkdir -p "$wheels"
  echo "elastune: fetching libtorch $version (about 800 MB, once)" >&2
  python3 -m pip download --quiet --disable-pip-version-check --only-binary=:all: --no-deps --dest "$wheels" \
    "torch==$version" 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cupti==13.0.*' >&2 \
    || { echo "elastune: libtorch could not be fetched; run: python3 -m pip download --no-deps torch==$version" >&2; exit 1; }
  rm -rf "$target.part"
  mkdir -p "$target.part/lib"
  python3 - "$wheels" "$target.part" <<'PY'
import pathlib, shutil, sys, zipfile
wheels, target = map(pathlib.Path, sys.argv[1:])
torch_libraries = {"libtorch_cpu.so", "libc10.so", "libtorch.so"}
for wheel in wheels.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            path = pathlib.PurePosixPath(name)
            if name.startswith("torch/include/") and not name.endswith("/"):
                out = target / "include" / path.relative_to("torch/include")
            elif name.startswith("torch/lib/") and (path.name in torch_libraries or path.name.startswith("libgomp")):
                out = target / "lib" / path.name
            elif path.name.startswith(("libcudart.so", "libcupti.so")):
                out = target / "lib" / path.name
            else:
                continue
            out.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as source, out.open("wb") as sink:
                shutil.copyfileobj(source, sink)
PY
  rm -rf "$target"
  mv "$target.part" "$target"
  touch "$target/.complete"
  rm -rf "$wheels"
fi
echo "$target"
