"""Verbs that look at a ledger: each in words and in JSON, with bad input refused."""

import csv
import io
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_runs import Arl, arl_in


@pytest.fixture(scope="module")
def arl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arl]:
    """One finished study, with a promotion, that all tests here only look at."""
    with arl_in(tmp_path_factory.mktemp("looking") / "place") as made:
        made.ok("init", "example")
        place = Arl(made.place / "example")
        done = place.ok("run", "study.yaml", "--json")
        (place.place / "ended.json").write_text(done.out)
        yield place


def ended(arl: Arl) -> dict[str, object]:
    found: dict[str, object] = json.loads((arl.place / "ended.json").read_text())
    return found


def test_run_json_says_how_the_study_ended_and_nothing_else(arl: Arl) -> None:
    study = ended(arl)
    assert study["state"] == "completed"
    assert study["reason"] == "budget_trials"
    assert study["best"]["value"] < study["baseline"]["mean"]  # type: ignore[index]
    assert study["promotion"]["promoted"] is True  # type: ignore[index]
    low, high = study["promotion"]["ci95"]  # type: ignore[index]
    assert low < study["promotion"]["gain"] < high  # type: ignore[index]
    assert sum(study["counts"]["search"].values()) == 12  # type: ignore[index]


def test_every_time_is_iso_8601_in_utc_and_the_first_trial_starts_soon(arl: Arl) -> None:
    from datetime import datetime

    timings: dict[str, str] = ended(arl)["timings"]  # type: ignore[assignment]
    names = ("submitted_at", "first_attempt_started_at", "first_trial_started_at", "ended_at")
    times = [datetime.fromisoformat(timings[name]) for name in names]
    assert all(str(time.utcoffset()) == "0:00:00" for time in times)
    assert times == sorted(times)


def test_studies_are_listed(arl: Arl) -> None:
    listed = arl.ok("studies", "--json").json()["studies"]
    assert [(s["name"], s["state"]) for s in listed] == [("line", "completed")]
    assert ended(arl)["study"] in arl.ok("studies").out
    assert arl.ok("studies", "--state", "running", "--json").json()["studies"] == []


@pytest.mark.parametrize("name", ["last", "line", "the id", "a beginning of the id"])
def test_a_study_is_found_by_each_of_its_names(arl: Arl, name: str) -> None:
    study_id = str(ended(arl)["study"])
    names = {"the id": study_id, "a beginning of the id": study_id[:5]}
    assert arl.show(names.get(name, name))["study"] == study_id


def test_show_study_has_families_with_evidence_and_the_tail_of_trials(arl: Arl) -> None:
    study = arl.ok("show", "--trials", "4", "--json").json()
    assert [t["number"] for t in study["trials"]] == sorted(t["number"] for t in study["trials"])
    assert len(study["trials"]) == 4
    (family,) = study["families"]
    assert family["state"] == "promoted"
    assert family["evidence"]["p"] <= family["profile"]["alpha"]
    assert study["incumbents"][0]["candidate"] == study["promotion"]["candidate"]
    words = arl.ok("show").out
    assert "95 % interval" in words
    assert str(family["candidates"][0]) in words


def test_show_trial_has_params_attempts_scores_decision_and_log(arl: Arl) -> None:
    best = arl.show()["best"]
    trial = arl.show(f"last/{best['number']}")
    assert trial["params"] == best["params"]
    assert {a["kind"] for a in trial["attempts"]} == {"train", "evaluate"}
    assert trial["evaluations"][0]["scores"]["error"] == best["value"]
    assert trial["decision"]["verdict"] == "keep"
    assert trial["latest"] == [
        {"metric": "train/slope", "step": 3, "value": best["params"]["slope"]}
    ]
    assert any("slope" in tail for tail in trial["log_tails"].values())
    assert "decided: keep" in arl.ok("show", trial["id"]).out


def test_show_candidate_has_every_execution(arl: Arl) -> None:
    candidate = arl.show()["promotion"]["candidate"]
    found = arl.show(candidate)
    assert {t["kind"] for t in found["trials"]} == {"search", "replay"}
    assert candidate in arl.ok("show", candidate).out


def test_lineage_goes_from_the_study_to_the_promotion(arl: Arl) -> None:
    candidate = arl.show()["promotion"]["candidate"]
    nodes = arl.ok("lineage", candidate, "--json").json()["nodes"]
    assert (nodes[0]["kind"], nodes[-1]["kind"]) == ("study", "promotion")
    seen: set[str] = set()
    for node in nodes:
        assert set(node["came_from"]) <= seen
        seen.add(node["id"])
    assert arl.ok("lineage", candidate).out.count("evaluation") >= 3


def test_logs_of_all_attempts_or_one(arl: Arl) -> None:
    everything = arl.ok("logs", "last/6").out
    assert "==> " in everything
    assert "slope " in everything
    one = arl.ok("logs", "last/6", "--attempt", "0", "--json").json()["attempts"]
    assert len(one) == 1
    assert one[0]["log"].startswith("slope ")
    assert arl.run("logs", "last/6", "--attempt", "9").code == 3
    assert arl.ok("logs", "-f", "last/6").out == everything


