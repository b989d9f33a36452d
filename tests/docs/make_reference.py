"""Writes the parts of the reference pages that are made from code.

    .venv/bin/python tests/docs/make_reference.py

The text around these parts, examples included, is written on the pages by hand.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.reference.pages import PAGES, REFERENCE, made

if __name__ == "__main__":
    for page in PAGES:
        (REFERENCE / page).write_text(made(page))
