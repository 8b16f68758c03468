#!/usr/bin/env bash
# Boots this machine's systemd in namespaces and a cgroup of its own, over a copy of / that lives in memory, with journald
# and dbus and no other service. Nothing of it reaches the machine's own files, devices, network or processes.
#   systemd_boot.sh FOLDER GROUP     FOLDER: has given/, which comes to /srv, and laid_out, a program that runs with / as it will
#                                    be, before the boot, with the machine's network; GROUP: a new cgroup (v2)
# For tests/systemd_machine.py, which needs to know: the booted systemd is the only child of this script's process.
set -euo pipefail
folder=$1
root=$folder/root

case ${3:-} in
  '')
    echo $$ >"$2/cgroup.procs"
    exec unshare --mount --cgroup bash "$0" "$1" "$2" files
    ;;
  files)
    mount --make-rprivate /
    mkdir "$folder/layer" "$root"
    mount -t tmpfs -o mode=755 tmpfs "$folder/layer"
    mkdir "$folder/layer/upper" "$folder/layer/work"
    mount -t overlay -o "lowerdir=/,upperdir=$folder/layer/upper,workdir=$folder/layer/work" overlay "$root"
    mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$root/sys"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    for place in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs "$root/$place"; done
    chmod 1777 "$root/tmp"
    # One file system, as a disk is: over two layers a folder and its files are on different ones.
    mount -t tmpfs -o mode=755 tmpfs "$root/var/lib"
    mkdir "$root/dev/pts" "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    while read -r name major minor; do mknod -m 666 "$root/dev/$name" c "$major" "$minor"; done <<END
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
END
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    for number in 0 1 2; do ln -s "fd/$number" "$root/dev/$(cut -d' ' -f$((number + 1)) <<<'stdin stdout stderr')"; done
    # Whatever else this machine would start at boot stays out: some of it sets the kernel, the clock, devices.
    units=$root/lib/systemd/system
    rm -rf "$units"/*.wants "$root"/etc/systemd/system/*
    mkdir "$units/sockets.target.wants"
    for socket in systemd-journald systemd-journald-dev-log dbus; do
      ln -s "../$socket.socket" "$units/sockets.target.wants/"
    done
    for unit in systemd-logind.service systemd-remount-fs.service systemd-udevd.service systemd-sysctl.service tmp.mount; do
      ln -s /dev/null "$root/etc/systemd/system/$unit"
    done
    : >"$root/etc/fstab"
    : >"$root/etc/machine-id"
    cp -r "$folder/given/." "$root/srv"
    cp "$folder/laid_out" "$root/run/laid_out"
    mount -t proc proc "$root/proc"
    chroot "$root" /run/laid_out
    umount "$root/proc"
    exec unshare --pid --fork --uts --ipc --net --cgroup --kill-child bash "$0" "$1" "$2" boot
    ;;
  boot)
    mount -t proc proc "$root/proc"
    ip link set lo up
    hostname machine
    cd "$root"
    mkdir .machine
    pivot_root . .machine
    umount -l /.machine
    rmdir /.machine
    exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=console --unit=multi-user.target
    ;;
esac