def test_export_in_every_format(arl: Arl) -> None:
    rows = list(csv.DictReader(io.StringIO(arl.ok("export", "last").out)))
    assert len(rows) == arl.show()["counts"]["total"]
    exported = arl.ok("export", "last", "--format", "json").json()
    assert len(exported["trials"] if isinstance(exported, dict) else exported) == len(rows)
    told = arl.ok("export", "last", "--format", "parquet", "-o", "t.parquet", "--json").json()
    assert told["trials"] == len(rows)
    assert (arl.place / "t.parquet").read_bytes()[:4] == b"PAR1"
    assert arl.run("export", "last", "-o", "nowhere/t.csv").code == 2
    assert arl.run("export", "last", "--format", "xml").code == 2
    assert not list(arl.place.glob(".t.*"))


def test_reproduce_repeats_the_promoted_trial_to_the_bit_without_arl(arl: Arl) -> None:
    done = arl.ok("reproduce", "line", "repeat", "--run", "--json").json()
    assert done["result"]["outcome"] == "same_model"
    assert done["result"]["artifact"] == done["artifact"]
    alone = subprocess.run(
        [sys.executable, "-I", "reproduce.py", "--json"],
        cwd=arl.place / "repeat",
        capture_output=True,
        check=True,
    )
    assert json.loads(alone.stdout)["outcome"] == "same_model"
    assert arl.run("reproduce", "line", "repeat").code == 4, "it overwrites nothing"


def test_reproduce_tells_another_result_and_a_changed_input_apart(arl: Arl) -> None:
    arl.ok("reproduce", str(arl.show()["promotion"]["candidate"]), "other")
    recipe_file = arl.place / "other" / "reproduction.json"
    recipe = json.loads(recipe_file.read_text())
    recipe["train"]["document"]["parameters"]["slope"] = 0.5
    recipe_file.write_text(json.dumps(recipe))
    script = [sys.executable, "-I", str(arl.place / "other" / "reproduce.py"), "--json"]
    differs = subprocess.run(script, capture_output=True, check=False)
    assert (differs.returncode, json.loads(differs.stdout)["outcome"]) == (1, "different")
    with (arl.place / "other" / "inputs" / "source" / "train.sh").open("a") as program:
        program.write("# changed\n")
    broken = subprocess.run(script, capture_output=True, check=False)
    assert (broken.returncode, json.loads(broken.stdout)["outcome"]) == (2, "broken")


def test_verify_accepts_the_ledger_and_names_the_first_wrong_row(arl: Arl, tmp_path: Path) -> None:
    assert arl.ok("verify", "--json").json()["findings"] == []
    shutil.copytree(arl.home, tmp_path / ".arl", ignore=shutil.ignore_patterns("local"))
    database = sqlite3.connect(tmp_path / ".arl" / "ledger.db")
    database.execute("UPDATE trials SET value = value / 2 WHERE number = 7")
    database.commit()
    database.close()
    damaged = Arl(tmp_path).run("verify", "--json")
    assert damaged.code == 1
    assert any("-7" in finding["where"] for finding in damaged.json()["findings"])
    assert "wrong: " in Arl(tmp_path).run("verify").out


def test_verify_misses_entries_that_were_cut_off_the_end(arl: Arl, tmp_path: Path) -> None:
    shutil.copytree(arl.home, tmp_path / ".arl", ignore=shutil.ignore_patterns("local"))
    heads = tmp_path / ".arl" / "heads.jsonl"
    latest = json.loads(heads.read_text().splitlines()[-1])
    with heads.open("a") as file:  # as if the ledger had gone on once
        file.write(json.dumps({**latest, "seq": latest["seq"] + 1, "digest": "0" * 64}) + "\n")
    cut = Arl(tmp_path).run("verify", "--json")
    assert cut.code == 1
    assert any(latest["chain"] in finding["where"] for finding in cut.json()["findings"])


def test_db_check_and_upgrade_leave_a_current_ledger_alone(arl: Arl) -> None:
    assert arl.ok("db", "check", "--json").json()["ok"] is True
    assert arl.ok("db", "upgrade", "--json").json()["before"] is not None
    assert arl.run("db", "downgrade").code == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("show", "nothing"), 3),
        (("show", "last/999"), 3),
        (("reproduce", "nothing", "x"), 3),
        (("export", "nothing", "-o", "x"), 3),
        (("pause", "last"), 4),
        (("resume", "last"), 4),
        (("decline", "last/6"), 4),
        (("trial", "last", "slope=1"), 4),
        (("trial", "last", "slope"), 2),
        (("extend", "last"), 2),
        (("extend", "last", "--trials", "-5"), 2),
        (("extend", "last", "--gpu-hours", "+1"), 4),
        (("show", "--nonsense"), 2),
        (("logs", "last/6", "-f", "--json"), 2),
    ],
)
def test_bad_input_is_one_line_and_its_exit_code(
    arl: Arl, arguments: tuple[str, ...], code: int
) -> None:
    done = arl.run(*arguments, "--json")
    assert done.code == code, done.err
    assert done.err.startswith("arl: ")
    assert len(done.err.splitlines()) == 1
    assert done.json()["error"]["exit_code"] == code
