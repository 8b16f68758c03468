"""The process that is a driver of a Ray cluster on behalf of a controller.

A process of its own: Ray's driver takes over signals, ends its process when the cluster is gone,
and one process can be a driver of one cluster only. It keeps nothing that is not in the cluster
or in the shared store too, and leaves when its controller does.
"""

import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, Final

import ray
import ray.cloudpickle
from ray.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from targets.ray_job import actor as ray_actor
from targets.ray_job.room import elsewhere, lacking

_WATCH_S: Final = 20.0
_CALL_S: Final = 10.0
_ASK_S: Final = 180.0
_STUCK_EVERY_S: Final = 5.0
_THREADS: Final = 16
_WATCHERS: Final = 16

Answer = dict[str, Any]


class Bridge:
    """Serves one controller. Each request has an id; answers and events go out as they come."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection = connection
        self._namespace = namespace
        self._sending = threading.Lock()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="arl-ray")
        self._watched: dict[str, int] = {}
        """Names, and how much of each journal the controller has been told of."""
        self._answered: set[str] = set()
        self._actors: dict[str, Any] = {}
        self._due: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        ray.cloudpickle.register_pickle_by_value(ray_actor)
        ray.method(concurrency_group="watch")(ray_actor.AttemptActor.news)
        self._actor = ray.remote(
            max_restarts=0, max_concurrency=4, concurrency_groups={"watch": _WATCHERS}
        )(ray_actor.AttemptActor)
        self._answer_here = ray.remote(num_cpus=0, max_retries=2, max_calls=1)(
            ray_actor.answer_here
        )

    def serve(self) -> None:
        """Until the controller closes its end."""
        threading.Thread(target=self._run_due, name="arl-ray-due", daemon=True).start()
        threading.Thread(target=self._look_for_stuck, name="arl-ray-stuck", daemon=True).start()
        while True:
            try:
                request = self._connection.recv()
            except (EOFError, OSError):
                return
            self._pool.submit(self._handle, request)

    def _handle(self, request: Answer) -> None:
        operation = getattr(self, f"do_{request['op']}")
        try:
            answer = {"ok": True, "value": operation(**request["with"])}
        except Exception as error:  # noqa: BLE001 - told to the controller, whatever it is
            said = " ".join(str(error).split())[:500]
            answer = {"ok": False, "kind": type(error).__name__, "said": said}
        self._send({"id": request["id"], **answer})

    def _send(self, message: Answer) -> None:
        with self._sending:
            try:
                self._connection.send(message)
            except OSError:
                pass  # the controller is gone; serve() notices

    # --- operations --------------------------------------------------------------------------

    def do_launch(
        self,
        name: str,
        pieces: list[bytes],
        bundle: dict[str, float],
        shunned: list[str],
        launch_by: float | None,
    ) -> Answer:
        """Start its actor unless it has one; `lacking` says why it could never be placed."""
        if self._find(name) is not None:
            return {"state": "found"}
        why = lacking(bundle, shunned)
        if why:
            return {"state": "lacking", "lacking": why}
        if launch_by is not None and time.monotonic() > launch_by:
            return {"state": "late"}
        group = self._find_group(name) or self._make_group(name, bundle, shunned)
        amounts = dict(bundle)
        self._actors[name] = self._actor.options(
            name=name,
            namespace=self._namespace,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=amounts.pop("CPU", 0),
            num_gpus=amounts.pop("GPU", 0),
            memory=amounts.pop("memory", None),
            resources=amounts or None,
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, 0),
        ).remote(*pieces)
        return {"state": "started"}

    def do_states(self, names: list[str]) -> dict[str, str]:
        """`gone`, `waiting` for room, or `placed`."""
        return {name: self._state(name) for name in names}

    def do_call(self, name: str, method: str, arguments: list[Any]) -> Answer:
        """What its actor answers, or the state that keeps it from answering."""
        if name not in self._answered and (state := self._state(name)) != "placed":
            return {"state": state}
        actor = self._find(name)
        if actor is None:
            return {"state": "gone"}
        try:
            call = getattr(actor, method).remote(*arguments)
            return {"state": "answered", "value": ray.get(call, timeout=_CALL_S)}
        except ray.exceptions.GetTimeoutError:
            return {"state": "silent"}
        except ray.exceptions.RayActorError:
            self._forget(name)
            return {"state": "gone"}

    def do_watch(self, name: str) -> None:
        if name not in self._watched:
            self._watched[name] = 0
            self._ask_for_news(name, 0.0)

    def do_unwatch(self, name: str) -> None:
        self._watched.pop(name, None)
        self._forget(name)

    def do_cancel(self, name: str) -> None:
        """Take its place in the cluster away, and with it whatever runs there. Idempotent."""
        actor = self._find(name)
        if actor is not None:
            ray.kill(actor)
        group = self._find_group(name)
        if group is not None:
            remove_placement_group(group)
        self._forget(name)

    def do_groups(self) -> list[str]:
        """Names of the attempts that hold or wait for a place."""
        prefix = f"{self._namespace}:"
        return [
            group["name"].removeprefix(prefix)
            for group in placement_group_table().values()
            if group["name"].startswith(prefix) and group["state"] != "REMOVED"
        ]

    def do_ask(self, pieces: list[bytes], shunned: list[str]) -> Any:
        task = self._answer_here.options(label_selector=elsewhere(shunned) or None)
        return ray.get(task.remote(*pieces), timeout=_ASK_S)

    # --- actors and their places -------------------------------------------------------------

    def _find(self, name: str) -> Any:
        """Its actor, waiting for its place included; None when there is none, or it ended."""
        if name not in self._actors:
            try:
                self._actors[name] = ray.get_actor(name, namespace=self._namespace)
            except ValueError:
                return None
        return self._actors[name]

    def _forget(self, name: str) -> None:
        self._actors.pop(name, None)
        self._answered.discard(name)

    def _state(self, name: str) -> str:
        self._actors.pop(name, None)  # asked anew: it may have ended since
        if self._find(name) is None:
            return "gone"
        group = self._find_group(name)
        if group is None:
            return "gone"
        return "placed" if placement_group_table(group)["state"] == "CREATED" else "waiting"

    def _find_group(self, name: str) -> PlacementGroup | None:
        try:
            return get_placement_group(f"{self._namespace}:{name}")
        except ValueError:
            return None

    def _make_group(
        self, name: str, bundle: dict[str, float], shunned: list[str]
    ) -> PlacementGroup:
        selector = elsewhere(shunned)
        try:
            return placement_group(
                [bundle],
                name=f"{self._namespace}:{name}",
                lifetime="detached",
                bundle_label_selector=[selector] if selector else None,
            )
        except ValueError:  # another worker made it just now
            return get_placement_group(f"{self._namespace}:{name}")

    # --- news --------------------------------------------------------------------------------

    def _ask_for_news(self, name: str, patience_s: float) -> None:
        actor = self._find(name)
        seen = self._watched.get(name)
        if seen is None:
            return
        if actor is None:
            self._tell_gone(name, "")
            return
        call = actor.news.remote(seen, patience_s)
        call.future().add_done_callback(
            lambda future: self._due.put(lambda: self._on_news(name, future))
        )

    def _on_news(self, name: str, future: Any) -> None:
        if name not in self._watched:
            return
        error = future.exception()
        if error is not None:
            self._tell_gone(name, " ".join(str(error).split())[:300])
            return
        news = future.result()
        self._answered.add(name)
        if news["over"]:
            self._tell_gone(name, news["trouble"])
            return
        if news["bytes"] > self._watched[name]:
            self._watched[name] = news["bytes"]
            self._send({"event": "news", "name": name})
        self._ask_for_news(name, _WATCH_S)

    def _tell_gone(self, name: str, why: str) -> None:
        self._watched.pop(name, None)
        self._forget(name)
        self._send({"event": "gone", "name": name, "why": why})

    def _run_due(self) -> None:
        while True:
            self._due.get()()

    def _look_for_stuck(self) -> None:
        """An attempt that waits for what no node of the cluster has any more is told of."""
        while True:
            time.sleep(_STUCK_EVERY_S)
            for name in [n for n in list(self._watched) if n not in self._answered]:
                group = self._find_group(name)
                found = placement_group_table(group) if group is not None else {}
                if found.get("state") == "PENDING":
                    why = lacking(found["bundles"][0], [])
                    if why:
                        self._send({"event": "stuck", "name": name, "why": why})


def main(descriptor: int, address: str, namespace: str) -> None:
    """Connect, say so, and serve whoever holds the other end of `descriptor`."""
    connection = Connection(descriptor)
    try:
        ray.init(
            address=address,
            namespace=namespace,
            log_to_driver=False,
            configure_logging=False,
        )
    except Exception as error:  # noqa: BLE001 - told to the controller, whatever it is
        said = " ".join(str(error).split())[:500]
        connection.send({"event": "failed", "why": f"{type(error).__name__}: {said}"})
        sys.exit(1)
    connection.send({"event": "ready", "version": ray.__version__})
    Bridge(connection, namespace).serve()
    os._exit(0)  # whatever still waits for an answer: nobody is left to hear it
