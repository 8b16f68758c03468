"""The command line of the sandbox: what is asked of bubblewrap, and in which order."""

import itertools
from dataclasses import replace

from targets.bubblewrap_argv import OPTIONAL, Enclosure, bwrap_argv

ALL = frozenset(OPTIONAL)
PLAIN = Enclosure(
    argv=("/bin/sh", "-c", "exit 0"),
    cwd="/arl/work",
    environment={"PATH": "/usr/bin", "EMPTY": ""},
    links={"/bin": "usr/bin"},
    read_only={"/usr": "/usr", "/arl/inputs/data": "/store/trees/1"},
    writable={"/arl/work": "/root/attempts/a/work", "/tmp": "/root/attempts/a/tmp"},
    shared_memory_bytes=4096,
)


def pairs(argv: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    """The two arguments of every use of an option."""
    return [(argv[i + 1], argv[i + 2]) for i, part in enumerate(argv) if part == option]


def options(argv: tuple[str, ...]) -> tuple[str, ...]:
    return argv[: argv.index("--")]


def test_the_program_comes_last_and_cannot_be_taken_for_an_option() -> None:
    argv = bwrap_argv("/usr/bin/bwrap", replace(PLAIN, argv=("--bind", "/", "/")), has=ALL)
    assert argv[0] == "/usr/bin/bwrap"
    assert argv[argv.index("--") + 1 :] == ("--bind", "/", "/")


def test_every_namespace_is_its_own_and_the_user_is_nobody() -> None:
    argv = options(bwrap_argv("bwrap", PLAIN, has=ALL))
    for option in ("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"):
        assert option in argv
    assert {"--new-session", "--clearenv"} <= set(argv)
    assert argv[argv.index("--cap-drop") + 1] == "ALL"
    assert argv[argv.index("--uid") + 1] != "0"
    assert argv[argv.index("--gid") + 1] != "0"


def test_a_network_is_shared_only_with_what_made_one_for_the_program() -> None:
    assert "--share-net" not in bwrap_argv("bwrap", PLAIN, has=ALL)
    argv = bwrap_argv("bwrap", replace(PLAIN, enter=("enter", "socket")), has=ALL)
    assert argv[:3] == ("enter", "socket", "bwrap")
    assert "--share-net" in options(argv)


def test_the_environment_is_exactly_what_is_given() -> None:
    argv = bwrap_argv("bwrap", PLAIN, has=ALL)
    assert pairs(argv, "--setenv") == [("PATH", "/usr/bin"), ("EMPTY", "")]
    assert argv.index("--clearenv") < argv.index("--setenv")


def test_what_is_read_only_is_bound_so_and_only_the_attempts_own_is_writable() -> None:
    argv = bwrap_argv("bwrap", PLAIN, has=ALL)
    assert pairs(argv, "--ro-bind") == [("/store/trees/1", "/arl/inputs/data"), ("/usr", "/usr")]
    assert pairs(argv, "--bind") == [
        ("/root/attempts/a/work", "/arl/work"),
        ("/root/attempts/a/tmp", "/tmp"),
    ]


def test_an_outer_mount_comes_before_what_is_inside_it() -> None:
    nested = replace(
        PLAIN,
        read_only={"/a/b/c": "/1", "/a-b": "/2", "/tmp/venv": "/3"},
        writable={"/a/b": "/4", "/a": "/5", "/tmp": "/6"},
    )
    argv = bwrap_argv("bwrap", nested, has=ALL)
    order = [argv[i + 2] for i, part in enumerate(argv) if part in ("--bind", "--ro-bind")]
    assert order == ["/a", "/a/b", "/a/b/c", "/a-b", "/tmp", "/tmp/venv"]


def test_the_root_and_dev_are_closed_after_everything_is_mounted() -> None:
    argv = options(bwrap_argv("bwrap", PLAIN, has=ALL))
    last_mount = max(i for i, part in enumerate(argv) if part in ("--bind", "--ro-bind"))
    closed = [i for i, part in enumerate(argv) if part == "--remount-ro"]
    assert [argv[i + 1] for i in closed] == ["/dev", "/"]
    assert min(closed) > last_mount


def test_the_status_channel_is_there_only_where_someone_listens() -> None:
    assert "--json-status-fd" not in bwrap_argv("bwrap", PLAIN, has=ALL)
    argv = bwrap_argv("bwrap", replace(PLAIN, status_fd=6), has=ALL)
    assert argv[argv.index("--json-status-fd") + 1] == "6"


def test_options_an_older_bubblewrap_lacks_are_left_out() -> None:
    argv = bwrap_argv("bwrap", PLAIN, has=frozenset())
    assert not ALL & set(argv)
    assert ("--tmpfs", "/dev/shm") in list(itertools.pairwise(argv))
    sized = bwrap_argv("bwrap", PLAIN, has=ALL)
    assert sized[sized.index("--size") + 1 : sized.index("--size") + 4] == (
        "4096",
        "--tmpfs",
        "/dev/shm",
    )


def test_devices_are_passed_by_name() -> None:
    argv = bwrap_argv("bwrap", replace(PLAIN, devices=("/dev/nvidia0",)), has=ALL)
    assert pairs(argv, "--dev-bind-try") == [("/dev/nvidia0", "/dev/nvidia0")]
