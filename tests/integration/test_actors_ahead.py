"""Bounded asynchrony, on a server that tells what it was asked for: how early, how old, in which
order, and what happens when it dies or is asked for something unexpected."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inner_trials.ahead import AheadActors, in_order
from inner_trials.failures import ActorsLost
from inner_trials.rollout_server import Server
from tests.integration.fake_rollouts import Answer, Fake

pytestmark = pytest.mark.train

GROUP = 2
PROMPTS = [[row, row] for row in range(6)]
"""Tokens of the data's prompts; two make a generation."""


class Sampler:
    """Answers completions by the version that was asked, and keeps what was asked when."""

    def __init__(self, fake: Fake) -> None:
        self.asked: list[tuple[int, list[int]]] = []
        """(version, prompt) of each request."""
        self.loaded: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        fake.answers["/v1/completions"] = self._complete
        fake.answers["/v1/load_lora_adapter"] = self._load
        fake.answers["/v1/unload_lora_adapter"] = self._unload

    def _load(self, body: Any) -> Answer:
        self.loaded.append(body["lora_name"])
        return 200, ""

    def _unload(self, body: Any) -> Answer:
        self.loaded.remove(body["lora_name"])
        return 200, ""

    def _complete(self, body: Any) -> Answer:
        version = int(body["model"].rpartition("-")[2])
        assert body["model"] in self.loaded
        self.asked.append((version, body["prompt"][0]))
        self.may_answer.wait(30.0)
        choices = [
            {"index": n, "token_ids": [version, *body["prompt"][0]], "logprobs": LOGPROBS}
            for n in range(body["n"])
        ]
        return 200, {"model": body["model"], "choices": choices}


LOGPROBS = {"token_logprobs": [-0.5, -0.5, -0.5]}


class Trainer:
    """As much of TRL's as actors look at: eight updates, two prompts each, in the data's order."""

    def __init__(self, *, updates: int = 8, cycle: int = 1) -> None:
        self.state = SimpleNamespace(global_step=0)
        self.args = SimpleNamespace(
            generation_batch_size=2 * GROUP, max_steps=updates * cycle, seed=0
        )
        self.train_dataset = Rows({"row": list(range(len(PROMPTS)))})
        self.num_generations, self.shuffle_dataset = GROUP, False
        self.model = self.use_vllm = self.vllm_mode = self.vllm_generation = None
        self.accelerator = SimpleNamespace(unwrap_model=lambda _: self)

    def save_pretrained(self, place: Path, **_: object) -> None:
        place.mkdir()
        (place / "adapter").touch()


class Rows(dict[str, list[int]]):
    def __len__(self) -> int:
        return len(self["row"])


@pytest.fixture
def fake() -> Iterator[Fake]:
    made = Fake()
    yield made
    made.close()


@pytest.fixture
def sampler(fake: Fake) -> Sampler:
    return Sampler(fake)


def attached(
    fake: Fake, folder: Path, trainer: Trainer, *, bound: int, cycle: int = 1
) -> AheadActors:
    actors = AheadActors(
        Server(fake.url, patience_s=1.0), folder, {}, row_tokens=64, bound=bound, cycle=cycle
    )
    actors.attach(trainer)
    actors.expect(PROMPTS)
    return actors


def generation(number: int) -> list[list[int]]:
    """What the trainer asks for, each prompt as often as its group is large."""
    rows = [(2 * number) % 6, (2 * number + 1) % 6]
    return [PROMPTS[row] for row in rows for _ in range(GROUP)]


def settled(sampler: Sampler, count: int) -> None:
    until = time.monotonic() + 10.0
    while len(sampler.asked) < count:
        assert time.monotonic() < until, sampler.asked
        time.sleep(0.01)
    time.sleep(0.03)
    assert len(sampler.asked) == count, "no more was begun than may be"


def ask(actors: AheadActors, prompts: Sequence[list[int]]) -> list[list[int]]:
    actors.sync_weights()
    return actors.generate(list(prompts), None, GROUP, nullcontext())[1]


