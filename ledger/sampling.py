"""Fewer points of a curve, with every extreme still among them. Pure."""

from collections.abc import Sequence


def kept_positions(values: Sequence[float | None], limit: int) -> list[int]:
    """At most `limit` positions of a curve, in order: of each of equally long stretches its
    least and its greatest value, and the curve's first and last; all where they fit.

    None and NaN are no extremes; a stretch of nothing else keeps its first.
    """
    count = len(values)
    if count <= limit:
        return list(range(count))
    stretches = max(1, (limit - 2) // 2)
    kept = {0, count - 1}
    for n in range(stretches):
        start, end = n * count // stretches, (n + 1) * count // stretches
        ranked = [i for i in range(start, end) if (v := values[i]) is not None and v == v]
        if not ranked:
            kept.add(start)
            continue
        kept.add(min(ranked, key=lambda i: values[i] or 0.0))
        kept.add(max(ranked, key=lambda i: values[i] or 0.0))
    return sorted(kept)[:limit] if len(kept) > limit else sorted(kept)
