"""The last lines of `arl run`: how a study ended, what it found, and how sure that is."""

from collections.abc import Mapping, Sequence

from controller.cli.text import clipped, duration, number, params
from ledger.records import Json


def ending_lines(study: Mapping[str, Json]) -> list[str]:
    """For a person, from a study's document (`controller.documents.studies`)."""
    lines = [f"study {_word(study, 'name')} ({study['study']}) {_how(study)}"]
    lines.append(f"  {_counted(study)}")
    best = study.get("best")
    if isinstance(best, Mapping):
        values = best.get("params")
        shown = params(values, 200) if isinstance(values, Mapping) else ""
        lines.append(
            f"  best in search: {_metric(study)} {_number(best.get('value'))}{_band(study)} "
            f"(trial {best.get('number')}: {shown})"
        )
    baseline = study.get("baseline")
    if isinstance(baseline, Mapping) and baseline.get("mean") is not None:
        lines.append(f"  baseline: {_metric(study)} {_number(baseline['mean'])}")
    lines += promotion_lines(study.get("promotion"))
    return lines


def _how(study: Mapping[str, Json]) -> str:
    reason = f" ({study['reason']})" if study.get("reason") else ""
    detail = f": {_word(study, 'detail', 300)}" if study.get("detail") else ""
    return f"{study['state']}{reason}{detail}"


def _counted(study: Mapping[str, Json]) -> str:
    found = study.get("counts")
    timings = study.get("timings")
    parts = []
    for kind, outcomes in found.items() if isinstance(found, Mapping) else ():
        if isinstance(outcomes, Mapping):
            told = ", ".join(f"{count} {word}" for word, count in sorted(outcomes.items()))
            parts.append(f"{kind}: {told}")
    active = timings.get("active_s") if isinstance(timings, Mapping) else None
    took = f" in {duration(active)}" if isinstance(active, float) else ""
    return f"{'; '.join(parts) or 'no trials'}{took}"


def promotion_lines(promotion: Json) -> list[str]:
    """What the gate said; nothing where there was none."""
    if not isinstance(promotion, Mapping):
        return []
    reason = f" ({promotion['reason']})" if promotion.get("reason") else ""
    candidate = promotion.get("candidate") or "-"
    if promotion.get("promoted"):
        return [
            f"  promoted: {candidate} is the incumbent of {_word(promotion, 'model')}",
            f"  gain on held-out data: {_gain(promotion)}",
            f"  repeat it: arl reproduce {candidate} DIR",
        ]
    lines = [f"  gate: {promotion.get('state')}{reason}, best {candidate}"]
    if promotion.get("gain") is not None:
        lines.append(f"  gain on held-out data: {_gain(promotion)}")
    if promotion.get("state") == "awaiting_approval":
        lines.append(f"  arl promote {candidate} approves it, arl decline {candidate} refuses")
    return lines


def _gain(promotion: Mapping[str, Json]) -> str:
    interval = promotion.get("ci95")
    text = _number(promotion.get("gain"), signed=True)
    if isinstance(interval, Sequence) and not isinstance(interval, str) and len(interval) == 2:
        low, high = (_number(end, signed=True) for end in interval)
        text += f", 95 % interval {low} to {high}"
    return text


def _band(study: Mapping[str, Json]) -> str:
    noise = study.get("noise_floor")
    return f" ± {number(noise)}" if isinstance(noise, float) and noise > 0 else ""


def _metric(study: Mapping[str, Json]) -> str:
    objective = study.get("objective")
    return clipped(str(objective.get("metric")), 40) if isinstance(objective, Mapping) else ""


def _word(document: Mapping[str, Json], key: str, length: int = 100) -> str:
    return clipped(str(document.get(key)), length)


def _number(value: Json, *, signed: bool = False) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "-"
    return f"{value:+.6g}" if signed else number(value)
