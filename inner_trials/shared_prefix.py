"""Log-probabilities of a group's completions with their prompt computed once for all of them."""

from typing import Any

import torch


def token_scores(
    model: Any,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    *,
    keep: int,
    temperature: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each of the last `keep` tokens: its log-probability, and the entropy where it stands.

    Prompts are padded on the left, as the trainer has them; rows with equal prompts need not be
    neighbours. Gradients go through what is shared to the prompt as they would without.
    """
    prompt, said = input_ids[:, :-keep], input_ids[:, -keep:]
    lines, group = distinct_rows(torch.cat([prompt, attention_mask[:, :-keep]], dim=1))
    out = model(
        input_ids=prompt[lines],
        attention_mask=attention_mask[lines, :-keep],
        use_cache=True,
        logits_to_keep=1,
    )
    logits = out.logits[group, -1:]
    if keep > 1:
        cache = out.past_key_values
        cache.batch_select_indices(group)
        rest = model(
            input_ids=said[:, :-1],
            attention_mask=attention_mask[:, :-1],
            past_key_values=cache,
            use_cache=True,
        )
        logits = torch.cat([logits, rest.logits], dim=1)
    scores = torch.log_softmax(logits.float() / temperature, dim=-1)
    entropies = -(scores.exp() * scores).sum(dim=-1)
    is_real = attention_mask[:, -keep:].bool()
    chosen = scores.gather(-1, said.unsqueeze(-1)).squeeze(-1)
    return chosen.masked_fill(~is_real, 0.0), entropies.masked_fill(~is_real, 0.0)


def distinct_rows(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first line of each distinct row, and by row which of these it equals."""
    first: dict[tuple[int, ...], int] = {}
    lines: list[int] = []
    group: list[int] = []
    for line, row in enumerate(map(tuple, rows.tolist())):
        if row not in first:
            first[row] = len(lines)
            lines.append(line)
        group.append(first[row])
    return (
        torch.tensor(lines, device=rows.device),
        torch.tensor(group, device=rows.device),
    )