@pytest.mark.parametrize(("bound", "cycle"), [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2)])
def test_no_completion_is_older_than_the_bound_and_none_is_thrown_away(
    fake: Fake, sampler: Sampler, tmp_path: Path, bound: int, cycle: int
) -> None:
    trainer = Trainer(cycle=cycle)
    actors = attached(fake, tmp_path, trainer, bound=bound, cycle=cycle)
    metrics: dict[str, list[float]] = defaultdict(list)
    for number in range(8):
        trainer.state.global_step = number * cycle
        prompts = generation(number)
        found = ask(actors, prompts)
        settled(sampler, 2 * min(8, number + 1 + bound // cycle))
        actors.measure(metrics)
        assert [tokens[1:] for tokens in found] == prompts, "the prompts that were asked for"
        assert [tokens[0] for tokens in found] == actors.sampled_at
        assert len(sampler.loaded) <= bound + 1
    # Whoever waits for all that may be begun is as old as may be, from then on.
    assert metrics["staleness_max"] == [min(number, bound // cycle) * cycle for number in range(8)]
    assert set(metrics["rollouts_dropped"]) == {0.0}
    assert sorted(prompt for _, prompt in sampler.asked) == sorted(
        prompt for number in range(8) for prompt in generation(number)[::GROUP]
    )
    actors.close()
    assert sampler.loaded == []
    assert list(tmp_path.iterdir()) == []


def test_slow_actors_take_the_newest_weights_for_each_prompt_they_begin(
    fake: Fake, sampler: Sampler, tmp_path: Path
) -> None:
    trainer = Trainer()
    actors = attached(fake, tmp_path, trainer, bound=3)
    ask(actors, generation(0))
    settled(sampler, 8)  # its own two, and those of three more
    sampler.may_answer.clear()
    trainer.state.global_step = 1
    ask(actors, generation(1))
    settled(sampler, 10)
    assert {version for version, _ in sampler.asked[8:]} == {1}
    # Both threads hang, so what may be begun now waits until there are newer weights.
    for step in (2, 3):
        trainer.state.global_step = step
        ask(actors, generation(step))
    settled(sampler, 10)
    sampler.may_answer.set()
    settled(sampler, 14)
    assert {version for version, _ in sampler.asked[10:]} == {3}
    assert len(sampler.loaded) == 2, "the one that was in use until now, and the newest"


def test_going_on_begins_where_the_order_of_the_trainer_does() -> None:
    trainer = Trainer()
    trainer.state.global_step = 4
    rest = list(in_order(trainer, PROMPTS, cycle=1))
    assert rest == [generation(number)[::GROUP] for number in range(4, 8)]
    trainer.shuffle_dataset = True
    trainer.state.global_step = 0
    shuffled = list(in_order(trainer, PROMPTS, cycle=1))
    assert sorted(prompt for batch in shuffled[:3] for prompt in batch) == PROMPTS
    assert shuffled[:3] != shuffled[3:6]


def test_what_was_not_expected_is_sampled_all_the_same_and_the_rest_is_counted(
    fake: Fake, sampler: Sampler, tmp_path: Path
) -> None:
    actors = attached(fake, tmp_path, Trainer(), bound=2)
    other = [PROMPTS[5]] * GROUP + [PROMPTS[0]] * GROUP
    assert [tokens[1:] for tokens in ask(actors, other)] == other
    assert actors.dropped == 3 * 2 * GROUP


def test_a_server_that_dies_ahead_of_its_use_is_told_at_the_next_question(
    fake: Fake, sampler: Sampler, tmp_path: Path
) -> None:
    trainer = Trainer()
    actors = attached(fake, tmp_path, trainer, bound=1)
    ask(actors, generation(0))
    fake.close()
    trainer.state.global_step = 1
    since = time.monotonic()
    with pytest.raises(ActorsLost, match="the rollout server http://127"):
        ask(actors, generation(1))
    assert time.monotonic() - since < 5.0


def test_a_server_that_stands_still_while_it_samples_is_given_up(
    fake: Fake, sampler: Sampler, tmp_path: Path
) -> None:
    actors = attached(fake, tmp_path, Trainer(), bound=1)
    actors.sync_weights()
    sampler.may_answer.clear()
    fake.answers["/health"] = lambda _: (503, "")
    since = time.monotonic()
    with pytest.raises(ActorsLost, match="for 1 s: "):
        actors.generate(generation(0), None, GROUP, nullcontext())
    assert time.monotonic() - since < 6.0
    sampler.may_answer.set()


def test_weights_that_no_longer_reach_the_server_end_the_run(
    fake: Fake, sampler: Sampler, tmp_path: Path
) -> None:
    trainer = Trainer()
    actors = attached(fake, tmp_path, trainer, bound=2)
    actors.sync_weights()
    for step in (0, 1, 2):
        trainer.state.global_step = step
        actors.generate(generation(step), None, GROUP, nullcontext())
    trainer.state.global_step = 3
    with pytest.raises(ActorsLost, match="3 updates old, and staleness_bound is 2"):
        actors.generate(generation(3), None, GROUP, nullcontext())
