"""The table of verbs: what each is for, and where it is found once it is asked for."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Verb:
    name: str
    module: str
    """Below controller.cli; it has a function of the verb's name (`db` is `db_command`, …)."""
    function: str
    summary: str


def _verb(name: str, module: str, summary: str, function: str = "") -> Verb:
    return Verb(name, f"controller.cli.{module}", function or name, summary)


GROUPS: Final[tuple[tuple[str, tuple[Verb, ...]], ...]] = (
    (
        "Begin",
        (
            _verb("init", "beginning", "make a runnable example study in a new directory"),
            _verb(
                "plan", "planning", "check a study file and say what it would cost; runs nothing"
            ),
            _verb(
                "import", "importing", "take over another tool's study as history", "import_study"
            ),
            _verb("schema", "planning", "print the JSON Schema of a study file"),
            _verb("doctor", "doctor", "say what works on this machine, and what to do"),
        ),
    ),
    (
        "Run",
        (
            _verb("run", "running", "run a study here, with live progress, to its end"),
            _verb("resume", "running", "go on with interrupted or paused studies"),
            _verb("submit", "running", "store a study; a worker will run it"),
            _verb("worker", "running", "drive whatever studies wait, until stopped"),
            _verb("serve", "serving", "serve the API and the dashboard, with a worker beside"),
            _verb(
                "serve-model",
                "serve_model",
                "start vLLM with a promoted model, or gate an adapter in a running one",
                "serve_model",
            ),
            _verb(
                "campaign",
                "campaign",
                "serve, learn from consented experience, watch, and roll back",
            ),
        ),
    ),
    (
        "Look",
        (
            _verb("studies", "looking", "list the studies"),
            _verb("show", "looking", "show a study, a trial or a candidate"),
            _verb("logs", "logs", "print what a trial's program said"),
            _verb("lineage", "looking", "show where a candidate came from, and what became of it"),
            _verb("notifications", "notifications", "list what webhooks were told; send it again"),
            _verb("export", "exporting", "write a study's trials as csv, json or parquet"),
        ),
    ),
    (
        "Steer",
        (
            _verb("pause", "asking", "start no more trials; running ones go on"),
            _verb("stop", "asking", "let running trials finish, then complete the study"),
            _verb("cancel", "asking", "end the study and everything it runs, now"),
            _verb("extend", "asking", "raise a study's budgets"),
            _verb("trial", "asking", "try these parameters next"),
            _verb("replay", "asking", "put a candidate before the promotion gate"),
            _verb("promote", "asking", "approve a passed candidate, or put it before the gate"),
            _verb("decline", "asking", "refuse a promotion that awaits approval"),
            _verb("convert", "converting", "merge or quantise a promoted model, and judge it"),
        ),
    ),
    (
        "Trust",
        (
            _verb("models", "models", "list models, name promotions, roll back to an earlier one"),
            _verb("evidence", "evidence", "sign a promotion and write its evidence"),
            _verb("keys", "evidence", "list, renew or export the key that promotions sign with"),
            _verb("verify", "verifying", "recompute the ledger's chains, sums and artifacts"),
            _verb("reproduce", "reproducing", "write a bundle with which anyone repeats a trial"),
            _verb("gc", "gc", "free what retention does not keep and nothing needs"),
            _verb("db", "database", "check, upgrade or back up the ledger; accept an older one"),
            _verb("token", "serving", "make, list or revoke access tokens"),
        ),
    ),
)

VERBS: Final[dict[str, Verb]] = {verb.name: verb for _, verbs in GROUPS for verb in verbs}

ON_SERVER: Final = frozenset(
    "plan schema submit run resume studies show logs lineage notifications export pause stop "
    "cancel extend trial replay promote decline convert models evidence verify token".split()
)
"""Verbs that work on a server, too."""
SERVER_OPTIONS: Final = {"--server": "ARL_SERVER", "--token": "ARL_TOKEN"}

FOOTER: Final = """\
With --server URL (or ARL_SERVER) and --token (or ARL_TOKEN) verbs work on a server's ledger.
Studies are named by id, by a unique name or beginning of the id, or as `last`; trials as
STUDY/NUMBER. Every verb takes --json and explains itself with --help. The ledger is in ./.arl
unless ARL_HOME says otherwise.
"""


def overview() -> str:
    """What `arl --help` prints: made from this table alone, so that it is instant."""
    lines = ["Usage: arl VERB …", "", "Searches, scores, replays and promotes; never forgets.", ""]
    width = max(map(len, VERBS)) + 2
    for title, verbs in GROUPS:
        lines.append(f"{title}:")
        lines += [f"  {verb.name:<{width}}{verb.summary}" for verb in verbs]
        lines.append("")
    return "\n".join(lines) + FOOTER
