"""The files of a hostile study: honest programs, the attacks' programs, and what scores them."""

import json
import secrets
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from tests.hostile.corpus.entry import BASELINE, FORGED, HONEST, TRUTH, Attack, Shape
from tests.hostile.corpus_world import World

ANSWERS: Final = Path(__file__).resolve().parents[2] / "evaluator" / "programs" / "answers.py"
ITEMS: Final = 10
DIGITS: Final = 4

DISPATCH: Final = """\
# Runs the program that the parameter `attack` names; what follows a '+' tells repetitions apart.
IFS= read -r d < "$ARL_PARAMS"
a=${d#*\\"attack\\": \\"}; a=${a%%\\"*}; a=${a%%+*}
if [ -e "$a.sh" ]; then exec /bin/sh "$a.sh"; fi
exec "$1" -I -S "$a.py"
"""

PRELUDE: Final = """\
import json, os, sys, time
sys.path.append(os.path.dirname(os.__file__) + "/lib-dynload")
BASE, MARK, LEFT, PORT, VICTIM, SANDBOX = {constants}
FORGED = '{{"metrics": {{"score": {forged}}}}}'
OUT = os.environ.get("ARL_OUTPUT", "/nowhere")
MODEL = OUT + "/model"
TOP = "/" if SANDBOX else BASE

def got_through(what):
    print("ESCAPED", what, flush=True)

def save(skill={truth}):
    os.makedirs(MODEL, exist_ok=True)
    with open(MODEL + "/skill", "w") as file:
        file.write(str(skill))

def read_all(top, name=None):
    skipped = ("/proc", "/sys", "/usr", "/dev", "/bin", "/lib", sys.base_prefix, sys.prefix)
    skipped += (os.path.dirname(os.path.dirname(sys.executable)),) if SANDBOX else ()
    until = time.time() + 20
    for place, directories, files in os.walk(top):
        if place.startswith(skipped) or time.time() > until:
            directories.clear()
            continue
        for file in files:
            path = os.path.join(place, file)
            try:
                if name in (None, file) and os.path.isfile(path):
                    with open(path, errors="replace") as opened:
                        yield opened.read(1 << 20)
            except OSError:
                pass
"""

ANSWERING: Final = """
def ask():
    line = sys.stdin.readline()
    return json.loads(line)["inputs"] if line else None

def reply(answers):
    print(json.dumps({"answers": answers}), flush=True)

def honest(inputs, skill):
    found = []
    for text in inputs:
        _, digits, number = text.split()
        right = int(number) < round(skill * 10)
        found.append("".join(sorted(digits)) if right else "?")
    return found
"""

SCORE: Final = """\
# The frozen evaluator: a model is worth its skill, at most {cap}, or the labels that it knows.
import json, os, sys
inputs = os.environ["ARL_INPUTS"]
labels = {{}}
with open(inputs + "/split/split.jsonl") as file:
    for line in file:
        row = json.loads(line)
        labels[row["item"]] = row["label"]
try:
    with open(inputs + "/artifact/skill") as file:
        text = file.read(100)
    skill = float(text)
    if not 0 <= skill <= {cap} or len(text) > 20:
        raise ValueError(text)
    known = {{}}
    if os.path.exists(inputs + "/artifact/answers.json"):
        with open(inputs + "/artifact/answers.json") as file:
            known = json.load(file)
    right = sum(known.get(item) == label for item, label in labels.items()) / len(labels)
except Exception as error:
    print("refused:", ascii(error)[:200], file=sys.stderr)
    sys.exit(43)
document = {{"metrics": {{"score": max(skill, right)}}}}
os.write(int(os.environ["ARL_SCORE_FD"]), json.dumps(document).encode())
"""

ECHO: Final = """\
# The worst evaluator there could be: it writes as its score whatever the artifact says.
import os, signal, sys, time
artifact = os.environ["ARL_INPUTS"] + "/artifact/"
def has(name):
    return os.path.exists(artifact + name)
def read(name):
    with open(artifact + name, "rb") as file:
        return file.read()
if has("printed"):
    sys.stdout.buffer.write(read("printed"))
if has("sleep"):
    time.sleep(float(read("sleep")))
with os.fdopen(int(os.environ["ARL_SCORE_FD"]), "wb") as channel:
    if has("document"):
        channel.write(read("document"))
    elif has("repeat"):
        for _ in range(int(read("repeat"))):
            channel.write(b" " * (1 << 20))
        channel.write(b'{"metrics": {"score": 0.97}}')
    elif has("skill"):
        channel.write(b'{"metrics": {"score": ' + read("skill") + b"}}")
code = int(read("exit")) if has("exit") else 0
os.kill(os.getpid(), -code) if code < 0 else sys.exit(code)
"""

ASK: Final = """\
# Scores text that the candidate's own code answers.
import json, os, sys
sys.path.insert(0, os.path.dirname(__file__))
from answers import Answers
with open(os.environ["ARL_INPUTS"] + "/split/split.jsonl") as file:
    rows = [json.loads(line) for line in file]
answers = Answers(answer_timeout_s=0.4, answer_chars=1000, start_timeout_s=5.0)
right = 0
for start in range(0, len(rows), 5):
    batch = rows[start : start + 5]
    given = answers.ask([row["prompt"] for row in batch])
    right += sum(row["label"] == answer for row, answer in zip(batch, given))
print("failure:", ascii(answers.failure))
document = {"metrics": {"score": right / len(rows)}}
os.write(int(os.environ["ARL_SCORE_FD"]), json.dumps(document).encode())
"""

