"""What is made of a promoted model: judged on the holdout, through kills, by hand, and failing."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from ledger import conversion_reads, reads
from ledger.conversion_records import Conversion
from ledger.errors import ArlError
from ledger.records import ArtifactRole, AttemptKind, CommandVerb, Json, Split
from ledger.states import ConversionState, Reason, StudyState, TrialState
from tests.acceptance.lab import NOTE, Lab, evaluate, train

FIGURES = {"token_s": 0.5, "tokens_per_s": 2.0, "size_bytes": 100, "peak_memory_bytes": 1000}
REPORT = json.dumps({"unconverted": FIGURES, "converted": FIGURES, "machine": {"device": "none"}})
CONVERTER = f"""#!/bin/sh
# Stands where a Python with the conversion's libraries would: it is asked to convert, to measure.
base="${{ARL_OUTPUT%/.arl/*}}"
case "$*" in
*inner_trials.convert*)
  echo "$ARL_ATTEMPT" >> "$base/ran"
  while [ -e "$base/hold" ]; do sleep 0.02; done
  grep -q '"method": "gptq"' "$ARL_PARAMS" && {{ echo "no layer fits"; exit 2; }}
  mkdir "$ARL_OUTPUT/model"
  echo made > "$ARL_OUTPUT/model/made"
  cat "$ARL_INPUTS/artifact/x" > "$ARL_OUTPUT/model/x"
  grep -q '"method": "int4"' "$ARL_PARAMS" && touch "$ARL_OUTPUT/model/worse"
  exit 0 ;;
*)
  echo "$ARL_ATTEMPT" >> "$base/ran"
  echo '{REPORT}' >&3 ;;
