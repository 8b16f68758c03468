"""What a controller asks an engine: images by digest, and containers without a directory."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ledger.errors import InvalidInput, TargetUnavailable
from targets.docker_container.address import silence_of
from targets.docker_container.body import ATTEMPT_LABEL, OWNER_LABEL, ROOT_LABEL
from targets.layout import one_line

PATIENCE_S: Final = 20.0
_REGISTRY_PATIENCE_S: Final = 60.0
_BY_ID: Final = "sha256:"
_REFUSED: Final = frozenset({400, 401, 403, 404})
"""How registries say that there is no such image, or not for us."""


class EngineQuestions:
    """Each asks over a connection of its own. Raises TargetUnavailable when there is no engine."""

    def __init__(self, address: str) -> None:
        self._address = address

    def find_digest(self, image: str) -> str:
        """The name of `image` that means the same bytes for ever: `name@sha256:…`, or the id of
        one that was only ever here. A registry is asked when it is not here.

        Raises InvalidInput.
        """
        if "@" in image:
            return image
        with self._client(_REGISTRY_PATIENCE_S) as api:
            found = _find_here(api, image)
            if found is not None:
                return _digest_here(image, found)
            if image.startswith(_BY_ID):
                raise InvalidInput(
                    f"target.image {image!r}: the engine has no image of that id; write its name"
                )
            return f"{_repository(image)}@{_ask_registry(api, image)}"

    def platform(self) -> str:
        """What the engine runs images for."""
        with self._client() as api:
            version = api.version()
            return f"{version.get('Os')} {version.get('Arch')}"

    def version(self) -> Mapping[str, Any]:
        """As the engine tells it: of itself and of its parts."""
        with self._client() as api:
            found: Mapping[str, Any] = api.version()
            return found

    def info(self) -> Mapping[str, Any]:
        with self._client() as api:
            found: Mapping[str, Any] = api.info()
            return found

    def list_containers(self, root: str, owner: str) -> dict[str, bool]:
        """The attempts of `owner` below a root that have a container, and whether one runs."""
        labels = [f"{ROOT_LABEL}={root}", f"{OWNER_LABEL}={owner}"]
        found: dict[str, bool] = {}
        with self._client() as api:
            for container in api.containers(all=True, filters={"label": labels}):
                attempt = container["Labels"][ATTEMPT_LABEL]
                runs = container["State"] in ("running", "paused", "restarting")
                found[attempt] = found.get(attempt, False) or runs
        return found

    @contextmanager
    def _client(self, patience_s: float = PATIENCE_S) -> Iterator[Any]:
        # Asked first in our own way: the package leaves its sockets open where nobody answers.
        silence = silence_of(self._address)
        if silence is not None:
            raise TargetUnavailable(f"Docker engine at {self._address}: {silence}")
        import docker
        import requests

        try:
            api = docker.APIClient(base_url=self._address, version="auto", timeout=patience_s)
            try:
                yield api
            finally:
                api.close()
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise TargetUnavailable(
                f"Docker engine at {self._address}: {one_line(str(error))}"
            ) from error


def _find_here(api: Any, image: str) -> Mapping[str, Any] | None:
    import docker

    try:
        found: Mapping[str, Any] = api.inspect_image(image)
    except docker.errors.NotFound:
        return None
    except docker.errors.APIError as error:
        if error.is_client_error():
            raise InvalidInput(f"target.image {image!r}: {_said(error)}") from error
        raise
    return found


def _digest_here(image: str, found: Mapping[str, Any]) -> str:
    wanted = _repository(image)
    for digest in found.get("RepoDigests") or ():
        if _familiar(digest.partition("@")[0]) == _familiar(wanted):
            return str(digest)
    return str(found["Id"])


def _ask_registry(api: Any, image: str) -> str:
    import docker

    try:
        return str(api.inspect_distribution(image)["Descriptor"]["digest"])
    except docker.errors.APIError as error:
        status = getattr(error.response, "status_code", 500)
        if status in _REFUSED:
            raise InvalidInput(
                f"target.image {image!r}: the engine has no such image, and its registry says: "
                f"{_said(error)}; write the name of an image that it can pull, or build it"
            ) from error
        raise TargetUnavailable(
            f"target.image {image!r}: the engine has no such image and cannot ask its registry: "
            f"{_said(error)}"
        ) from error


def _said(error: Any) -> str:
    return one_line(str(error.explanation or error))


def _repository(image: str) -> str:
    """Without its tag: a colon before the last slash is a port."""
    name, colon, tag = image.rpartition(":")
    return name if colon and "/" not in tag else image


def _familiar(repository: str) -> str:
    """Names of the usual registry come in three lengths."""
    return repository.removeprefix("docker.io/").removeprefix("library/")
