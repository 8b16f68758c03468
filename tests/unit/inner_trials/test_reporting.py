"""The reporting helper, with ARL's environment, with parts of it and without."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from inner_trials import contract, reporting


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("ARL_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def write_params(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **fields: object) -> None:
    path = tmp_path / "params.json"
    path.write_text(json.dumps(fields))
    monkeypatch.setenv(contract.PARAMS, str(path))


def reported(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_without_arl_every_call_works_and_writes_nothing_but_outputs(tmp_path: Path) -> None:
    reporting.report(1, loss=0.5)
    assert reporting.should_stop() is False
    assert reporting.params() == {}
    assert reporting.document() == {}
    assert reporting.seed(7) == 7
    assert reporting.resume_dir() is None
    assert list(tmp_path.iterdir()) == []
    assert reporting.output_dir() == Path("output")
    assert reporting.model_dir() == Path("output/model")


def test_a_report_is_one_line_a_metric(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    monkeypatch.setenv(contract.REPORTS, str(reports))
    reporting.report(3, {"train/loss": 0.5}, accuracy=1)
    reporting.report(4, loss=float("nan"))
    first, second, third = reported(reports)
    assert first == {"step": 3, "metric": "train/loss", "value": 0.5}
    assert second == {"step": 3, "metric": "accuracy", "value": 1.0}
    assert third["value"] != third["value"]


def test_a_batch_is_appended_in_a_single_write(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(contract.REPORTS, str(tmp_path / "reports"))
    writes: list[int] = []
    real_write = os.write

    def counting_write(descriptor: int, data: bytes) -> int:
        writes.append(len(data))
        return real_write(descriptor, data)

    monkeypatch.setattr(os, "write", counting_write)
    reporting.report(1, {f"metric_{index}": index for index in range(100)})
    assert len(writes) == 1
    assert len(reported(tmp_path / "reports")) == 100


def test_numpy_scalars_and_one_element_arrays_are_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reports = tmp_path / "reports"
    monkeypatch.setenv(contract.REPORTS, str(reports))
    reporting.report(np.int64(2), a=np.float32(0.5), b=np.array([3]))
    assert [line["value"] for line in reported(reports)] == [0.5, 3.0]
    assert reported(reports)[0]["step"] == 2


@pytest.mark.train
def test_torch_scalars_are_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    reports = tmp_path / "reports"
    monkeypatch.setenv(contract.REPORTS, str(reports))
    reporting.report(1, loss=torch.tensor(0.25, requires_grad=True))
    assert reported(reports)[0]["value"] == 0.25
    with pytest.raises(TypeError, match="loss"):
        reporting.report(1, loss=torch.zeros(2))


@pytest.mark.parametrize("value", ["0.5", None, [1.0], np.zeros(3)])
def test_what_is_not_one_number_is_refused_by_name(value: object) -> None:
    with pytest.raises(TypeError, match="loss"):
        reporting.report(1, {"loss": value})  # type: ignore[dict-item]  # that is the point


@pytest.mark.parametrize("name", ["", "a b", "/loss", "train//loss", "loss\n", "é", "x" * 201])
def test_metric_names_outside_the_rule_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="metric name"):
        reporting.report(1, {name: 1.0})


def test_should_stop_sees_the_file_appear(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    monkeypatch.setenv(contract.STOP, str(stop))
    assert not reporting.should_stop()
    stop.touch()
    assert reporting.should_stop()
    with pytest.raises(SystemExit) as left:
        reporting.stop_and_exit()
    assert left.value.code == contract.EXIT_STOPPED


def test_parameters_override_options_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_params(
        monkeypatch,
        tmp_path,
        options={"learning_rate": 0.1, "steps": 5},
        parameters={"learning_rate": 0.2},
        seed=11,
    )
    assert reporting.params() == {"learning_rate": 0.2, "steps": 5}
    assert reporting.seed() == 11


def test_an_input_is_found_by_name_and_a_missing_one_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "inputs" / "extra").mkdir(parents=True)
    write_params(monkeypatch, tmp_path, inputs={"train": "/data/train"})
    monkeypatch.setenv(contract.INPUTS, str(tmp_path / "inputs"))
    assert reporting.input_path("train") == Path("/data/train")
    assert reporting.input_path("extra") == tmp_path / "inputs" / "extra"
    with pytest.raises(reporting.MissingInput, match=r"'base'; there are: train"):
        reporting.input_path("base")


def test_the_latest_checkpoint_replaces_the_earlier_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(contract.OUTPUT, str(tmp_path / "out"))
    for content in ("one", "two"):

        def write(directory: Path, content: str = content) -> None:
            (directory / "sub").mkdir()
            (directory / "sub" / "state").write_text(content)

        reporting.save_checkpoint(write)
    (kept,) = (tmp_path / "out" / "resume").iterdir()
    assert kept.name == "checkpoint-2"
    assert (kept / "sub" / "state").read_text() == "two"


def test_a_write_that_fails_leaves_the_earlier_checkpoint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(contract.OUTPUT, str(tmp_path / "out"))
    reporting.save_checkpoint(lambda directory: (directory / "state").touch())

    def fail(directory: Path) -> None:
        (directory / "half").touch()
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        reporting.save_checkpoint(fail)
    write_params(monkeypatch, tmp_path, resume=str(tmp_path / "out" / "resume"))
    found = reporting.resume_dir()
    assert found is not None
    assert (found / "state").exists()
    assert not (found / "half").exists()


def test_checkpoints_of_a_resumed_attempt_count_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = tmp_path / "given"
    for number in (2, 10):
        (given / f"checkpoint-{number}").mkdir(parents=True)
    write_params(monkeypatch, tmp_path, resume=str(given))
    monkeypatch.setenv(contract.OUTPUT, str(tmp_path / "out"))
    assert reporting.resume_dir() == given / "checkpoint-10"
    assert reporting.save_checkpoint(lambda directory: None).name == "checkpoint-11"


def test_scores_go_to_the_score_channel_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setenv(contract.SCORE_FD, str(writing))
    reporting.write_scores({"exact_match": np.float64(0.5)}, items=[1, 0])
    with os.fdopen(reading, "rb") as channel:
        document = json.loads(channel.read())
    assert document == {"metrics": {"exact_match": 0.5}, "items": [1.0, 0.0]}


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_score_that_is_not_finite_is_never_written(score: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        reporting.write_scores({"exact_match": score})
