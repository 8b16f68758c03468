"""Makes the socket at which a program finds its proxy, hands it to the proxy, then gets out of
the way. Standard library only, and alone: containers mount this one file.

    egress_enter.py --new SOCKET PORT COMMAND...   in a new network with nothing but loopback
    egress_enter.py --stay SOCKET PORT             in this network; stays until it is ended

The listening socket belongs to the network it was made in, whoever accepts from it: so nothing
of ours runs beside the program, and there is nothing inside that it could take over.
"""

import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
import time

_NEW_USER = 0x10000000
_NEW_NETWORK = 0x40000000
_GET_FLAGS = 0x8913
_SET_FLAGS = 0x8914
_UP = 0x1
_PATIENCE_S = 30.0
_RETRY_S = 0.005
_BACKLOG = 128


def main() -> None:
    how, path, port, *command = sys.argv[1:]
    try:
        if how == "--new":
            make_network()
        bring_up_loopback()
        hand_over(path, listen(int(port)))
    except OSError as error:
        raise SystemExit(f"arl: no network for this attempt: {error}") from None
    if how == "--stay":
        os.write(1, b"ready\n")
        while True:
            signal.pause()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, nobody after it must
        signal.signal(number, signal.SIG_DFL)
    os.execv(command[0], command)


def make_network() -> None:
    """A network namespace of this process: root's own, else one in a user namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK) == 0:
        return
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_NEW_USER | _NEW_NETWORK) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        asked = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, _GET_FLAGS, asked))[1]
        if not flags & _UP:
            fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


def listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(_BACKLOG)
    return listener


def hand_over(path: str, listener: socket.socket) -> None:
    """Give the proxy at `path` the listening socket, and wait until it serves it."""
    with connect(path) as proxy, listener:
        socket.send_fds(proxy, [b"listener"], [listener.fileno()])
        proxy.settimeout(_PATIENCE_S)
        answer = proxy.recv(1024).decode("utf-8", "replace")
    if answer != "ready":
        raise OSError(answer or "its proxy died")


def connect(path: str) -> socket.socket:
    """To a socket whose path may be longer than the kernel takes, and which may be there soon."""
    directory, name = os.path.split(path)
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    until = time.monotonic() + _PATIENCE_S
    try:
        while True:
            proxy = socket.socket(socket.AF_UNIX)
            try:
                proxy.connect(f"/proc/self/fd/{descriptor}/{name}")
                return proxy
            except (FileNotFoundError, ConnectionRefusedError):
                proxy.close()
                if time.monotonic() > until:
                    raise
                time.sleep(_RETRY_S)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main()
