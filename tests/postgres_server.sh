#!/usr/bin/env bash
# Runs a command beside a PostgreSQL server that lives as long as it: tests/postgres_server.sh make fast
set -euo pipefail

find_initdb() {
  command -v initdb || ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -V | tail -n 1 || true
}

initdb=$(find_initdb)
if [ -z "$initdb" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get -qq update && apt-get -qq install -y --no-install-recommends postgresql >/dev/null
  initdb=$(find_initdb)
fi
if [ -z "$initdb" ]; then
  echo "error: there is no PostgreSQL here; put its initdb and pg_ctl on the PATH" >&2
  exit 1
fi
bin=$(dirname "$initdb")

folder=$(mktemp -d)
if [ "$(id -u)" = 0 ]; then
  # PostgreSQL refuses to run as root.
  user=$(id -un postgres 2>/dev/null || echo nobody)
  chown "$user" "$folder"
  server() { (cd "$folder" && runuser -u "$user" -- "$@"); }
else
  server() { (cd "$folder" && "$@"); }
fi

stop() {
  server "$bin/pg_ctl" -D data -m immediate -w stop >/dev/null 2>&1 || true
  rm -rf "$folder"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

server "$bin/initdb" -D data -U stepward -A trust -E UTF8 --locale=C --no-sync >/dev/null
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
# Connections are cut in tests, and processes killed; no power is, so that nothing has to wait for the disk.
server "$bin/pg_ctl" -D data -l log -w start >/dev/null \
  -o "-c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories=$folder -c max_connections=200 -c fsync=off" ||
  { cat "$folder/log" >&2; exit 1; }

STEPWARD_TEST_POSTGRES="host=127.0.0.1 port=$port user=stepward dbname=postgres" "$@"
