"""The in-toto statement of a promotion, with SLSA provenance: pure functions.

in-toto Attestation Framework, Statement v1; SLSA v1.0, Provenance predicate v1.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller.documents.times import iso
from ledger.entries import CandidatePromoted
from ledger.records import Json

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://slsa.dev/provenance/v1"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
BUILD_TYPE: Final = "urn:arl:promotion:v1"
TREE_TYPE: Final = "application/vnd.arl.tree+json"
"""A tree's digest is the sha256 of its manifest: the canonical JSON of [path, mode, size, sha256]
of every file."""
MODEL_FOLDER: Final = "model"

Manifest = Sequence[tuple[str, int, int, str]]


def make_statement(
    entry: CandidatePromoted,
    *,
    study: str,
    at: float,
    ledger: str,
    version: str,
    files: Manifest,
    byproducts: Mapping[str, str],
) -> dict[str, Json]:
    """Who made what of what.

    Args:
        files: what the artifact holds.
        byproducts: sha256 by name of what lies beside the statement.
    """
    links = entry.lineage
    return {
        "_type": STATEMENT_TYPE,
        "subject": list(_subjects(entry, files)),
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "model": entry.model,
                    "promotion": entry.incumbent_seq,
                    "parameters": links.get("parameters") or {},
                    "program": links.get("program"),
                    "objective": links.get("objective"),
                },
                "internalParameters": {
                    name: links.get(name)
                    for name in ("settings", "plan", "seeds", "runtime", "libraries", "hardware")
                },
                "resolvedDependencies": list(_dependencies(links)),
            },
            "runDetails": {
                "builder": {"id": f"urn:arl:ledger:{ledger}", "version": {"arl": version}},
                "metadata": {"invocationId": f"{study}/{entry.family_id}", "finishedOn": iso(at)},
                "byproducts": [
                    {"name": name, "digest": {"sha256": digest}}
                    for name, digest in sorted(byproducts.items())
                ],
            },
        },
    }


def _subjects(entry: CandidatePromoted, files: Manifest) -> Iterable[Json]:
    tree = entry.artifact_digest
    yield {"name": MODEL_FOLDER, "digest": {"sha256": tree}, "mediaType": TREE_TYPE}
    for path, _, _, digest in files:
        yield {"name": f"{MODEL_FOLDER}/{path}", "digest": {"sha256": digest}}


def _dependencies(links: Mapping[str, Json]) -> Iterable[Json]:
    for name, digest in _digests(links):
        yield {"name": name, "digest": {"sha256": digest}, "mediaType": TREE_TYPE}
    image = links.get("image")
    if isinstance(image, str):
        found: dict[str, Json] = {"name": "image", "uri": image}
        _, at, digest = image.rpartition("sha256:")
        if at:
            found["digest"] = {"sha256": digest}
        yield found


def _digests(links: Mapping[str, Json]) -> Iterable[tuple[str, str]]:
    base, evaluator, data = links.get("base"), links.get("evaluator"), links.get("data")
    program = links.get("program")
    named: dict[str, Json] = {"base": base, "evaluator": evaluator}
    if isinstance(program, Mapping):
        named |= {"source": program.get("source"), "code": program.get("code")}
    if isinstance(data, Mapping):
        named |= {f"data/{name}": digest for name, digest in data.items()}
    return ((name, digest) for name, digest in named.items() if isinstance(digest, str))


def subject_digests(statement: Mapping[str, Json]) -> dict[str, str]:
    """sha256 by name of what a statement is about. Raises ValueError: it is no statement of a
    promotion."""
    if (statement.get("_type"), statement.get("predicateType")) != (
        STATEMENT_TYPE,
        PREDICATE_TYPE,
    ):
        raise ValueError("it is no in-toto statement with SLSA provenance")
    return _named_digests(statement.get("subject"))


def byproduct_digests(statement: Mapping[str, Json]) -> dict[str, str]:
    """The same of what lies beside it. Raises ValueError."""
    found: Json = statement.get("predicate")
    for name in ("runDetails", "byproducts"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return _named_digests(found)


def _named_digests(listed: Json) -> dict[str, str]:
    found: dict[str, str] = {}
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise ValueError("it lists nothing")
    for one in listed:
        digest = one.get("digest") if isinstance(one, Mapping) else None
        if not isinstance(one, Mapping) or not isinstance(digest, Mapping):
            raise ValueError("what it lists has no digest")
        found[str(one.get("name"))] = str(digest.get("sha256"))
    return found
