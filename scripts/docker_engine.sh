#!/usr/bin/env bash
# Starts a private Docker engine in a network namespace of its own, runs a command with DOCKER_HOST set, and stops the
# engine again with all its containers. Needs root and dockerd; touches no engine, bridge or firewall of the machine.
#   scripts/docker_engine.sh COMMAND [ARGUMENT …]
#   ARL_ENGINE_DIR=DIR    keep the engine's files there instead of in a temporary folder
set -euo pipefail

[ $# -gt 0 ] || { echo "usage: $0 COMMAND [ARGUMENT …]" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "$0: an engine needs root" >&2; exit 77; }
command -v dockerd >/dev/null || { echo "$0: dockerd is not installed: apt-get install docker.io" >&2; exit 77; }

dir=${ARL_ENGINE_DIR:-$(mktemp -d "${TMPDIR:-/tmp}/arl-engine.XXXXXX")}
mkdir -p "$dir"
namespace=arl-engine-$$
export DOCKER_HOST=unix://$dir/docker.sock
export ARL_ENGINE_DIR=$dir ARL_ENGINE_NAMESPACE=$namespace

# The engine refuses /dev/null as its configuration, and would read the machine's without one.
echo '{}' >"$dir/daemon.json"
ip netns add "$namespace"
ip netns exec "$namespace" ip link set lo up

# Only the network is the namespace's: with `ip netns exec` /sys would be mounted anew, without the cgroups.
start_engine() {
  setsid nsenter --net="/run/netns/$namespace" dockerd --config-file "$dir/daemon.json" --host "$DOCKER_HOST" \
    --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/dockerd.pid" --storage-driver overlay2 \
    --exec-opt native.cgroupdriver=cgroupfs --live-restore --log-level warn \
    </dev/null >>"$dir/dockerd.log" 2>&1 &
  for _ in $(seq 300); do
    if docker info >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  tail -n 5 "$dir/dockerd.log" >&2
  return 1
}

stop_engine() {
  docker ps -aq 2>/dev/null | xargs -r docker rm -f >/dev/null 2>&1 || true
  local pid
  pid=$(cat "$dir/dockerd.pid" 2>/dev/null || true)
  if [ -n "$pid" ]; then
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true
  fi
  # containerd is the engine's child and outlives it when the engine was killed.
  pkill -9 -f "$dir/exec/containerd" 2>/dev/null || true
  ip netns del "$namespace" 2>/dev/null || true
  grep -F " $dir/" /proc/self/mounts | cut -d' ' -f2 | sort -r | xargs -r -n1 umount -l 2>/dev/null || true
  rm -rf "$dir"
}

trap stop_engine EXIT
start_engine
"$@"
