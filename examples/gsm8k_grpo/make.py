"""Makes what the study needs from GSM8K's two files and a directory of Qwen2.5-0.5B-Instruct."""

import argparse
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from examples.demo_inputs import write_evaluator

HERE: Final = Path(__file__).parent
HELDOUT_ROWS: Final = 256
SYSTEM: Final = "Reason step by step. Then write the answer alone on the last line, after ####."
TOKENIZER: Final = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def write_study(directory: Path, *, base: Path, train: Path, test: Path) -> None:
    """Data, evaluator and study below `directory`; the test rows are halved into the splits."""
    rows = read_rows(train)
    write_rows(directory / "data" / "heldout.jsonl", rows[:HELDOUT_ROWS])
    write_rows(directory / "data" / "train.jsonl", rows[HELDOUT_ROWS:])
    items = read_rows(test)
    write_rows(directory / "evaluator" / "search.jsonl", items[::2])
    write_rows(directory / "evaluator" / "holdout.jsonl", items[1::2])
    write_evaluator(directory / "evaluator", "pass_at_k")
    (directory / "evaluator" / "tokenizer").mkdir()
    for name in TOKENIZER:
        if (base / name).is_file():
            shutil.copyfile(base / name, directory / "evaluator" / "tokenizer" / name)
    shutil.copyfile(HERE / "study.yaml", directory / "study.yaml")
    (directory / "base").symlink_to(base.resolve())


def read_rows(path: Path) -> list[dict[str, Any]]:
    """GSM8K's rows as prompts; an answer is the number after ####, as plain as it can be."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        asked = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": row["question"]},
        ]
        answer = row["answer"].rpartition("####")[2].strip()
        plain = answer.replace(",", "")
        rows.append({"prompt": asked, "answer": sorted({answer, plain, f"{int(plain):,}"})})
    return rows


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    for name in ("base", "train", "test"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    given = parser.parse_args()
    write_study(given.directory, base=given.base, train=given.train, test=given.test)
    print(f"made {given.directory}: now cd {given.directory} && arl plan study.yaml")


if __name__ == "__main__":
    main()
