"""The controller's side of starting an attempt on a cluster: its inputs, its place, its order."""

import json
import threading
import time
from dataclasses import asdict
from typing import Any, Final

from ledger.errors import InvalidInput, StaleFence, TargetUnavailable
from targets.attempt_files import Store
from targets.protocol import AttemptSpec, Program
from targets.ray_job.actor import pack
from targets.ray_job.link import RayLink
from targets.ray_job.records import CLAIM, LAUNCH, attempt_path, owner_path, spec_to_json
from targets.ray_job.requests import RayOptions, bundle_of, check_spec
from targets.ray_job.trees import send_tree, sweep_trees
from targets.shared_store import SharedStore

_SHUN_S: Final = 600.0
"""A node that could not run something is tried again after this."""
_ASK_S: Final = 200.0


class Launcher:
    """Thread-safe."""

    def __init__(
        self, shared: SharedStore, store: Store, link: RayLink, options: RayOptions
    ) -> None:
        self._shared = shared
        self._store = store
        self._link = link
        self._options = options
        self._preparing = threading.Lock()
        self._is_prepared = False

    def launch(self, spec: AttemptSpec) -> None:
        """See RayTarget.launch."""
        check_spec(spec)
        self._prepare()
        if self._was_decided(spec.name):
            return
        for tree in {*spec.inputs.values(), *spec.answerer_inputs.values()}:
            send_tree(self._shared, tree, self._store)
        self._note_launch(spec)
        self._place(spec)

    def _place(self, spec: AttemptSpec) -> None:
        order = {
            "spec": spec_to_json(spec),
            "storage": self._options.storage,
            "sandbox": self._options.sandbox,
        }
        answer = self._link.call(
            "launch",
            name=spec.name,
            pieces=pack(order),
            bundle=bundle_of(spec),
            shunned=self._shunned(),
            launch_by=spec.launch_by,
        )
        if answer["state"] == "late":
            raise StaleFence(f"{spec.name} was asked for after the lease of its asker was over")
        if answer["state"] == "lacking":
            raise TargetUnavailable(
                f"target.name 'ray': {answer['lacking']}; lower resources.cpus, resources.gpus, "
                "resources.memory or target.resources, or add a node: it goes on by itself then"
            )

    def _note_launch(self, spec: AttemptSpec) -> None:
        """So that another host finds it, whatever becomes of the cluster."""
        if spec.launch_by is not None and time.monotonic() > spec.launch_by:
            raise StaleFence(f"{spec.name} was asked for after the lease of its asker was over")
        facts = json.dumps({"owner": spec.owner, "kind": spec.kind}).encode()
        self._shared.write(attempt_path(spec.name, LAUNCH), facts)
        self._shared.write(owner_path(spec.owner, spec.name), b"")

    def _was_decided(self, name: str) -> bool:
        """Whether it was started, or ended before it started, by anybody."""
        return self._shared.age_s(attempt_path(name, CLAIM)) is not None

    def _prepare(self) -> None:
        with self._preparing:
            if not self._is_prepared:
                self._shared.prepare()
                sweep_trees(self._shared)
                self._is_prepared = True

    def _shunned(self) -> list[str]:
        names = self._shared.names("nodes")
        ages = {name: self._shared.age_s(f"nodes/{name}") for name in names}
        return [name for name, age_s in ages.items() if age_s is not None and age_s < _SHUN_S]

    def ask(self, what: str, program: Program) -> dict[str, str]:
        self._prepare()
        order: dict[str, Any] = {
            "ask": what,
            "program": asdict(program),
            "storage": self._options.storage,
            "sandbox": self._options.sandbox,
        }
        answer: dict[str, str] = self._link.call(
            "ask", _ASK_S, pieces=pack(order), shunned=self._shunned()
        )
        if "error" in answer:
            kind = InvalidInput if answer["error"] == InvalidInput.code else TargetUnavailable
            raise kind(f"{answer['detail']} (on a node of the Ray cluster)")
        return answer
