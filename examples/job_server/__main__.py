"""`python -m examples.job_server`: runs the reference service until it is told to stop."""

import argparse
import logging
import os
import socket
import sys
from pathlib import Path

import uvicorn

from examples.job_server.news import NewsBoard
from examples.job_server.service import Config, build

log = logging.getLogger("job_server")


class _Server(uvicorn.Server):
    """Lets go of clients that wait for news before it waits for requests to end."""

    def __init__(self, config: uvicorn.Config, board: NewsBoard) -> None:
        super().__init__(config)
        self._board = board

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._board.close()
        await super().shutdown(sockets)


def main() -> None:
    options = _options()
    secret = os.environ.get("ARL_JOB_SECRET", "")
    if not secret:
        sys.exit("set ARL_JOB_SECRET to the secret that clients have too (32 characters or more)")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    service = build(
        Config(
            root=options.root,
            kind=options.target,
            secret=secret,
            slots=options.slots,
            gpu_ids=tuple(gpu for gpu in options.gpus.split(",") if gpu),
            max_machines=options.machines,
        )
    )
    listener = socket.create_server((options.host, options.port), backlog=256)
    scheme = "http" if options.certificate is None else "https"
    url = f"{scheme}://{options.host}:{listener.getsockname()[1]}"
    server = _Server(
        uvicorn.Config(
            service.app,
            log_level="warning",
            access_log=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=2,
            ssl_certfile=options.certificate,
            ssl_keyfile=options.certificate_key,
            server_header=False,
        ),
        service.attempts.board,
    )
    log.info("serving %s attempts at %s", options.target, url)
    if options.ready_file is not None:
        beside = options.ready_file.with_name(f"{options.ready_file.name}.part")
        beside.write_text(url)
        beside.rename(options.ready_file)
    try:
        server.run(sockets=[listener])
    finally:
        service.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.job_server", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="its directory; kept for ever")
    parser.add_argument("--target", default="bubblewrap", help="bubblewrap, docker or local")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8700, help="0: any that is free")
    parser.add_argument("--slots", type=int, default=4, help="attempts that run at once")
    parser.add_argument("--gpus", default="", help="ids of this machine's GPUs, like 0,1")
    parser.add_argument("--machines", type=int, default=0, help="how many it may create")
    parser.add_argument("--certificate", help="PEM file; with it the service speaks TLS")
    parser.add_argument("--certificate-key", help="PEM file")
    parser.add_argument("--ready-file", type=Path, help="where to write its url once it serves")
    return parser.parse_args()


if __name__ == "__main__":
    main()