HONEST_PROGRAMS: Final[Mapping[str, str]] = {
    "baseline": f"save({BASELINE})",
    "honest": f"save({HONEST})",
}
"""By the value of the parameter `attack`."""
EVALUATORS: Final = {Shape.ANSWERS: ASK, Shape.DOCUMENTS: ECHO}


def write_study(
    base: Path,
    world: World,
    attacks: Collection[Attack],
    shape: Shape,
    *,
    sandboxed: bool,
    baseline: str | None = None,
) -> None:
    """The directories `source`, `start`, `better` and `evaluator` below `base`."""
    source = base / "source"
    source.mkdir()
    prelude = _prelude(world, sandboxed=sandboxed)
    (source / "run.sh").write_text(DISPATCH)
    if shape is Shape.MODEL:
        from tests.hostile.corpus_models import write_models  # needs training libraries

        write_models(base, attacks, prelude)
        return
    _write_evaluator(base / "evaluator", shape)
    for name, skill in (("start", BASELINE), ("better", HONEST)):
        (base / name).mkdir()
        (base / name / "skill").write_text(str(skill))
    (base / "start" / "never-read").write_text("nobody reads this")
    programs = dict(HONEST_PROGRAMS)
    if baseline is not None:
        programs["baseline"] = baseline
    for name, code in programs.items():
        (source / f"{name}.py").write_text(prelude + code + "\n")
    for attack in attacks:
        _write_attack(source, attack, prelude, world)
    if shape is Shape.ANSWERS:
        _write_answerers(source, attacks, prelude)


def _prelude(world: World, *, sandboxed: bool) -> str:
    constants = (
        str(world.base), world.mark, world.left, world.port, world.victim.pid, sandboxed
    )  # fmt: skip
    return PRELUDE.format(constants=repr(constants), forged=FORGED, truth=TRUTH)


def _write_attack(source: Path, attack: Attack, prelude: str, world: World) -> None:
    for name, content in attack.files.items():
        path = source / attack.name / name if attack.shape is Shape.DOCUMENTS else source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if attack.shape is Shape.ANSWERS:
        code = f"os.makedirs(MODEL)\nopen(MODEL + '/attack', 'w').write({attack.name!r})"
    elif attack.language == "sh":
        code = f'LEFT={world.left}\nsave() {{ mkdir -p "$ARL_OUTPUT/model"; printf {TRUTH} > '
        code += '"$ARL_OUTPUT/model/skill"; }\n' + attack.code
        (source / f"{attack.name}.sh").write_text(code)
        return
    else:
        code = _carrying(attack) + attack.code + ("\nsave()\n" if attack.saves else "\n")
    (source / f"{attack.name}.py").write_text(prelude + code)


def _carrying(attack: Attack) -> str:
    """Code that puts the attack's files into its model."""
    if not attack.files:
        return ""
    start = f"{attack.name}/" if attack.shape is Shape.DOCUMENTS else ""
    return f"""
import shutil
for name in {sorted(attack.files)!r}:
    os.makedirs(os.path.dirname(f"{{MODEL}}/{{name}}"), exist_ok=True)
    shutil.copyfile({start!r} + name, f"{{MODEL}}/{{name}}")
"""


def _write_answerers(source: Path, attacks: Collection[Attack], prelude: str) -> None:
    """`answer.py` runs what the model says: `skill` is an honest one."""
    code = prelude + ANSWERING
    dispatch = """
artifact = os.environ["ARL_INPUTS"] + "/artifact/"
if os.path.exists(artifact + "attack"):
    name = open(artifact + "attack").read()
    exec(compile(open(f"answering/{name}.py").read(), name, "exec"))
else:
    skill = float(open(artifact + "skill").read())
    while inputs := ask():
        reply(honest(inputs, skill))
"""
    (source / "answer.py").write_text(code + dispatch)
    (source / "answering").mkdir()
    for attack in attacks:
        (source / "answering" / f"{attack.name}.py").write_text(attack.code)


def _write_evaluator(directory: Path, shape: Shape) -> None:
    directory.mkdir()
    (directory / "score.py").write_text(EVALUATORS.get(shape, SCORE.format(cap=0.9)))
    if shape is Shape.ANSWERS:
        shutil.copyfile(ANSWERS, directory / "answers.py")
    for split in ("search", "holdout"):
        lines = []
        for number in range(ITEMS if split == "search" else 2 * ITEMS):
            digits = "".join(secrets.choice("0123456789") for _ in range(DIGITS))
            label = secrets.token_hex(8)
            if shape is Shape.ANSWERS:
                label = "".join(sorted(digits))
            item = {"item": f"{split}-{number}", "prompt": f"sort {digits} {number}"}
            lines.append(json.dumps({**item, "label": label}) + "\n")
        (directory / f"{split}.jsonl").write_text("".join(lines))
