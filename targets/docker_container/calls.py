"""The Docker engine as its keeper calls it: few calls, each with a deadline of our own, and two
kinds of failure."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import docker
import requests
import urllib3
from docker.types import CancellableStream

from targets.docker_container.body import ROOT_LABEL, Body
from targets.docker_container.skeleton import REPOSITORY, system_archive
from targets.docker_container.trouble import is_full
from targets.layout import one_line

ASKING_S: Final = 5.0
DOING_S: Final = 60.0
"""For one call: an engine that takes longer is hung as far as this call is concerned. Every call
is made again later."""

UNAUTHORIZED: Final = 401
GONE: Final = 404
CONFLICT: Final = 409

Answer = Mapping[str, Any]
"""JSON of the engine's API."""


class Trouble(Exception):
    """The engine is gone, hung or restarting: what was asked may or may not have happened."""


class Refusal(Exception):
    """The engine answered, and says no."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(one_line(detail))
        self.status = status


class EngineCalls:
    """Thread-safe."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._apis: dict[float, docker.APIClient] = {}
        self._volumes: dict[str, tuple[str, ...]] = {}

    @property
    def version(self) -> str:
        """Of the API that is spoken. Raises Trouble."""
        return str(self._client()._version)

    def _client(self, patience_s: float = ASKING_S) -> docker.APIClient:
        with self._lock, _translated():
            if patience_s not in self._apis:
                self._apis[patience_s] = docker.APIClient(
                    base_url=self.address, version="auto", timeout=patience_s
                )
            return self._apis[patience_s]

    def info(self) -> Answer:
        with _translated():
            found: Answer = self._client().info()
            return found

    def create(self, name: str, body: Body) -> str:
        """The id of the new container. Raises Refusal: CONFLICT, the name is taken; GONE, there
        is no such image."""
        with _translated():
            made = self._client(DOING_S).create_container_from_config(body, name=name)
            return str(made["Id"])

    def start(self, container: str) -> None:
        with _translated():
            self._client(DOING_S).start(container)

    def inspect(self, container: str) -> Answer | None:
        """None when there is no such container."""
        try:
            with _translated():
                found: Answer = self._client().inspect_container(container)
                return found
        except Refusal as refusal:
            if refusal.status == GONE:
                return None
            raise

    def kill(self, container: str, signal_name: str) -> None:
        """A container that does not run any more is no error."""
        try:
            with _translated():
                self._client().kill(container, signal_name)
        except Refusal as refusal:
            if refusal.status not in (GONE, CONFLICT):
                raise

    def remove(self, container: str) -> None:
        """End it and delete it with its volumes. One that is gone, or going, is no error."""
        try:
            with _translated():
                self._client(DOING_S).remove_container(container, force=True, v=True)
        except Refusal as refusal:
            if refusal.status not in (GONE, CONFLICT):
                raise

    def remove_named(self, name: str, root: str) -> None:
        """The same of a container of `root` by its name, if there is one."""
        found = self.inspect(name)
        if found is not None and labels_of(found).get(ROOT_LABEL) == root:
            self.remove(found["Id"])

    def make_system_image(self, name: str) -> None:
        """The image that stands for this machine's system."""
        with _translated():
            tag = name.removeprefix(f"{REPOSITORY}:")
            self._client(DOING_S).import_image_from_data(
                system_archive(), repository=REPOSITORY, tag=tag
            )

    def find_volumes(self, image: str) -> tuple[str, ...] | None:
        """Directories that an image wants to be volumes; None when it is not here."""
        if image not in self._volumes:
            try:
                with _translated():
                    found = self._client().inspect_image(image)
            except Refusal as refusal:
                if refusal.status == GONE:
                    return None
                raise
            self._volumes[image] = tuple((found.get("Config") or {}).get("Volumes") or ())
        return self._volumes[image]

    def forget_image(self, image: str) -> None:
        self._volumes.pop(image, None)

    def pull(self, image: str) -> CancellableStream:
        """What the engine says while it pulls, decoded; closing it from another thread cancels
        the pull."""
        api = self._client()
        repository, tag = docker.utils.parse_repository_tag(image)
        header = _login(api, repository)
        with _translated():
            answer = api._post(
                api._url("/images/create"),
                params={"fromImage": repository, "tag": tag or "latest"},
                headers={"X-Registry-Auth": header} if header else {},
                stream=True,
                timeout=None,
            )
            api._raise_for_status(answer)
        return CancellableStream(api._stream_helper(answer, decode=True), answer)

    def events(self, label: str, since: int) -> CancellableStream:
        """What happens to the containers that carry `label`, from `since`, UNIX time, on."""
        with _translated():
            found: CancellableStream = self._client().events(
                since=since, filters={"type": "container", "label": label}, decode=True
            )
            return found


def labels_of(found: Answer) -> Mapping[str, str]:
    """Of an inspected container."""
    labels: Mapping[str, str] = (found.get("Config") or {}).get("Labels") or {}
    return labels


def _login(api: docker.APIClient, repository: str) -> str | bytes | None:
    """What `docker login` wrote for an image's registry, by now. Raises Refusal."""
    try:
        registry, _ = docker.auth.resolve_repository_name(repository)
        api.reload_config()
        header: str | bytes | None = docker.auth.get_config_header(api, registry)
    except (docker.errors.DockerException, OSError, ValueError) as error:
        said = f"the login for {repository} cannot be read: {error}"
        raise Refusal(UNAUTHORIZED, said) from error
    return header


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except docker.errors.APIError as error:
        status = getattr(error.response, "status_code", 500)
        if is_full(str(error.explanation)):
            raise Trouble(one_line(str(error.explanation))) from error
        raise Refusal(status, str(error.explanation or error)) from error
    except (
        docker.errors.DockerException,
        requests.RequestException,
        urllib3.exceptions.HTTPError,
        OSError,
    ) as error:
        raise Trouble(one_line(str(error))) from error
