"""The look for commits that event streams share."""

import threading
from pathlib import Path

from ledger.commit_watch import CommitWatch
from ledger.database import open_ledger


def test_it_may_be_closed_while_another_thread_looks(tmp_path: Path) -> None:
    """A connection that is closed while it is used takes the whole process down."""
    ledger = open_ledger(tmp_path / "ledger.db", create=True)
    answers: list[bool] = []
    for _ in range(200):
        watch = CommitWatch(ledger)
        looking = threading.Thread(
            target=lambda seen=watch: answers.extend(seen.has_news() for _ in range(20))
        )
        looking.start()
        watch.close()
        looking.join()
    ledger.close()
    assert len(answers) == 4000
    assert any(answers)
