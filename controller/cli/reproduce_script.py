"""Repeats one trial and its evaluation from the files beside this one. Standard library only.

    python reproduce.py [--python INTERPRETER] [--workspace DIR] [--json]

Exit code 0: the same model to the bit, or every score inside its stated interval. 1: neither.
2: the trial or its evaluation did not run to its end, or the files beside this one changed.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve().parent
CHUNK = 1024 * 1024
SAME, INSIDE, DIFFERENT, BROKEN = "same_model", "inside_interval", "different", "broken"
SCORE_FD, ASK_FD, ANSWER_FD = 3, 4, 5
"""The numbers that ARL itself gives, for programs that take them for granted."""
PLACE_FDS = (
    "import fcntl, os, sys\n"
    "count = int(sys.argv[1])\n"
    "given = [tuple(map(int, pair.split(':'))) for pair in sys.argv[2 : 2 + count]]\n"
    "kept = [(fcntl.fcntl(fd, fcntl.F_DUPFD, 100), number) for fd, number in given]\n"
    "[os.close(fd) for fd, _ in given]\n"
    "[(os.dup2(fd, number), os.close(fd)) for fd, number in kept]\n"
    "os.execv(sys.argv[2 + count], sys.argv[2 + count :])\n"
)
EXIT_CODES = {SAME: 0, INSIDE: 0, DIFFERENT: 1, BROKEN: 2}


class Broken(Exception):
    """It could not be repeated at all."""


# --- digests -----------------------------------------------------------------------------------


def file_digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            found.update(chunk)
    return found.hexdigest()


def tree_digest(root: Path) -> str:
    """sha256 of the canonical JSON list of [path, mode, size, sha256], mode 0o644 or 0o755."""
    files = []
    for path in sorted(root.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        mode = 0o755 if path.stat().st_mode & 0o111 else 0o644
        name = path.relative_to(root).as_posix()
        files.append([name, mode, path.stat().st_size, file_digest(path)])
    text = json.dumps(sorted(files), separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def check_files(recipe: dict[str, Any]) -> None:
    for place, digest in recipe["trees"].items():
        if tree_digest(HERE / place) != digest:
            raise Broken(f"{place} is not what was written: its digest is not {digest}")


# --- programs ----------------------------------------------------------------------------------


def place(text: str, places: dict[str, str]) -> str:
    for name, path in places.items():
        text = text.replace("{" + name + "}", path)
    return text


def lay_out(step: dict[str, Any], work: Path, inputs: dict[str, Path]) -> dict[str, str]:
    """The directories of one program, and what its placeholders stand for."""
    for part in ("inputs", "output", "home"):
        (work / part).mkdir(parents=True)
    for name, source in inputs.items():
        (work / "inputs" / name).symlink_to(source)
    if step["working_input"] is None:
        (work / "work").mkdir()
    else:
        shutil.copytree(inputs[step["working_input"]], work / "work")
    (work / "reports.jsonl").touch()
    return {name: str(work / "inputs" / name) for name in inputs}


def environment(step: dict[str, Any], work: Path, places: dict[str, str]) -> dict[str, str]:
    found = {name: place(value, places) for name, value in step["environment"].items()}
    return {
        **found,
        "HOME": str(work / "home"),
        "TMPDIR": str(work / "home"),
        "ARL_ATTEMPT": work.name,
        "ARL_PARAMS": str(work / "params.json"),
        "ARL_REPORTS": str(work / "reports.jsonl"),
        "ARL_STOP": str(work / "stop"),
        "ARL_OUTPUT": str(work / "output"),
        "ARL_INPUTS": str(work / "inputs"),
    }


def prepare(step: dict[str, Any], work: Path, inputs: dict[str, Path], python: str) -> Any:
    """argv, environment and working directory of one program."""
    places = lay_out(step, work, inputs)
    document = {
        **step["document"],
        "inputs": dict(places),
        "output": str(work / "output"),
        "workspace": str(work / "work"),
        "resume": None,
    }
    (work / "params.json").write_text(json.dumps(document), encoding="utf-8")
    places["python"] = python
    argv = [place(part, places) for part in step["argv"]]
    env = environment(step, work, places)
    argv[0] = argv[0] if "/" in argv[0] else shutil.which(argv[0], path=env["PATH"]) or argv[0]
    return argv, env, work / "work"


def run(argv: list[str], env: dict[str, str], cwd: Path, log: IO[bytes], **more: Any) -> None:
    timeout_s = more.pop("timeout_s")
    try:
        subprocess.run(
            argv, env=env, cwd=cwd, stdout=log, stderr=log, check=True, timeout=timeout_s, **more
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Broken(f"{' '.join(argv)}: {error}; its output is in {log.name}") from error


def train(recipe: dict[str, Any], work: Path, python: str | None) -> Path:
    step = recipe["train"]
    inputs = {name: HERE / at for name, at in step["inputs"].items()}
    argv, env, cwd = prepare(step, work, inputs, interpreter(step, python))
    with (work / "log").open("wb") as log:
        run(argv, env, cwd, log, stdin=subprocess.DEVNULL, timeout_s=step["timeout_s"])
    return work / "output" / "model"


def interpreter(step: dict[str, Any], asked: str | None) -> str:
    """The one that was asked for, the recorded one where it exists, else this one."""
    recorded = step["python"]
    if asked is not None:
        return asked
    return recorded if shutil.which(recorded) is not None else sys.executable


def evaluate(
    recipe: dict[str, Any], split: str, model: Path, work: Path, python: str | None
) -> float:
    step = recipe["evaluate"]
    inputs = {name: HERE / at for name, at in step["inputs"].items()}
    inputs["artifact"] = model
    if split in step["splits"]:
        inputs["split"] = HERE / step["splits"][split]
    argv, env, cwd = prepare(step, work, inputs, interpreter(step, python))
    env["ARL_SPLIT"] = split
    with (work / "log").open("wb") as log, (work / "score").open("wb") as score:
        fds = [score.fileno()]
        env["ARL_SCORE_FD"] = str(SCORE_FD)
        answerer = None
        if step["answerer"] is not None:
            answerer, ends = start_answerer(recipe, model, work / "answerer", python)
            env["ARL_ASK_FD"], env["ARL_ANSWER_FD"] = str(ASK_FD), str(ANSWER_FD)
            fds += ends
        numbers = (SCORE_FD, ASK_FD, ANSWER_FD)[: len(fds)]
        placed = [f"{fd}:{number}" for fd, number in zip(fds, numbers, strict=True)]
        argv = [sys.executable, "-I", "-c", PLACE_FDS, str(len(placed)), *placed, *argv]
        try:
            run(argv, env, cwd, log, pass_fds=fds, timeout_s=step["timeout_s"])
        finally:
            if answerer is not None:
                answerer.kill()
                answerer.wait()
                for fd in fds[1:]:
                    os.close(fd)
    return read_score(work / "score", recipe["metric"])


def start_answerer(
    recipe: dict[str, Any], model: Path, work: Path, python: str | None
) -> tuple["subprocess.Popen[bytes]", list[int]]:
    """The candidate's program, asked by the evaluator through two pipes."""
    step = recipe["evaluate"]["answerer"]
    inputs = {name: HERE / at for name, at in step["inputs"].items()}
    inputs["artifact"] = model
    argv, env, cwd = prepare(step, work, inputs, interpreter(step, python))
    asked, ask = os.pipe()
    answer, answered = os.pipe()
    with (work / "log").open("wb") as log:
        process = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=asked, stdout=answered, stderr=log
        )
    os.close(asked)
    os.close(answered)
    return process, [ask, answer]


