#!/usr/bin/env bash
# Puts the programs that `make build` left, and libtorch, where deploy/Dockerfile's stage `prebuilt` takes them from. Called by `make images`.
set -euo pipefail
cd "$(dirname "$0")/.."
to=deploy/prebuilt
rm -rf "$to"
mkdir -p "$to/bin" "$to/lib"
for program in elastune elastune-service trial-agent trial-worker; do
  cp "$CARGO_TARGET_DIR/debug/$program" "$to/bin/"
done
cp "$LIBTORCH"/lib/*.so* "$to/lib/"
