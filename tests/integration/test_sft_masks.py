"""Loss masks: what the batches of the real trainer learn from, and what they do not."""

from pathlib import Path
from typing import Any

import pytest

from inner_trials import data, demo_task, sft
from inner_trials.settings import SettingsError, read_settings

# The libraries warn about each other while they are imported.
pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]

IGNORED = -100
SHORT = {"prompt": "sort 21", "completion": "12"}
LONG = {"prompt": "sort 54321", "completion": "12345"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("base")
    demo_task.write_base(directory)
    demo_task.write_tokenizer(directory)
    return directory


@pytest.fixture(autouse=True)
def quiet_offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.setenv("ARL_OUTPUT", str(tmp_path / "output"))


def built(
    base: Path,
    shape: data.Shape,
    rows: list[dict[str, Any]],
    heldout: list[dict[str, Any]] | None = None,
    **options: Any,
) -> Any:
    settings = read_settings(sft.Settings, {"options": options})
    return sft.build_trainer(sft.Job(settings, base, shape, rows, heldout or [], 0))


def learned_text(base: Path, shape: data.Shape, rows: list[dict[str, Any]], **options: Any) -> Any:
    """Per row of one batch: its padded length, and the text its loss is taken on."""
    trainer = built(base, shape, rows, max_steps=1, **options)
    batch = trainer.data_collator(list(trainer.train_dataset))
    tokenizer = trainer.processing_class
    found = []
    for labels, inputs in zip(batch["labels"], batch["input_ids"], strict=True):
        kept = labels != IGNORED
        assert (labels[kept] == inputs[kept]).all()
        assert not (inputs[kept] == tokenizer.pad_token_id).any(), "no loss on padding"
        found.append((len(labels), tokenizer.decode(labels[kept])))
    return found


def test_there_is_no_loss_on_prompts_or_padding(base: Path) -> None:
    found = learned_text(base, "text", [SHORT, LONG])
    assert [text for _, text in found] == ["12<|end|>", "12345<|end|>"]
    assert len({length for length, _ in found}) == 1


def test_loss_on_all_takes_the_prompt_in_but_never_padding(base: Path) -> None:
    (_, text), _ = learned_text(base, "text", [SHORT, LONG], loss_on="all")
    assert text == "<|user|>sort 21<|end|><|assistant|>12<|end|>"


def test_plain_pairs_stay_plain_when_chat_is_off(base: Path) -> None:
    (_, text), _ = learned_text(base, "text", [SHORT, LONG], loss_on="all", chat=False)
    assert text == "sort 2112<|end|>"


def test_of_a_longer_conversation_every_answer_is_learned_and_nothing_else(base: Path) -> None:
    turns = [
        {"role": role, "content": content}
        for role, content in (("user", "21"), ("assistant", "12"), ("user", "43"))
    ]
    talk = {"messages": [*turns, {"role": "assistant", "content": "34"}]}
    ((_, text),) = learned_text(base, "messages", [talk])
    assert text == "12<|end|>34<|end|>"


def test_rows_cut_to_nothing_are_refused_rather_than_trained_on(base: Path) -> None:
    with pytest.raises(data.DataError, match="max_length 4"):
        learned_text(base, "text", [SHORT, LONG], max_length=4)


def test_packed_rows_of_which_no_answer_is_left_are_refused(base: Path) -> None:
    with pytest.raises(data.DataError, match="cut before its answer"):
        built(base, "text", [SHORT, LONG], max_steps=1, packing=True, max_length=4)


@pytest.mark.parametrize("packing", [False, True])
def test_held_out_rows_of_which_no_answer_is_left_are_refused(base: Path, packing: bool) -> None:
    options = {"max_length": 12, "max_steps": 1, "packing": packing}
    reason = "heldout: with packing and" if packing else "heldout: with max_length 12 1 of 1 rows"
    with pytest.raises(data.DataError, match=reason):
        built(base, "text", [SHORT], [LONG], **options)
    kept = built(base, "text", [SHORT], [SHORT], **options)
    assert len(kept.eval_dataset) == 1


def test_held_out_rows_that_are_too_long_are_counted_where_that_is_asked_for(base: Path) -> None:
    with pytest.raises(data.DataError, match=r"heldout: with max_length 12 1 of 2 rows have"):
        built(base, "text", [SHORT], [SHORT, LONG], max_length=12)
    made = built(base, "text", [SHORT], [SHORT, LONG], max_length=12, too_long="drop")
    assert len(made.eval_dataset) == 1


def test_held_out_talk_is_masked_as_the_talk_that_is_learned_from(base: Path) -> None:
    def talk(*answers: str) -> dict[str, Any]:
        turns = [({"role": "user", "content": "sort 21"}, a) for a in answers]
        return {
            "messages": [m for u, a in turns for m in (u, {"role": "assistant", "content": a})]
        }

    one, two = talk("12"), talk("12", "34")
    for rows, heldout in (([one], [two]), ([two], [one])):
        trainer = built(base, "messages", rows, heldout, max_steps=1)
        for found in (trainer.train_dataset, trainer.eval_dataset):
            labels = [label for label in found[0]["labels"] if label != IGNORED]
            said = trainer.processing_class.decode(labels)
            assert said in ("12<|end|>", "12<|end|>34<|end|>"), "answers alone"


def test_half_precision_without_a_gpu_is_refused_rather_than_run_into_nan(base: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SettingsError, match="fp16 needs a GPU"):
        learned_text(base, "text", [SHORT, LONG], precision="fp16")


def test_packed_rows_keep_their_masks_and_do_not_see_each_other(base: Path) -> None:
    trainer = built(base, "text", [SHORT, LONG], max_steps=1, packing=True, max_length=64)
    batch = trainer.data_collator(list(trainer.train_dataset))
    assert batch["input_ids"].shape[0] == 1
    tokenizer = trainer.processing_class
    labels = batch["labels"][0]
    assert tokenizer.decode(labels[labels != IGNORED]).count("<|end|>") == 2
    model = trainer.model.eval()
    packed = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"]).logits[0]
    start = (batch["position_ids"][0] == 0).nonzero().flatten().tolist()[1]
    alone = model(input_ids=batch["input_ids"][:, start:]).logits[0]
    assert (packed[start:] - alone).abs().max() < 1e-5


def test_the_loss_is_the_mean_of_all_answers_tokens_packed_or_not(base: Path) -> None:
    torch = pytest.importorskip("torch")

    def loss_of(**options: Any) -> tuple[float, Any]:
        trainer = built(base, "text", [SHORT, LONG], max_steps=1, max_length=64, **options)
        batch = trainer.data_collator(list(trainer.train_dataset))
        return float(trainer.compute_loss(trainer.model.train(), dict(batch))), trainer

    plain, trainer = loss_of()
    tokenizer, surprises = trainer.processing_class, []
    for row in (SHORT, LONG):
        prompt = f"<|user|>{row['prompt']}<|end|><|assistant|>"
        ids = tokenizer(f"{prompt}{row['completion']}<|end|>", return_tensors="pt")["input_ids"]
        with torch.no_grad():
            scores = trainer.model.eval()(input_ids=ids).logits[0].double().log_softmax(-1)
        first = len(tokenizer(prompt)["input_ids"])
        surprises += [-float(scores[at - 1, ids[0, at]]) for at in range(first, ids.shape[1])]
    assert len(surprises) == 3 + 6
    assert plain == pytest.approx(sum(surprises) / len(surprises), rel=1e-5)
    packed, _ = loss_of(packing=True)
    assert packed == pytest.approx(plain, rel=1e-5)