def read_score(path: Path, metric: str) -> float:
    try:
        return float(json.loads(path.read_bytes())["metrics"][metric])
    except (ValueError, KeyError, TypeError) as error:
        raise Broken(f"the evaluator gave no score: {error}") from error


def reported(path: Path, metric: str) -> float:
    """`reported` mode: the program's own last value of the metric."""
    found = None
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            report = json.loads(line)
            if report["metric"] == metric:
                found = float(report["value"])
        except (ValueError, KeyError, TypeError):
            continue
    if found is None:
        raise Broken(f"the program reported no {metric}")
    return found


# --- the whole ---------------------------------------------------------------------------------


def repeat(recipe: dict[str, Any], workspace: Path, python: str | None) -> dict[str, Any]:
    check_files(recipe)
    model = train(recipe, workspace / "train", python)
    digest = tree_digest(model) if model.is_dir() else None
    scores = {}
    for split in recipe["expected"]:
        if recipe["evaluate"] is None:
            scores[split] = reported(workspace / "train" / "reports.jsonl", recipe["metric"])
        else:
            scores[split] = evaluate(recipe, split, model, workspace / split, python)
    inside = all(
        found["low"] <= scores[split] <= found["high"]
        for split, found in recipe["expected"].items()
    )
    same = digest is not None and digest == recipe["artifact"]
    return {
        "outcome": SAME if same and inside else INSIDE if inside else DIFFERENT,
        "artifact": digest,
        "expected_artifact": recipe["artifact"],
        "scores": scores,
        "expected": recipe["expected"],
    }


def tell(result: dict[str, Any]) -> None:
    if result["outcome"] == BROKEN:
        print(f"not repeated: {result['error']}", file=sys.stderr)
        return
    same = result["artifact"] == result["expected_artifact"]
    print(f"model: {'the same to the bit' if same else 'other bytes'} ({result['artifact']})")
    for split, found in result["expected"].items():
        score = result["scores"][split]
        inside = "inside" if found["low"] <= score <= found["high"] else "OUTSIDE"
        print(
            f"{split}: {score:.6g}, {inside} {found['low']:.6g} to {found['high']:.6g} "
            f"(was {found['value']:.6g})"
        )
    print(
        {SAME: "repeated exactly", INSIDE: "repeated", DIFFERENT: "NOT repeated"}[
            result["outcome"]
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", help="interpreter for the programs; default: as recorded")
    parser.add_argument("--workspace", type=Path, help="a new directory to work in, and to keep")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    recipe = json.loads((HERE / "reproduction.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="reproduce-") as spare:
        workspace = (options.workspace or Path(spare, "work")).absolute()
        try:
            workspace.mkdir(parents=True)
            result = repeat(recipe, workspace, options.python)
        except (Broken, OSError) as error:
            result = {"outcome": BROKEN, "error": str(error)}
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        tell(result)
    return EXIT_CODES[result["outcome"]]


if __name__ == "__main__":
    sys.exit(main())
