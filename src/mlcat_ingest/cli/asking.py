"""Questions to who sits at the terminal."""

import sys

import click


def agreed(question: str) -> bool:
    """Return whether somebody says yes.

    Raises:
        UsageError: nobody is there to answer.
    """
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise click.UsageError("nobody is there to agree: give --yes") from None
