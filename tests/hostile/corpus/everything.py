"""Every attack there is, by its name."""

from collections.abc import Mapping
from typing import Final

from tests.hostile.corpus import (
    answers,
    documents,
    leftovers,
    models,
    network,
    outputs,
    reach,
    replays,
    resources,
    scores,
    texts,
)
from tests.hostile.corpus.entry import Attack, Shape

KINDS: Final[Mapping[str, tuple[Attack, ...]]] = {
    "Forged scores": scores.ATTACKS,
    "Outputs and code in them": outputs.ATTACKS,
    "Networks and sockets": network.ATTACKS,
    "Held-out data and the machine": reach.ATTACKS,
    "Leftovers from one trial to the next": leftovers.ATTACKS,
    "Taking what the machine has": resources.ATTACKS,
    "Words": texts.ATTACKS,
    "Score documents": documents.ATTACKS,
    "Answerers": answers.ATTACKS,
    "Models": models.ATTACKS,
    "Replays": replays.ATTACKS,
}

ATTACKS: Final[Mapping[str, Attack]] = {
    attack.name: attack for kind in KINDS.values() for attack in kind
}
assert len(ATTACKS) == sum(map(len, KINDS.values())), "two attacks of one name"


def of_shape(shape: Shape, *, slow: bool = False) -> tuple[Attack, ...]:
    """Those of a shape, the slow ones only when asked for."""
    return tuple(a for a in ATTACKS.values() if a.shape is shape and (slow or not a.slow))


FIRST: Final = frozenset(
    {
        *("metrics-file", "forged-lines", "end-marker", "descriptor-guesses", "open-descriptors"),
        *("score-path", "exit-before-training", "base-unchanged", "copies-the-incumbent"),
        *("shadows-sitecustomize", "shadows-json", "pth-file", "bundle-in-the-source"),
        *("git-hooks", "pickled-checkpoint", "swapped-after-exit", "link-to-a-host-file", "fifo"),
        *("device-node", "setuid", "newline-in-a-name", "without-permissions"),
        *("fork-bomb", "sleeping-fork-bomb", "allocates-for-ever", "child-killed-for-memory"),
        *("memory-on-shm", "fills-the-output", "fills-its-scratch", "endless-output"),
        *("ignores-sigterm", "daemon", "kills-everything", "flood-of-reports"),
        *("controller-socket", "public-address", "gateway-and-metadata", "docker-socket"),
        *("abstract-socket", "held-out-in-files", "held-out-in-proc", "dot-dot", "canary"),
        *("inherited-descriptors", "secrets-in-the-environment", "writes-its-inputs"),
        *("writes-the-system", "traces-and-signals", "kernel-settings", "kernel-memory"),
        *("control-groups", "gains-privileges", "cache-in-tmp", "cache-in-home"),
        *("cache-in-shared-memory", "keyring", "counts-its-runs", "access-times"),
        *("prompt-injection-in-the-log", "prompt-injection-in-file-names"),
        *("prompt-injection-in-metric-names", "reports-of-no-number", "document-nan"),
        *("document-infinity", "document-overflow", "document-number-as-text"),
        *("document-true-as-number", "document-duplicate-key", "document-of-a-gigabyte"),
        *("document-then-failure", "document-never", "answerer-reads-labels"),
        *("answerer-sees-the-bundle", "answerer-writes-a-score", "answerer-network"),
        *("answers-without-an-end", "answers-too-late", "answers-after-leaving"),
        *("answerer-memory", "good-when-screened-only"),
    }
)
"""The starting corpus of the design and what depends on the target most: run on a container
engine, too, whenever tests run. The others are run there with the slow ones."""
assert ATTACKS.keys() >= FIRST, f"no such attacks: {sorted(FIRST - ATTACKS.keys())}"
