#!/usr/bin/env bash
# Starts a private Docker engine in a network namespace of its own, runs a command with DOCKER_HOST set, and stops the
# engine again with all its containers, also when this script is killed. Needs root and dockerd; touches no engine,
# bridge or firewall of the machine.
#   scripts/docker_engine.sh COMMAND [ARGUMENT …]
#   ARL_ENGINE_DIR=DIR    keep the engine's files there, in a directory that is new or empty; deleted at the end
# The command finds ARL_ENGINE_DIR and ARL_ENGINE_NAMESPACE. Exit status 77: no engine can be had here.
set -euo pipefail

[ $# -gt 0 ] || { echo "usage: $0 COMMAND [ARGUMENT …]" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "$0: a private engine needs root" >&2; exit 77; }
for tool in dockerd docker containerd runc; do
  command -v "$tool" >/dev/null || { echo "$0: $tool is not installed: apt-get install docker.io" >&2; exit 77; }
done
for tool in ip iptables; do
  command -v "$tool" >/dev/null || { echo "$0: $tool is not installed: apt-get install iproute2 iptables" >&2; exit 77; }
done

if [ -n "${ARL_ENGINE_DIR:-}" ]; then
  dir=$ARL_ENGINE_DIR
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd -P)
  [ -z "$(ls -A "$dir")" ] || { echo "$0: ARL_ENGINE_DIR=$dir is not empty" >&2; exit 2; }
else
  dir=$(mktemp -d "${TMPDIR:-/tmp}/arl-engine.XXXXXX")
fi
# A socket's path has room for 107 bytes, and containerd puts its own below this.
[ ${#dir} -le 60 ] || { echo "$0: $dir is too long a path for sockets: set ARL_ENGINE_DIR or TMPDIR" >&2; exit 2; }
group=arl-engine-$$
namespace=$group
export DOCKER_HOST=unix://$dir/docker.sock
export ARL_ENGINE_DIR=$dir ARL_ENGINE_NAMESPACE=$namespace

# The engine refuses /dev/null as its configuration, and would read the machine's without one.
echo '{}' >"$dir/daemon.json"

# Only the network is the namespace's: with `ip netns exec` /sys would be mounted anew, without the cgroups.
start_engine() {
  ip netns add "$namespace"
  ip netns exec "$namespace" ip link set lo up
  setsid nsenter --net="/run/netns/$namespace" dockerd --config-file "$dir/daemon.json" --host "$DOCKER_HOST" \
    --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/dockerd.pid" --storage-driver overlay2 \
    --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent "/$group" --live-restore --log-level warn \
    </dev/null >>"$dir/dockerd.log" 2>&1 &
  local starting=$!
  disown
  for _ in $(seq 600); do
    if docker info >/dev/null 2>&1; then return; fi
    kill -0 "$starting" 2>/dev/null || break
    sleep 0.1
  done
  echo "$0: the engine did not start; the end of its log:" >&2
  return 1
}

# Pids whose command line names this engine's directory: the daemon, its containerd, the containers' shims.
engine_pids() {
  local found
  for found in /proc/[0-9]*; do
    if { tr '\0' '\n' <"$found/cmdline"; } 2>/dev/null | grep -q -F -- "$dir/" \
      && [[ $(readlink "$found/exe" 2>/dev/null) =~ /(dockerd|containerd[a-z0-9-]*|docker-proxy)( \(deleted\))?$ ]]; then
      echo "${found#/proc/}"
    fi
  done
}

kill_group() {
  local place group_procs
  for place in /sys/fs/cgroup /sys/fs/cgroup/*; do
    [ -d "$place/$group" ] || continue
    find "$place/$group" -name cgroup.procs 2>/dev/null | while read -r group_procs; do
      { xargs -r kill -9 <"$group_procs"; } 2>/dev/null || true
    done
  done
}

remove_group() {
  local place
  for place in /sys/fs/cgroup /sys/fs/cgroup/*; do
    [ -d "$place/$group" ] || continue
    find "$place/$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
  done
}

# Without the engine's help, since it may be dead, frozen or half started; it may be asked twice.
stop_engine() {
  local pid
  kill_group
  pid=$(cat "$dir/dockerd.pid" 2>/dev/null || true)
  if [ -n "$pid" ] && [[ $(readlink "/proc/$pid/exe" 2>/dev/null) == */dockerd* ]]; then
    kill -CONT "$pid" 2>/dev/null || true
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
  fi
  for _ in $(seq 50); do
    kill_group
    pid=$(engine_pids)
    [ -n "$pid" ] || break
    xargs -r kill -9 <<<"$pid" 2>/dev/null || true
    sleep 0.1
  done
  ip netns del "$namespace" 2>/dev/null || true
  for _ in 1 2 3; do
    grep -F " $dir/" /proc/self/mounts | cut -d' ' -f2 | sort -r | xargs -r -n1 umount -l 2>/dev/null || true
  done
  remove_group
  rm -rf "$dir"
}

finish() {
  local code=$?
  trap '' INT TERM HUP
  if [ "$code" != 0 ]; then
    # Of an engine that did start only what it calls an error: it warns of much that is no matter.
    grep -s -E "${started:+level=(error|fatal|panic)|^panic}" "$dir/dockerd.log" | tail -n 20 | cut -c1-400 >&2 || true
  fi
  stop_engine
  exit "$code"
}

# A script that is killed cannot clean up: a process of its own session waits for that and does it.
mourn() {
  setsid bash -c "$(declare -f engine_pids kill_group remove_group stop_engine)
    dir='$dir' group='$group' namespace='$namespace'
    tail --pid=$$ -f /dev/null
    [ ! -e '$dir' ] || stop_engine" </dev/null >/dev/null 2>&1 &
}

started=''
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
mourn
start_engine
started=yes
"$@"
