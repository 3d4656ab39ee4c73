#!/usr/bin/env bash
# Installs what is missing for building, testing and the demo. Called by `make`; does nothing, and needs no network, once all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "elastune: $1" >&2; exit 1; }

missing=()
need() { eval "$1" >/dev/null 2>&1 || missing+=("$2"); }
need 'command -v g++' g++
need 'command -v setpriv' util-linux
need 'python3 -m pip --version' python3-pip
need 'ls /usr/lib/postgresql/*/bin/initdb || command -v initdb' postgresql
need 'test -e /usr/include/gloo/config.h' libgloo-dev
need 'test -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz' dataset-fashion-mnist
need 'command -v chromium' chromium
if [ ${#missing[@]} -gt 0 ]; then
  install="apt-get install -y --no-install-recommends ${missing[*]}"
  if [ "$(id -u)" -eq 0 ]; then sudo=(); elif sudo -n true 2>/dev/null; then sudo=(sudo); else fail "missing ${missing[*]}; run: sudo $install"; fi
  echo "elastune: installing ${missing[*]}" >&2
  log=$(mktemp)
  if ! { "${sudo[@]}" apt-get update -qq && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive $install; } >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    fail "could not install ${missing[*]}; run: sudo apt-get update && sudo $install"
  fi
  rm -f "$log"
fi

command -v cargo >/dev/null || fail "cargo is missing; install Rust 1.95 with rustup"
command -v node >/dev/null || fail "node is missing; install Node.js 20 with npm"
case "$(node --version)" in v2[0-9].*) ;; *) fail "Node.js 20 or newer is needed, this is $(node --version)" ;; esac

scripts/libtorch.sh >/dev/null
scripts/web.sh install
cargo fetch --locked --quiet --offline 2>/dev/null || cargo fetch --locked --quiet || fail "crates could not be fetched; run: cargo fetch --locked"
