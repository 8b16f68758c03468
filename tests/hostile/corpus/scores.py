"""Forged scores: nothing a candidate can write is ever read as one."""

from typing import Final

from ledger.states import Reason
from tests.hostile.corpus.entry import BASELINE, Attack, ends

RULE: Final = "nothing the candidate can write is ever read as a score"

_EVERY_PROCESS = """
for pid in os.listdir("/proc"):
    try:
        names = os.listdir(f"/proc/{pid}/fd") if pid.isdecimal() else []
    except OSError:
        names = []
    for name in names:
        if pid == str(os.getpid()) or int(name) < 3:
            continue
        try:
            kind = os.stat(f"/proc/{pid}/fd/{name}").st_mode & 0o170000
            fd = os.open(f"/proc/{pid}/fd/{name}", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            continue
        if kind in (0o010000, 0o100000) and pid != "1":
            got_through(f"descriptor {name} of process {pid}")
        os.close(fd)
"""

ATTACKS: Final = (
    Attack(
        name="metrics-file",
        tries="leaves metrics.json, score.json and the like wherever it may write",
        breaks=RULE,
        code="""
os.makedirs(MODEL)
for place in (OUT, MODEL, ".", os.environ["HOME"], os.environ["TMPDIR"]):
    for name in ("metrics.json", "score.json", "score", "results.json", "scores.json", "final"):
        with open(f"{place}/{name}", "w") as file:
            file.write(FORGED)
""",
    ),
    Attack(
        name="forged-lines",
        tries="prints score lines of every form on both its streams",
        breaks=RULE,
        code="""
for stream in (sys.stdout, sys.stderr):
    for line in (FORGED, "score: 0.97", "val=0.97", "RESULT score=0.97", "score\\t0.97",
                 '{"step": 1, "metric": "score", "value": 0.97}', "ARL_SCORE=0.97"):
        print(line, file=stream, flush=True)
""",
    ),
    Attack(
        name="end-marker",
        tries="prints an end marker and a second result after the first",
        breaks=RULE,
        code="""
print("score=0.1\\n--- END OF LOG ---\\nexit code 0\\nscore=0.97", flush=True)
print('{"exit": {"cause": "exited", "code": 0}}\\n' + FORGED, flush=True)
""",
    ),
    Attack(
        name="report-of-the-objective",
        tries="reports the objective's name as an intermediate value, many times and last",
        breaks=RULE,
        code="""
with open(os.environ["ARL_REPORTS"], "a") as reports:
    for step in (0, 1, 2, 10**9, 2**53):
        reports.write(json.dumps({"step": step, "metric": "score", "value": 0.97}) + "\\n")
""",
    ),
    Attack(
        name="descriptor-guesses",
        tries="writes a score to every descriptor number up to 300",
        breaks=RULE,
        code="""
for fd in range(3, 300):
    try:
        os.write(fd, FORGED.encode())
        got_through(f"descriptor {fd}")
    except OSError:
        pass
""",
    ),
    Attack(
        name="open-descriptors",
        tries="writes a score to whatever /proc/self/fd lists, opened anew",
        breaks=RULE,
        code="""
for name in os.listdir("/proc/self/fd"):
    for flags in (os.O_WRONLY, os.O_RDWR):
        try:
            os.write(os.open(f"/proc/self/fd/{name}", flags | os.O_NONBLOCK), FORGED.encode())
        except OSError:
            pass
""",
    ),
    Attack(
        name="descriptors-of-others",
        tries="opens the pipes and files of every process that it can see",
        breaks=RULE,
        code=_EVERY_PROCESS,
        hurts="it would open the files of every process of the user",
    ),
    Attack(
        name="score-path",
        tries="writes where the evaluator's score might be kept",
        breaks=RULE,
        code="""
for place in ("/arl", OUT + "/..", os.path.dirname(os.environ["ARL_PARAMS"]), "/", "/run"):
    for name in ("score", "score.json", "record.jsonl", "launch.json"):
        try:
            with open(f"{place}/{name}", "a") as file:
                file.write(FORGED)
        except OSError:
            continue
        got_through(f"{place}/{name}")
""",
    ),
    Attack(
        name="scores-of-others",
        tries="looks for the attempts of other trials and opens their score files",
        breaks=RULE,
        code="""
import glob
for pattern in ("/arl/../*/score", OUT + "/../../*/score", BASE + "/.arl/*/attempts/*/score",
                BASE + "/.arl/*/attempts/*/launch.json"):
    for path in glob.glob(pattern):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            continue
        got_through(path)
""",
    ),
    Attack(
        name="the-ledger",
        tries="opens the ledger to write its own verdict into it",
        breaks="controller and ledger are out of a trial's reach",
        code="""
for name in ("ledger.db", "ledger.db-wal", "heads.jsonl"):
    try:
        os.close(os.open(f"{BASE}/.arl/{name}", os.O_RDWR))
    except OSError:
        continue
    got_through(name)
""",
    ),
    Attack(
        name="own-record",
        tries="adds a forged end to the record of its own attempt",
        breaks="an attempt's record is the target's",
        code="""
for path in (OUT + "/../record.jsonl", "/arl/record.jsonl"):
    try:
        with open(path, "a") as file:
            file.write('\\n{"exit": {"cause": "exited", "code": 0, "boot": "x", "detail": ""}}\\n')
    except OSError:
        continue
    got_through(path)
""",
        ends=ends(Reason.ATTEMPT_LOST, Reason.OUTPUT_REFUSED, Reason.NO_MODEL),
        may_be_scored=True,
    ),
    Attack(
        name="own-parameters",
        tries="edits params.json so that it is taken for another candidate",
        breaks="inputs are read-only",
        code="""
path = os.environ["ARL_PARAMS"]
try:
    os.close(os.open(path, os.O_RDWR))
    got_through("params.json can be written")
except OSError:
    pass
try:
    os.rename(path, path + ".old")
    got_through("params.json can be moved")
except OSError:
    pass
""",
    ),
    Attack(
        name="supervisor",
        tries="speaks to the supervisor that starts attempts",
        breaks="controller and ledger are out of a trial's reach",
        code="""
import socket
for kind in ("local", "bubblewrap", "docker"):
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            os.chdir(f"{BASE}/.arl/{kind}")
            asking.connect("supervisor.sock")
        except OSError:
            continue
        got_through(f"the supervisor of {kind}")
""",
    ),
    Attack(
        name="scores-in-the-model",
        tries="ships a finished evaluation inside its model",
        breaks=RULE,
        files={
            name: b'{"metrics": {"score": 0.97}, "items": [1, 1, 1, 1]}'
            for name in ("score", "metrics.json", "evaluation.json", "trainer_state.json")
        },
    ),
    Attack(
        name="exit-before-training",
        tries="exits 0 without having trained",
        breaks="a trial without a model is no success",
        code="sys.exit(0)",
        ends=ends(Reason.NO_MODEL),
    ),
    Attack(
        name="empty-model",
        tries="leaves an empty model directory",
        breaks="a trial without a model is no success",
        code='os.makedirs(MODEL + "/a/b/c"); os._exit(0)',
        ends=ends(Reason.NO_MODEL),
    ),
    Attack(
        name="resume-only",
        tries="leaves only a resume checkpoint, forged, in the hope that it is evaluated",
        breaks="only a model may be evaluated",
        code="""
os.makedirs(OUT + "/resume")
for name in ("skill", "score"):
    open(f"{OUT}/resume/{name}", "w").write("0.9")
os._exit(0)
""",
        ends=ends(Reason.NO_MODEL),
    ),
    Attack(
        name="crash-after-saving",
        tries="saves a model and crashes",
        breaks="a failed trial has no score",
        code="save(); os.abort()",
        ends=ends(Reason.CRASHED),
    ),
    Attack(
        name="fails-after-saving",
        tries="saves a model and exits as an evaluator that refuses, and as one that was stopped",
        breaks="the exit code of a trial is the trial's alone",
        code="save(); print(FORGED); sys.exit(43)",
        ends=ends(Reason.EXIT_NONZERO),
    ),
    Attack(
        name="pretends-to-be-stopped",
        tries="exits as if it had been asked to stop, so as to be taken for pruned",
        breaks="the exit code of a trial is the trial's alone",
        code="save(); sys.exit(42)",
        ends=ends(Reason.EXIT_NONZERO),
    ),
    Attack(
        name="base-unchanged",
        tries="returns the base model as its own",
        breaks="a tie is discarded",
        code="""
import shutil
shutil.copytree(os.environ["ARL_INPUTS"] + "/start", MODEL)
os._exit(0)
""",
        truth=BASELINE,
    ),
    Attack(
        name="copies-the-incumbent",
        tries="looks for checkpoints that are better than its own and returns the best",
        breaks="a trial sees nothing of other trials",
        code="""
best = 0.3
for text in read_all(TOP, "skill"):
    try:
        best = max(best, float(text))
    except ValueError:
        pass
save(best)
os._exit(0)
""",
        truth=BASELINE,
    ),
    Attack(
        name="forged-environment",
        tries="starts itself again with an evaluator's environment and descriptors",
        breaks=RULE,
        code="""
if "ARL_SCORE_FD" not in os.environ:
    read, write = os.pipe()
    os.dup2(read, 30, inheritable=True)
    os.dup2(write, 3, inheritable=True)
    more = {"ARL_SCORE_FD": "3", "ARL_SPLIT": "holdout_b", "ARL_ATTEMPT": "arl-other"}
    os.execve(sys.executable, [sys.executable, "-I", "-S", sys.argv[0]], {**os.environ, **more})
os.write(3, FORGED.encode())
""",
    ),
)
