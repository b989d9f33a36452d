"""Free TCP ports on the loopback interface."""

import random
import socket


def free_port() -> int:
    """Return a port that nothing listened on a moment ago; whoever binds it must still check."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def port_to_keep() -> int:
    """Return a free port that the system gives to nobody by itself: its own start at 32768.

    For a server that takes long to start, and has to be told its port before.
    """
    while True:
        port = random.randrange(20_000, 32_768)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
