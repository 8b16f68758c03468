"""Files of an inbox are taken in whole and once, and of what has no consent nothing is kept."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.campaigns.experience import HELD_OUT, TRAINING, stored_rows
from controller.campaigns.inbox import Inbox
from controller.campaigns.log import CampaignLog
from controller.campaigns.training import HeldOut, write_training_set
from controller.decisions.campaigns import is_held_out, prompt_digest
from controller.spec.campaign import ExperienceSpec
from inner_trials.contamination import prompt_of
from inner_trials.data import read_rows
from inner_trials.rollout_columns import rollout_schema
from ledger.artifacts import ArtifactStore
from ledger.campaign_entries import ExperienceTakenIn
from ledger.database import open_ledger
from ledger.errors import Conflict, InvalidInput
from ledger.verify import verify_ledger
from tests.campaign_runs import CONSENT, record, send

SHARE = 0.3


class Place:
    """A campaign's inbox, with a ledger and a store of its own."""

    def __init__(self, base: Path) -> None:
        self.base = base
        (base / "inbox").mkdir()
        self.ledger = open_ledger(base / "home" / "ledger.db", create=True)
        self.store = ArtifactStore(base / "home" / "artifacts")
        self.log = CampaignLog(self.ledger, "live")
        self.said: list[str] = []

    def take_in(
        self, protected: frozenset[str] = frozenset(), **more: object
    ) -> list[ExperienceTakenIn]:
        spec = ExperienceSpec.model_validate({"inbox": "inbox", "holdout": SHARE, **more})
        inbox = Inbox(self.base / "inbox", self.store, spec, protected)
        inbox.take_in(self.log, self.said.append)
        return self.log.state.batches

    def waiting(self) -> list[str]:
        return sorted(path.name for path in (self.base / "inbox").glob("*.jsonl"))

    def stored_bytes(self) -> bytes:
        files = [path for path in (self.base / "home").rglob("*") if path.is_file()]
        return b"".join(path.read_bytes() for path in files)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    opened = Place(tmp_path)
    yield opened
    opened.ledger.close()


def test_what_has_no_consent_is_counted_and_is_nowhere(place: Place) -> None:
    secret = {**record(1), "prompt": "SECRETWORD 1", "source": "SECRETWORD"}
    no = [{**secret, "consent": None}, {**secret, "consent": {**CONSENT, "given": False}}]
    del no[0]["consent"]
    send(place.base, "a", [*no, record(2), {**secret, "reward": "SECRETWORD", "consent": {}}])
    (batch,) = place.take_in()
    assert (batch.training + batch.held_out, batch.without_consent) == (1, 3)
    assert (batch.invalid, batch.problems) == (0, ())
    assert b"SECRETWORD" not in place.stored_bytes()
    assert "SECRETWORD" not in "".join(place.said)


def test_every_record_is_on_the_side_of_its_prompt_and_has_its_consent(place: Place) -> None:
    records = [record(i, word, reward=0.5, policy="adder@1") for i in range(30) for word in "ab"]
    send(place.base, "a", records)
    (batch,) = place.take_in()
    assert batch.training + batch.held_out == 60
    assert batch.training > 20
    assert batch.held_out > 4
    for side, is_out in ((TRAINING, False), (HELD_OUT, True)):
        columns = ["row", "prompt_revision", "consent_by", "consent_at", "source", "policy"]
        for row in stored_rows(place.store, [batch], columns, [side]):
            revision = prompt_digest(prompt_of(json.loads(row["row"])))
            assert row["prompt_revision"] == revision
            assert is_held_out(revision, SHARE) is is_out
            assert (row["consent_by"], row["consent_at"]) == (CONSENT["by"], CONSENT["at"])
            assert (row["source"], row["policy"]) == ("web", "adder@1")


def test_columns_that_a_rollout_has_too_are_the_same(place: Place) -> None:
    import pyarrow.parquet

    tokens = {"prompt_tokens": [1], "completion_tokens": [2, 3], "logprobs": [-0.5, -0.25]}
    send(place.base, "a", [record(i, rewards={"exact": 1}, **tokens) for i in range(20)])
    (batch,) = place.take_in()
    tree = place.store.checkout(batch.tree)
    schema = pyarrow.parquet.read_schema(tree / TRAINING)
    shared = [field for field in rollout_schema() if field.name in schema.names]
    assert len(shared) == 7
    assert all(schema.field(field.name).type == field.type for field in shared)
    first = next(stored_rows(place.store, [batch], ["behaviour_logprobs", "rewards", "ended"]))
    assert first == {
        "behaviour_logprobs": [-0.5, -0.25],
        "rewards": [("exact", 1.0)],
        "ended": True,
    }


def test_a_file_is_taken_in_once_and_moved_away(place: Place) -> None:
    send(place.base, "a", [record(1), record(2)])
    assert len(place.take_in()) == 1
    (moved,) = (place.base / "inbox" / "taken").iterdir()
    assert moved.name.endswith("-a.jsonl")
    assert place.waiting() == []
    # As if it had been killed between the commit and the move.
    os.replace(moved, place.base / "inbox" / "a.jsonl")
    place.log = CampaignLog(place.ledger, "live")
    assert len(place.take_in()) == 1
    assert place.waiting() == []
    assert verify_ledger(place.ledger, place.store) == []


