"""Whether a TCP port can be listened on, asked before children start so that the answer is a sentence, not a traceback."""

import socket

from fairgate.stack.errors import StackError


def port_free(host: str, port: int) -> bool:
    """Whether a server could listen on `host:port` now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def require_port(host: str, port: int, setting: str) -> None:
    """Raise StackError when `host:port` is taken; `setting` is what a person changes to choose another."""
    if not port_free(host, port):
        raise StackError(
            f"Port {port} on {host} is taken: stop the program that listens there, or choose another with {setting}."
        )
