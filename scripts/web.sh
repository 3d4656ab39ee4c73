#!/usr/bin/env bash
# The front end's one door: install | build | check | test | types | format. Called by `make`.
set -euo pipefail
cd "$(dirname "$0")/../web"
stamp=node_modules/.elastune-lock

install() {
  if ! cmp -s package-lock.json "$stamp"; then
    echo "elastune: installing the page's packages" >&2
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2 || { echo "elastune: npm failed; run: (cd web && npm ci)" >&2; exit 1; }
    cp package-lock.json "$stamp"
  fi
}

case "${1:-}" in
  install) install ;;
  build)
    # Unchanged sources keep the page they made, so that the service isn't linked anew.
    sum=$(find . -path ./node_modules -prune -o -path ./dist -prune -o -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)
    [ "$(cat dist/.sources 2>/dev/null)" = "$sum" ] && exit 0
    npm run --silent build
    echo "$sum" > dist/.sources
    ;;
  check) npm run --silent check ;;
  test) npm run --silent test ;;
  types) npm run --silent types ;;
  format) npm run --silent format ;;
  *) echo "usage: scripts/web.sh install|build|check|test|types|format" >&2; exit 2 ;;
esac
