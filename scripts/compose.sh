#!/usr/bin/env bash
# Asks docker compose, where there is one, whether docker-compose.yml is in order; needs no engine. Called by `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
for compose in "docker compose" docker-compose; do
  # Version 1 does not know today's format.
  case "$($compose version --short 2>/dev/null || true)" in
    '' | 1.* | v1.*) ;;
    *)
      $compose config --quiet
      echo "elastune: $compose finds docker-compose.yml in order" >&2
      exit 0
      ;;
  esac
done
echo "elastune: SKIPPED asking docker compose about docker-compose.yml: version 2 is not installed here" >&2
