"""Free TCP ports on the loopback interface."""

import socket


def free_port() -> int:
    """Return a port that nothing listened on a moment ago; whoever binds it must still check."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