def test_a_file_with_the_longest_name_there_is_is_moved_away_too(place: Place) -> None:
    send(place.base, "é" * 124, [record(1)])
    assert len(place.take_in()) == 1
    (moved,) = (place.base / "inbox" / "taken").iterdir()
    assert moved.name.endswith("é.jsonl")
    assert place.waiting() == []


def test_a_record_that_was_sent_again_is_known(place: Place) -> None:
    send(place.base, "a", [record(1), record(2), record(1)])
    send(place.base, "b", [record(2), record(3)])
    first, second = place.take_in()
    assert (first.training + first.held_out, first.duplicates) == (2, 1)
    assert (second.training + second.held_out, second.duplicates) == (1, 1)
    send(place.base, "c", [record(3)])
    place.log = CampaignLog(place.ledger, "live")
    assert place.take_in()[2].duplicates == 1
    assert place.take_in()[2].tree == ""


def test_what_is_wrong_is_counted_and_told_by_its_line_and_the_rest_is_kept(place: Place) -> None:
    file = place.base / "inbox" / "a.jsonl"
    good = json.dumps(record(1)).encode()
    lines = [b"{not json", good, b"", b"[]", b'"\xff"', json.dumps(record(2, reward="x")).encode()]
    file.write_bytes(b"\n".join(lines))
    (batch,) = place.take_in()
    assert (batch.training + batch.held_out, batch.invalid) == (1, 4)
    assert [problem.split(":")[0] for problem in batch.problems] == [
        "line 1",
        "line 4",
        "line 5",
        "line 6",
    ]
    assert "reward must be a finite number" in batch.problems[3]


def test_links_and_files_that_are_too_large_or_unfinished_are_left(place: Place) -> None:
    outside = place.base / "outside.jsonl"
    outside.write_text(json.dumps(record(1)))
    (place.base / "inbox" / "link.jsonl").symlink_to(outside)
    (place.base / "inbox" / ".draft.jsonl").write_text(json.dumps(record(2)))
    (place.base / "inbox" / "a.jsonl.part").write_text(json.dumps(record(3)))
    send(place.base, "large", [record(i) for i in range(50)])
    assert place.take_in(file_size="1kB") == []
    assert place.waiting() == [".draft.jsonl", "large.jsonl", "link.jsonl"]
    assert any("file_size" in text for text in place.said)
    assert any("link" in text for text in place.said)


def test_a_second_process_is_told_and_writes_nothing(place: Place) -> None:
    send(place.base, "a", [record(1)])
    other = CampaignLog(place.ledger, "live")
    place.take_in()
    with pytest.raises(Conflict, match="another process"):
        other.add(lambda number: place.log.state.batches[0].__class__(**_fields(place, number)))
    assert place.log.reload().number == 1


def _fields(place: Place, number: int) -> dict[str, object]:
    batch = place.log.state.batches[0]
    return {name: getattr(batch, name) for name in batch.__slots__} | {"number": number}


def test_slices_and_rows_of_the_template_keep_held_out_prompts_out_of_training(
    place: Place, tmp_path: Path
) -> None:
    rows = [{"prompt": f"add {i}", "completion": "x"} for i in range(40)]
    template = tmp_path / "train.jsonl"
    template.write_text("".join(json.dumps(row) + "\n" for row in rows))
    protected = frozenset({prompt_digest("add 3"), prompt_digest("add 105")})
    send(place.base, "a", [record(100 + i, reward=i / 20) for i in range(20)])
    batches = place.take_in(protected)
    held_out = HeldOut(SHARE, protected)
    spec = ExperienceSpec.model_validate({"inbox": "inbox", "holdout": SHARE, "min_reward": 0.5})
    made = write_training_set(
        place.store, batches, spec, held_out, template, tmp_path / "training"
    )
    found = [prompt_of(row.fields) for row in read_rows(made.directory)]
    assert len(found) == made.rows == made.records + 40 - made.left_out
    assert 0 < made.records < batches[0].training
    assert not any(held_out.has(prompt_digest(prompt)) for prompt in found)
    assert "add 3" not in found
    assert made.left_out >= 4
    gathered = [int(p.split()[1]) for p in found if int(p.split()[1]) >= 100]
    assert min(gathered) >= 110, "records with a smaller reward are not trained on"


def test_a_template_that_cannot_be_checked_is_refused(place: Place, tmp_path: Path) -> None:
    send(place.base, "a", [record(i) for i in range(9)])
    batches = place.take_in()
    template = tmp_path / "data"
    template.mkdir()
    (template / "rows.bin").write_bytes(b"1")
    spec = ExperienceSpec.model_validate({"inbox": "inbox"})
    arguments = (place.store, batches, spec, HeldOut(SHARE, frozenset()), template)
    with pytest.raises(InvalidInput, match=r"rows.bin is not JSON Lines.*with_template"):
        write_training_set(*arguments, tmp_path / "training")
    none = ExperienceSpec.model_validate(
        {"inbox": "inbox", "min_reward": 9, "with_template": False}
    )
    with pytest.raises(InvalidInput, match="nothing is left to train on"):
        write_training_set(
            place.store, batches, none, HeldOut(SHARE, frozenset()), None, tmp_path / "t"
        )
