"""`mlcat-ingest task`: the status of a task of the service's search index."""

import json
from typing import Final

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_codes import EXIT_FAILED, EXIT_OK
from mlcat_ingest.cli.options import OutputSettings, connect, say_options, service_options

_TIMEOUT_S: Final = 300


@click.command(epilog="\b\nExample:\n  mlcat-ingest task 'oTUltX4IQMOUUVeiohTt8A:124' --wait")
@click.argument("task", metavar="NODE:ID")
@click.option("--wait", is_flag=True, help="Ask until the task has ended.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help=f"How long --wait asks; {_TIMEOUT_S} s unless given.",
)
@service_options
@say_options
def command(
    task: str, timeout_s: float | None, server: str | None, token: str | None, *, wait: bool
) -> int:
    """Print the status of the task NODE:ID as JSON.

    Exit status: 0 the task is known; 1 it is not, or --wait took too long.
    """
    if timeout_s is not None and not wait:
        raise click.UsageError("--timeout goes with --wait")
    longest_s = _TIMEOUT_S if timeout_s is None else timeout_s
    with connect(server, token) as client:
        status = client.wait(task, timeout_s=longest_s) if wait else client.task_status(task)
    if status.error is not None:
        OutputSettings.current().complain(status.error)
        return EXIT_FAILED
    shown = {
        "completed": status.completed,
        "taskId": status.task,
        "runTimeNanos": status.run_time_ns,
        "status": dict(status.status),
    }
    output.out(json.dumps(shown, indent=2, ensure_ascii=False))
    return EXIT_OK
