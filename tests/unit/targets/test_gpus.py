"""Which device files belong to which GPU, read from a driver's tree of files."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ledger.errors import InvalidInput
from targets.gpus import device_files, find_gpus, pick_gpus, visible_devices

A = "GPU-11111111-2222-3333-4444-555555555555"
B = "GPU-11111111-9999-3333-4444-666666666666"
C = "GPU-77777777-2222-3333-4444-888888888888"
INFORMATION = """\
Model: \t\t NVIDIA H200
IRQ:   \t\t 214
GPU UUID: \t {uuid}
Video BIOS: \t 96.00.bc.00.04
Bus Type: \t PCIe
Bus Location: \t {place}
Device Minor: \t {minor}
GPU Excluded:\t No
"""
MACHINE = {"0000:41:00.0": (B, 0), "0000:07:00.0": (A, 3), "0000:c1:00.0": (C, 1)}


def driver(place: Path, machine: Mapping[str, tuple[str, int]] = MACHINE) -> str:
    """On a bus whose order is not that of the device files, as on many machines."""
    for bus, (uuid, minor) in machine.items():
        (place / "gpus" / bus).mkdir(parents=True)
        (place / "gpus" / bus / "information").write_text(
            INFORMATION.format(uuid=uuid, place=bus, minor=minor)
        )
    return str(place)


def test_gpus_are_counted_in_the_order_of_the_bus_and_keep_their_own_device_files(
    tmp_path: Path,
) -> None:
    gpus = find_gpus(driver(tmp_path))
    assert [(gpu.index, gpu.uuid, gpu.minor) for gpu in gpus] == [(0, A, 3), (1, B, 0), (2, C, 1)]


def test_only_the_files_of_the_granted_gpus_are_shown(tmp_path: Path) -> None:
    gpus = find_gpus(driver(tmp_path))
    shown = device_files(pick_gpus(["0", "2"], gpus), "/dev")
    assert {"/dev/nvidia3", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"} <= {*shown}
    assert "/dev/nvidia0" not in shown
    assert device_files(pick_gpus([], gpus)) == ()


def test_a_gpu_is_found_by_index_by_uuid_and_by_the_beginning_of_one(tmp_path: Path) -> None:
    gpus = find_gpus(driver(tmp_path))
    for name in ("1", B, "GPU-11111111-9"):
        assert pick_gpus([name], gpus) == [gpus[1]]


def test_cuda_is_told_uuids_since_indices_shift_where_others_are_hidden(tmp_path: Path) -> None:
    gpus = find_gpus(driver(tmp_path))
    assert visible_devices(pick_gpus(["2", "0"], gpus)) == f"{C},{A}"
    assert visible_devices([]) == ""


def test_a_card_that_nobody_asked_for_its_uuid_yet_is_counted_from_zero(tmp_path: Path) -> None:
    unknown = "GPU-????????-????-????-????-????????????"
    gpus = find_gpus(driver(tmp_path, {**MACHINE, "0000:c1:00.0": (unknown, 1)}))
    assert gpus[2].uuid is None
    assert visible_devices(pick_gpus(["2"], gpus)) == "0"
    assert visible_devices(pick_gpus(["1", "2"], gpus)) == "0,1"


@pytest.mark.parametrize("name", ["3", "GPU-", "GPU-1111", "", "all", "-1", "0,1", "MIG-1", "²"])
def test_an_id_that_names_no_gpu_is_refused_with_those_there_are(
    tmp_path: Path, name: str
) -> None:
    gpus = find_gpus(driver(tmp_path))
    with pytest.raises(InvalidInput, match=r"0 \(GPU-11111111-2222.*, 1 \(.*, 2 \(") as refusal:
        pick_gpus([name], gpus)
    assert repr(name) in str(refusal.value)


def test_the_same_gpu_is_not_granted_twice_under_two_names(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="named twice"):
        pick_gpus(["0", A], find_gpus(driver(tmp_path)))


def test_a_machine_without_a_driver_says_so(tmp_path: Path) -> None:
    assert find_gpus(str(tmp_path / "none")) == []
    with pytest.raises(InvalidInput, match=r"no NVIDIA GPU.*resources.gpus: 0"):
        pick_gpus(["0"], [])


def test_a_driver_file_that_says_nothing_is_no_gpu(tmp_path: Path) -> None:
    place = Path(driver(tmp_path))
    (place / "gpus" / "0000:07:00.0" / "information").write_bytes(b"\xff\xfe")
    (place / "gpus" / "0000:41:00.0" / "information").unlink()
    assert [gpu.index for gpu in find_gpus(str(place))] == [2]
