"""What the engine is asked for: every container is shut as tightly as another."""

import json

import pytest

from targets.docker_container.body import (
    Body,
    Marks,
    Shown,
    Terms,
    adapted,
    container_body,
    seccomp_profile,
)
from targets.protocol import Limits

MIB = 1024**2
PLAIN_ENGINE = {"NCPU": 4, "SecurityOptions": ["name=seccomp,profile=default"]}


def body(*, limits: Limits | None = None, **terms: object) -> Body:
    given = {"image": "arl-system:1", "user": (65532, 65532), "processes": 100, "open_files": 1024}
    shown = Shown(
        argv=("train", "--fast"),
        streams=("2>&1", "3>/arl/score"),
        cwd="/arl/work",
        environment={"HOME": "/arl/home"},
        read_only={"/usr": "/usr", "/arl/inputs/data": "/store/x", "/arl/signs": "/a/signs"},
        writable={"/arl/work": "/a/work"},
    )
    marks = Marks(owner="ledger", attempt="arl-01abc-3.train.1", root="r", fence="f")
    terms_given = Terms(**{**given, **terms})  # type: ignore[arg-type]
    return container_body(shown, marks, limits or Limits(timeout_s=1), terms_given)


def test_everything_that_hardens_is_there_whatever_is_asked() -> None:
    for made in (body(), body(runtime="runsc", limits=Limits(timeout_s=1, gpu_ids=("0",)))):
        host = made["HostConfig"]
        assert host["NetworkMode"] == "none"
        assert host["ReadonlyRootfs"] is True
        assert host["CapDrop"] == ["ALL"]
        assert "CapAdd" not in host
        assert host["SecurityOpt"] == [
            "no-new-privileges:true",
            f"seccomp={seccomp_profile()}",
        ]
        assert host["Init"] is True
        assert host["Privileged"] is False
        assert host["IpcMode"] == "private"
        assert host["PidsLimit"] == 100
        assert {"Name": "core", "Soft": 0, "Hard": 0} in host["Ulimits"]
        assert {"Name": "nofile", "Soft": 1024, "Hard": 1024} in host["Ulimits"]
        assert host["LogConfig"]["Config"]["max-file"] == "2"
        assert host["RestartPolicy"] == {"Name": "no"}
        assert made["User"] == "65532:65532"
        assert made["Healthcheck"] == {"Test": ["NONE"]}


def test_memory_is_limited_with_swap_included() -> None:
    host = body(limits=Limits(timeout_s=1, memory_bytes=64 * MIB))["HostConfig"]
    assert host["Memory"] == host["MemorySwap"] == 64 * MIB
    assert host["ShmSize"] == 64 * MIB
    assert f"size={64 * MIB}" in host["Tmpfs"]["/tmp"]
    assert "Memory" not in body()["HostConfig"]


def test_a_file_is_limited_where_directories_are() -> None:
    assert {"Name": "fsize", "Soft": 9, "Hard": 9} in body(longest_file=9)["HostConfig"]["Ulimits"]
    names = [limit["Name"] for limit in body()["HostConfig"]["Ulimits"]]
    assert "fsize" not in names


def test_only_what_is_asked_for_is_mounted_outer_places_first() -> None:
    mounts = body()["HostConfig"]["Mounts"]
    assert [(m["Target"], m["ReadOnly"]) for m in mounts] == [
        ("/arl/inputs/data", True),
        ("/arl/signs", True),
        ("/arl/work", False),
        ("/usr", True),
    ]
    assert {mount["Type"] for mount in mounts} == {"bind"}
    assert "Binds" not in body()["HostConfig"]


def test_the_program_takes_the_shells_place_with_its_own_descriptors() -> None:
    made = body()
    assert made["Entrypoint"] == ["/bin/sh", "-c", 'exec "$@" 2>&1 3>/arl/score', "arl-f"]
    assert made["Cmd"] == ["train", "--fast"]


def test_gpus_are_asked_for_by_id_and_a_runtime_by_name() -> None:
    limits = Limits(timeout_s=1, gpu_ids=("0", "GPU-7"))
    host = body(limits=limits, runtime="runsc")["HostConfig"]
    wanted = [{"DeviceIDs": ["0", "GPU-7"], "Capabilities": [["gpu"]]}]
    assert host["DeviceRequests"] == wanted
    assert host["Runtime"] == "runsc"
    assert "DeviceRequests" not in body()["HostConfig"]
    assert "Runtime" not in body()["HostConfig"]


def test_a_shared_network_is_that_of_one_container_and_no_host_name_is_given() -> None:
    made = body(network_of="arl-1.network")
    assert made["HostConfig"]["NetworkMode"] == "container:arl-1.network"
    assert "Hostname" not in made


def test_labels_say_whose_it_is() -> None:
    assert body()["Labels"] == {
        "arl.owner": "ledger",
        "arl.attempt": "arl-01abc-3.train.1",
        "arl.study": "01abc",
        "arl.root": "r",
        "arl.fence": "f",
    }


def test_no_more_processors_are_asked_for_than_there_are() -> None:
    made = adapted(body(limits=Limits(timeout_s=1, cpus=16.0)), PLAIN_ENGINE, ())
    assert made["HostConfig"]["NanoCpus"] == 4 * 10**9


def test_volumes_of_an_image_are_small_and_in_memory() -> None:
    tmpfs = adapted(body(), PLAIN_ENGINE, ("/data",))["HostConfig"]["Tmpfs"]
    assert set(tmpfs) == {"/tmp", "/data"}
    assert "size=" in tmpfs["/data"]


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        (["name=seccomp", "name=userns"], "UsernsMode", "host"),
        (["name=seccomp"], "UsernsMode", None),
        ([], "SecurityOpt", ["no-new-privileges:true"]),
    ],
)
def test_the_engine_is_asked_for_what_it_can_do(
    options: list[str], key: str, value: object
) -> None:
    made = adapted(body(), {"NCPU": 1, "SecurityOptions": options}, ())
    assert made["HostConfig"].get(key) == value


def test_in_a_rootless_engine_a_program_is_the_user_who_runs_it() -> None:
    options = ["name=seccomp", "name=rootless"]
    made = adapted(body(), {"NCPU": 1, "SecurityOptions": options, "CgroupVersion": "2"}, ())
    assert made["User"] == "0:0"
    assert made["HostConfig"]["CgroupnsMode"] == "private"


def test_the_system_calls_that_break_out_are_refused() -> None:
    profile = json.loads(seccomp_profile())
    refused = {
        name
        for rule in profile["syscalls"]
        if rule["action"] == "SCMP_ACT_ERRNO" and "args" not in rule
        for name in rule["names"]
    }
    assert {
        *("ptrace", "process_vm_readv", "process_vm_writev", "io_uring_setup", "io_uring_enter"),
        *("io_uring_register", "userfaultfd", "unshare", "setns", "mount", "umount2", "keyctl"),
        *("bpf", "perf_event_open", "kexec_load", "init_module", "clone3", "open_by_handle_at"),
    } <= refused
    flags = {
        rule["args"][0]["value"] for rule in profile["syscalls"] if rule["names"] == ["clone"]
    }
    assert {0x20000, 0x10000000, 0x20000000, 0x40000000} <= flags