esac
"""
ITEMS = (
    NOTE
    + 'read -r x < "$ARL_INPUTS/artifact/x"; '
    + 'y=1; [ -e "$ARL_INPUTS/artifact/worse" ] && y=0; '
    + 'echo "{\\"metrics\\": {\\"score\\": $x}, \\"items\\": [$y, $y, $y, $y, 0, 1]}" >&3'
)
CONVERTED: Mapping[str, Any] = {
    "noise": {},
    "promotion": {"model": "toy", "profile": "quick"},
    "parallel": 4,
    "budget": {"trials": 8},
    "retries": {"infrastructure": 100},
}


def study(lab: Lab, *conversions: Mapping[str, Json], **changes: Any) -> str:
    converter = lab.base / "converter"
    converter.write_text(CONVERTER)
    converter.chmod(0o755)
    (lab.base / "rows.jsonl").write_text('{"text": "nothing of the splits"}\n')
    wanted = [{"margin": 0.4, "python": str(converter), **one} for one in conversions]
    section = {"convert": wanted} if wanted else {}
    program = train() | {"data": {"train": "./rows.jsonl"}}
    scored = {**evaluate(), "argv": ["/bin/sh", "-c", ITEMS]}
    given = {"program": program, "evaluator": scored, **CONVERTED, **section, **changes}
    return lab.submit(**given)


def conversions(lab: Lab, study_id: str) -> list[Conversion]:
    with lab.service() as service, service.ledger.read() as session:
        return conversion_reads.list_conversions(session, study_id=study_id)


def states(lab: Lab, study_id: str) -> list[tuple[str, ConversionState, Reason | None]]:
    return [(c.method, c.state, c.reason) for c in conversions(lab, study_id)]


def test_a_promoted_model_is_converted_and_each_conversion_is_judged(lab: Lab) -> None:
    study_id = study(lab, {"quantize": "int8"}, {"quantize": "int4"}, {"quantize": "gptq"})
    done = lab.drive(study_id)
    assert (done.state, done.reason) == (StudyState.COMPLETED, Reason.BUDGET_TRIALS)
    assert states(lab, study_id) == [
        ("int8", ConversionState.SERVABLE, Reason.NOT_INFERIOR),
        ("int4", ConversionState.REFUSED, Reason.INFERIOR),
        ("gptq", ConversionState.FAILED, Reason.EXIT_NONZERO),
    ]
    int8, int4, gptq = conversions(lab, study_id)
    assert int8.evidence["difference"] == 0.0
    assert int4.evidence["lost"] == 8
    assert int4.evidence["measured"] == [json.loads(REPORT)]
    assert "no layer fits" in gptq.detail
    with lab.service() as service, service.ledger.read() as session:
        incumbent = reads.latest_incumbent(session, "toy")
        assert incumbent is not None
        assert {c.candidate_id for c in (int8, int4, gptq)} == {incumbent.candidate_id}
        assert int8.digests[0] == reads.find_artifact(session, int8.sources[0], ArtifactRole.MODEL)


def test_kill_9_during_a_conversion_loses_and_repeats_nothing(lab: Lab) -> None:
    study_id = study(lab, {"quantize": "int8"})
    (lab.base / "hold").touch()
    worker = lab.worker(study_id)
    lab.wait_for(lambda: any(".c-0" in name for name in lab.ran()), "it converts")
    worker.kill()
    (lab.base / "hold").unlink()
    done = lab.drive(study_id)
    assert done.state is StudyState.COMPLETED
    assert states(lab, study_id) == [("int8", ConversionState.SERVABLE, Reason.NOT_INFERIOR)]
    (trial,) = lab.trials(study_id, "conversion")
    attempts = [a for a in lab.attempts(study_id) if a.trial_id == trial.id]
    assert [(a.kind, a.split, a.index) for a in attempts] == [
        (AttemptKind.CONVERT, None, 0),
        (AttemptKind.EVALUATE, None, 0),
        (AttemptKind.EVALUATE, Split.HOLDOUT_A, 0),
        (AttemptKind.EVALUATE, Split.HOLDOUT_B, 0),
    ]
    assert (trial.state, trial.value) == (TrialState.COMPLETE, None)


def test_a_promotion_that_a_person_approves_is_converted_then(lab: Lab) -> None:
    promotion = {"model": "toy", "profile": "quick", "approval": "required"}
    study_id = study(lab, {"quantize": "int8"}, promotion=promotion)
    assert lab.drive(study_id).state is StudyState.COMPLETED
    assert conversions(lab, study_id) == []
    with lab.service() as service, service.ledger.read() as session:
        (family,) = reads.list_families(session, study_id)
    lab.ask(study_id, CommandVerb.APPROVE, candidate_id=str(family.evidence["best"]))
    done = lab.drive(study_id)
    assert done.detail == "promoted; converted: int8 servable"
    assert (done.state, done.reason) == (StudyState.COMPLETED, Reason.BUDGET_TRIALS)


def test_a_conversion_by_hand_needs_a_promoted_candidate_and_is_not_made_twice(lab: Lab) -> None:
    study_id = study(lab)
    lab.drive(study_id)
    with lab.service() as service, service.ledger.read() as session:
        incumbent = reads.latest_incumbent(session, "toy")
    assert incumbent is not None
    wanted: dict[str, Json] = {"quantize": "int8", "margin": 0.4}
    wanted["python"] = str(lab.base / "converter")
    asked: dict[str, Json] = {"candidate_id": incumbent.candidate_id, "convert": wanted}
    lab.ask(study_id, CommandVerb.CONVERT, **asked)
    searched = len(lab.entries(study_id, "study_moved"))
    done = lab.drive(study_id)
    assert (done.detail, done.reason) == (
        "promoted; converted: int8 servable",
        Reason.BUDGET_TRIALS,
    )
    # It searches no more: a webhook is not told again that a budget is spent.
    moves = [e.payload["new"] for e in lab.entries(study_id, "study_moved")]
    assert moves[searched:] == ["replaying", "completed"]
    lab.ask(study_id, CommandVerb.CONVERT, **asked)
    lab.ask(study_id, CommandVerb.CONVERT, candidate_id="nobody", convert=wanted)
    lab.ask(study_id, CommandVerb.CONVERT, **asked | {"convert": wanted | {"margin": -1}})
    assert lab.drive(study_id).state is StudyState.COMPLETED
    answers = [e.payload for e in lab.entries(study_id, "command_applied")]
    assert [a["refused"] for a in answers] == [False, True, True, True]
    said = [str(a["detail"]) for a in answers[1:]]
    assert "the holdout is not asked the same thing twice" in said[0]
    assert "candidate nobody is not promoted" in said[1]
    assert "convert[0].margin: -1: it must be above 0" in said[2]
    assert len(conversions(lab, study_id)) == 1


def test_cancelling_a_study_that_converts_fails_the_conversion_and_keeps_the_incumbent(
    lab: Lab,
) -> None:
    study_id = study(lab, {"quantize": "int8"})
    (lab.base / "hold").touch()
    worker = lab.worker(study_id)
    lab.wait_for(lambda: any(".c-0" in name for name in lab.ran()), "it converts")
    lab.ask(study_id, CommandVerb.CANCEL)
    worker.join()
    (lab.base / "hold").unlink()
    assert states(lab, study_id) == [
        ("int8", ConversionState.FAILED, Reason.CANCELLED_BY_OPERATOR)
    ]
    with lab.service() as service, service.ledger.read() as session:
        assert reads.latest_incumbent(session, "toy") is not None


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"merge": True}, "the base that the adapter belongs to is not known"),
        ({"quantize": "int5"}, "no such value"),
        ({"quantize": "int8", "margin": -0.1}, "it must be above 0"),
        ({"quantize": "int8", "merge": True}, "quantize works on the merged weights"),
    ],
)
def test_a_conversion_that_makes_no_sense_is_refused_at_submit(
    lab: Lab, wanted: Mapping[str, Json], said: str
) -> None:
    with pytest.raises(ArlError, match=said):
        study(lab, wanted)
