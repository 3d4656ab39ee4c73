#!/bin/sh
# Checks every query of the service against a throw-away Postgres with the newest schema and rewrites service/.sqlx, from which
# builds without a database are checked. Run it after a change of a query or a migration. With `--keep`, only adds.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
mkfifo "$work/stdin"
"$root/scripts/pg.sh" <"$work/stdin" >"$work/url" &
exec 9>"$work/stdin" # held open; the server ends with this script
trap 'exec 9>&-; wait; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
while [ ! -s "$work/url" ]; do
    kill -0 $! 2>/dev/null || exit 1
    sleep 0.05
done
url=$(cat "$work/url")
cat "$root"/migrations/[0-9]*.sql | psql --quiet --no-psqlrc --set ON_ERROR_STOP=1 --single-transaction "$url"

mkdir "$work/queries"
touch "$root/service/src/lib.rs" # the macros run only when the crate is compiled; the whole workspace, for the features that every other build has
(cd "$root" && DATABASE_URL=$url SQLX_OFFLINE=false SQLX_OFFLINE_DIR=$work/queries CARGO_INCREMENTAL=0 cargo check --offline --quiet --workspace --all-targets)
mkdir -p "$root/service/.sqlx"
[ "${1-}" = --keep ] || rm -f "$root"/service/.sqlx/query-*.json
cp "$work"/queries/query-*.json "$root/service/.sqlx/"
