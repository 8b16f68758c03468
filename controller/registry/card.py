"""The model card of a promotion, in Markdown: a pure function of its entry in the ledger."""

import json
from collections.abc import Iterator, Mapping, Sequence

from controller.documents.plain_text import plain
from controller.documents.times import iso
from ledger.entries import CandidatePromoted
from ledger.records import Json

LONGEST = 200
NOT_RECORDED = "not recorded: it was promoted by an older version of ARL"
_CODE = str.maketrans({"`": "'", "|": "\\|", "\n": " ", "\r": " "})


def render_card(entry: CandidatePromoted, *, study: str, at: float, seal: str) -> str:
    """What a promoted model was made from, how it scored, what it cost, and what is not known.

    Every word that a candidate, a program or a person chose stands in a code span, where nothing
    is a link, an image or markup.

    Args:
        study: the id of the study that promoted it.
        seal: the digest of the entry, in the study's chain.
    """
    links = entry.lineage
    parts = [
        _front_matter(entry),
        f"# Model card: {_code(entry.model)}, promotion {entry.incumbent_seq}",
        "Written by ARL from the ledger; `arl verify --promotion` compares it with the signed "
        "entry.",
        _table(("what", "which"), _identity(entry, study, at, seal)),
        "## Scores",
        _scores(entry),
        "## Replays",
        _replays(entry),
        "## Made from",
        _table(("link", "value"), _links(links)) if links else NOT_RECORDED,
        "## Cost of the study",
        _table(("what", "how much"), _cost(_mapping(links, "cost"))) if links else NOT_RECORDED,
        "## Limits",
        "\n".join(f"- {line}" for line in _limits(entry)),
    ]
    return "\n\n".join(parts) + "\n"


# --- text that others wrote --------------------------------------------------------------------


def _code(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    safe = plain(text).translate(_CODE).strip()
    if len(safe) > LONGEST:
        # Not in the middle of an escaped bar.
        safe = safe[: LONGEST - 1].rstrip("\\") + "…"
    return f"`{safe}`" if safe else "(empty)"


def _table(columns: Sequence[str], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def _front_matter(entry: CandidatePromoted) -> str:
    """As model hubs read it. JSON is YAML, and its quotes hold whatever a name holds."""
    metric = _mapping(entry.lineage, "objective").get("metric")
    document = {
        "tags": ["arl"],
        "model_name": plain(entry.model),
        "metrics": [plain(str(metric))] if metric else [],
    }
    return f"---\n{json.dumps(document, indent=1)}\n---"


# --- the parts ---------------------------------------------------------------------------------


def _identity(
    entry: CandidatePromoted, study: str, at: float, seal: str
) -> Iterator[tuple[str, ...]]:
    objective = _mapping(entry.lineage, "objective")
    yield "model", f"{_code(entry.model)}, promotion {entry.incumbent_seq}"
    yield "candidate", _code(entry.candidate_id)
    yield "artifact (tree digest)", _code(entry.artifact_digest)
    if objective:
        yield "objective", f"{_code(objective.get('direction'))} {_code(objective.get('metric'))}"
    yield "study and replay family", f"{_code(study)}, {_code(entry.family_id)}"
    yield "promoted", f"{iso(at)} by {_code(entry.approver)}"
    if entry.note:
        yield "note", _code(entry.note)
    yield "took the place of", _code(entry.previous_id) if entry.previous_id else "nothing"
    yield "ledger entry", _code(seal)


def _scores(entry: CandidatePromoted) -> str:
    rows = [("gain, held out", _gain(entry), "", "")]
    own, base = "candidate (95 % interval, runs)", "incumbent it beat"
    holdout = _mapping(entry.lineage, "holdout")
    for split in sorted(holdout):
        both = _mapping(holdout, split)
        rows.append((split, "", _score(both.get("candidate")), _score(both.get("incumbent"))))
    rows.append(("search", "", _score(entry.lineage.get("search")), "-"))
    return _table(("split", "difference", own, base), iter(rows))


def _gain(entry: CandidatePromoted) -> str:
    interval = entry.evidence.get("ci95")
    shown = _number(entry.evidence.get("gain"))
    if isinstance(interval, Sequence) and len(interval) == 2 and not isinstance(interval, str):
        shown += f" [{_number(interval[0])}, {_number(interval[1])}]"
    return shown


def _score(found: Json) -> str:
    if not isinstance(found, Mapping):
        return "-"
    shown = _number(found.get("mean"))
    if found.get("low") is not None:
        shown += f" [{_number(found.get('low'))}, {_number(found.get('high'))}]"
    return f"{shown}, {found.get('runs')} runs"


def _replays(entry: CandidatePromoted) -> str:
    evidence, confirm = entry.evidence, _mapping(entry.evidence, "confirm")
    rows = [
        ("test on held-out half B", f"p {_number(evidence.get('p'))} of alpha "
         f"{_number(evidence.get('alpha'))}"),
        ("confirmation, candidate", _values(confirm.get("new"))),
        ("confirmation, incumbent", _values(confirm.get("old"))),
        ("least gain asked for", _number(evidence.get("min_effect"))),
    ]  # fmt: skip
    for metric, verdict in sorted(_mapping(evidence, "guards").items()):
        holds = isinstance(verdict, Mapping) and verdict.get("holds") is True
        rows.append((f"guard {_code(metric)}", "holds" if holds else "does not hold"))
    runs = _mapping(entry.lineage, "runs").get("candidate")
    if isinstance(runs, Sequence) and not isinstance(runs, str):
        rows.append(("trials that confirmed it", ", ".join(_code(run) for run in runs)))
    return _table(("what", "found"), iter(rows))


def _links(links: Mapping[str, Json]) -> Iterator[tuple[str, ...]]:
    shown_elsewhere = {"cost", "search", "holdout", "runs", "plan", "settings"}
    for name, value in links.items():
        if name in shown_elsewhere or value is None:
            continue
        if isinstance(value, Mapping) and value:
            yield from ((f"{name}: {_code(key)}", _code(inner)) for key, inner in value.items())
        else:
            yield name, "none" if value in ({}, "none") else _code(value)


def _cost(cost: Mapping[str, Json]) -> Iterator[tuple[str, ...]]:
    for name, value in cost.items():
        yield name, _number(value)


def _limits(entry: CandidatePromoted) -> Iterator[str]:
    yield (
        "The intervals are over repeated runs with other seeds on the same held-out items; what "
        "other items would say is not in them."
    )
    yield "The search score chose the candidate and flatters it; the held-out ones did not."
    if not entry.lineage.get("holdout"):
        yield "Nothing was held out: the program reports its own score."
    if entry.lineage.get("runtime") and not entry.lineage.get("image"):
        yield (
            "It ran on an interpreter of the machine, not in an image: the same bits are to be "
            "expected on the same versions and kind of processor only."
        )
    yield "Nothing is said about any use but the one that the evaluator measures."


def _values(values: Json) -> str:
    if not isinstance(values, Sequence) or isinstance(values, str):
        return "-"
    return ", ".join(_number(value) for value in values) or "-"


def _number(value: Json) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "-"
    return repr(value)


def _mapping(document: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}
