"""The columns of recorded completions, shared by all who write such records."""

from typing import Any


def rollout_schema() -> Any:
    """The columns of a recorded completion, as pyarrow has them."""
    import pyarrow as pa

    text = pa.dictionary(pa.int32(), pa.string())
    tokens, numbers = pa.list_(pa.int32()), pa.list_(pa.float32())
    return pa.schema(
        {
            "policy_version": pa.int32(),
            "group": pa.int64(),
            "sample": pa.int32(),
            "prompt_revision": text,
            "prompt_tokens": tokens,
            "completion_tokens": tokens,
            "loss_mask": pa.list_(pa.int8()),
            "behaviour_source": text,
            "behaviour_logprobs": numbers,
            "trainer_logprobs": numbers,
            "reference_logprobs": numbers,
            "rewards": pa.map_(pa.string(), pa.float64()),
            "reward": pa.float64(),
            "advantage": pa.float32(),
            "ended": pa.bool_(),
            "tokenizer": text,
            "chat_template": text,
            "sampling": text,
            "seed": pa.int64(),
            "verifier": text,
            "verifier_options": text,
            "environment": text,
        }
    )
