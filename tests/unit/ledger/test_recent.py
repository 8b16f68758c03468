"""A process keeps what was used last, and no more than it may."""

from concurrent.futures import ThreadPoolExecutor

from ledger.recent import Recent


def test_what_was_used_last_stays() -> None:
    recent: Recent[int] = Recent(2)
    recent.keep("a", 1)
    recent.keep("b", 2)
    assert recent.find("a") == 1
    recent.keep("c", 3)
    assert (recent.find("a"), recent.find("b"), recent.find("c")) == (1, None, 3)


def test_a_value_that_is_kept_again_takes_no_more_room() -> None:
    recent: Recent[int] = Recent(2)
    for value in range(5):
        recent.keep("a", value)
    recent.keep("b", 9)
    assert (recent.find("a"), recent.find("b")) == (4, 9)


def test_threads_share_it() -> None:
    recent: Recent[int] = Recent(3)

    def use(number: int) -> None:
        recent.keep(str(number % 7), number)
        recent.find(str(number % 5))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(2000)))
    assert sum(recent.find(str(key)) is not None for key in range(7)) == 3
