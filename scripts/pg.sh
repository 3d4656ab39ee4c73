#!/bin/sh
# A throw-away Postgres cluster for tests and tools: prints the URL of its `postgres` database (a Unix socket), runs until
# its standard input closes, and leaves nothing behind. Not durable: fsync is off. PG_BIN names the server's programs.
set -eu
cd /
bin=${PG_BIN:-$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)}
if [ ! -x "$bin/initdb" ]; then
    echo "pg.sh: no Postgres server found: apt-get install postgresql-15, or set PG_BIN to the folder of initdb" >&2
    exit 1
fi
version=$("$bin/postgres" --version | tr -dc '0-9.')

# The server refuses root, and nobody cannot enter root's home.
if [ "$(id -u)" = 0 ]; then
    as='setpriv --reuid=nobody --regid=nogroup --clear-groups'
    cache=/var/lib/elastune
else
    as=
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/elastune
fi
own() { [ -z "$as" ] || chown nobody:nogroup "$1"; }

template=$cache/pg-template-$version
if [ ! -d "$template" ]; then
    mkdir -p "$cache"
    new=$(mktemp -d "$cache/pg-new.XXXXXX")
    own "$new"
    $as env LC_ALL=C "$bin/initdb" -D "$new/data" -U elastune -A trust --no-sync --no-instructions -E UTF8 --locale=C >/dev/null
    mv -T "$new/data" "$template" 2>/dev/null || true # someone else was quicker
    rm -rf "$new"
fi

dir=$(mktemp -d /tmp/elastune-pg.XXXXXX)
trap '$as "$bin/pg_ctl" -D "$dir/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
own "$dir"
cp -a "$template" "$dir/data"
if ! $as "$bin/pg_ctl" -D "$dir/data" -l "$dir/log" -w -t 60 \
    -o "-k $dir -F -c listen_addresses= -c synchronous_commit=off -c full_page_writes=off -c max_connections=200" start >/dev/null; then
    cat "$dir/log" >&2
    exit 1
fi
echo "postgres://elastune@localhost/postgres?host=$dir"
cat >/dev/null
