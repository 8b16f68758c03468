"""Outside workers that ask and tell over HTTP as fast as they are let, and what they counted."""

import http.client
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from benchmarks.service_server import Server

PAUSE_S = 0.01
"""Between two asks when no trial was ready."""
WARM_UP = 20
"""Trials that a run begins with and does not count: baselines, first connections."""


@dataclass
class Counted:
    """What the clients of one run saw together."""

    told: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    waits: int = 0
    """Asked when no trial was ready."""
    ended_s: list[float] = field(default_factory=list)
    answers_ms: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def rate_per_s(self) -> float:
        times = sorted(self.ended_s)[WARM_UP:]
        return (len(times) - 1) / (times[-1] - times[0])


class Client(threading.Thread):
    """One outside worker, with one connection: asks, computes nothing, tells."""

    def __init__(self, port: int, study: str, name: str, left: "Left", into: Counted) -> None:
        super().__init__(name=name)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._study = study
        self._left = left
        self._into = into

    def run(self) -> None:
        try:
            while self._left.take():
                self._one()
        except Exception as error:  # noqa: BLE001  # counted, whatever it is
            with self._into.lock:
                self._into.errors[f"{type(error).__name__}: {error}"] += 1
        finally:
            self._connection.close()

    def _one(self) -> None:
        handed = self._ask()
        score = handed["params"]["x"]
        body = {"outcome": "complete", "metrics": {"score": score}}
        began = time.perf_counter()
        status, told = self._post(f"trials/{handed['trial']}/tell", body, handed["token"])
        took_ms = (time.perf_counter() - began) * 1e3
        with self._into.lock:
            if status == 200 and not told["repeated"]:
                self._into.told += 1
                self._into.ended_s.append(time.monotonic())
                self._into.answers_ms.append(took_ms)
            else:
                self._into.errors[f"tell: {status} {told}"] += 1

    def _ask(self) -> Any:
        while True:
            status, handed = self._post(f"studies/{self._study}/ask", {"client": self.name})
            if status == 200:
                return handed
            if status != 202:
                raise RuntimeError(f"ask: {status} {handed}")
            with self._into.lock:
                self._into.waits += 1
            time.sleep(PAUSE_S)

    def _post(self, path: str, body: Any, token: str = "") -> tuple[int, Any]:
        headers = {"Content-Type": "application/json", "Trial-Token": token or "-"}
        self._connection.request("POST", f"/api/v1/{path}", json.dumps(body), headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())


class Left:
    """How many trials are still to be done by all clients together."""

    def __init__(self, trials: int) -> None:
        self._left = trials
        self._lock = threading.Lock()

    def take(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left >= 0


def submit(port: int, *, trials: int, clients: int, name: str = "asked") -> str:
    """A study of so many trials that outside workers are believed of."""
    study = {
        "name": f"{name}-by-{clients}",
        "objective": {"metric": "score", "direction": "maximize"},
        "program": {"kind": "command", "argv": ["/bin/true"]},
        "space": {"x": {"type": "float", "low": 0.0, "high": 1.0}},
        "evaluator": {"mode": "reported", "metrics": {"score": {}}},
        "proposer": {"name": "random"},
        "target": {"name": "outside"},
        "resources": {"cpus": 0.001},
        "noise": {"baseline_trials": 2},
        "parallel": 2 * clients,
        "budget": {"trials": trials},
    }
    status, answer = _send(port, "POST", "/api/v1/studies", {"study": study})
    if status != 201:
        raise RuntimeError(f"the study is refused: {answer}")
    return str(answer["study"])


def run_clients(port: int, study: str, *, clients: int, trials: int) -> Counted:
    """Let so many clients do so many trials together."""
    counted, left = Counted(), Left(trials)
    threads = [Client(port, study, f"client-{n}", left, counted) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counted


def complete_trials(port: int, study: str, told: int) -> int:
    """Complete trials in the ledger, once they are as many as were told, or a minute later."""
    deadline = time.monotonic() + 60
    path = f"/api/v1/studies/{study}/trials?state=complete&count=true&limit=1"
    while True:
        _, found = _send(port, "GET", path)
        if found["total"] >= told or time.monotonic() > deadline:
            return int(found["total"])
        time.sleep(0.1)


def ask_and_tell(server: Server, *, clients: int, trials: int) -> dict[str, Any]:
    """Rates, errors, and what the ledger counts of so many trials, after a few more."""
    study = submit(server.port, trials=trials + WARM_UP, clients=clients)
    before = server.cpu_s()
    counted = run_clients(server.port, study, clients=clients, trials=trials + WARM_UP)
    complete = complete_trials(server.port, study, counted.told)
    times, after = sorted(counted.answers_ms), server.cpu_s()
    return {
        "clients": clients,
        "told": counted.told,
        "counted_by_the_ledger": complete,
        "errors": dict(counted.errors),
        "per_s": counted.rate_per_s(),
        "tell_median_ms": times[len(times) // 2],
        "tell_p99_ms": times[int(0.99 * (len(times) - 1))],
        "asked_too_early": counted.waits,
        "cpu_ms_per_trial": {
            name: (after[name] - before[name]) * 1e3 / max(1, counted.told) for name in after
        },
    }


def _send(port: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()
