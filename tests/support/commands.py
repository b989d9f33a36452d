import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def ended(
    command: Sequence[str | Path], code: int = 0, **how: Any
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end; where its exit status is another one, the failure has its words."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **how)
    assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
    return done
