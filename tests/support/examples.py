"""How many examples Hypothesis tries: by its profile, each `max_examples` in proportion."""

import os
from typing import Final

from hypothesis import settings

PER_CENT = {"dev": 20, "ci": 100, "nightly": 500}
"""The profiles, and what each tries of the examples that a test names, in per cent."""


def load_profile() -> None:
    """Load `ci` where CI is set, `dev` elsewhere; `--hypothesis-profile` names another."""
    in_ci = "CI" in os.environ
    for name, share in PER_CENT.items():
        # A busy machine is slow now and then; that is no failure of a property. What lands is
        # judged by the same examples each time; new ones are looked for everywhere else.
        settings.register_profile(
            name,
            max_examples=share,
            deadline=None,
            derandomize=in_ci or name == "ci",
            print_blob=True,
        )
    settings.load_profile("ci" if in_ci else "dev")


LIMIT_S: Final = 800
"""The time limit of a property. The smallest example that fails is looked for up to 300 seconds: a
limit of that length would end the search with the stacks of all threads, and without the example.
"""


def examples(count: int) -> int:
    """Return what the profile makes of `count` examples, at least one."""
    return max(1, count * settings().max_examples // 100)
