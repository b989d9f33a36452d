"""Takes the pictures of the README and the docs: pages of the demo's catalog in Chromium.

    .venv/bin/python tests/e2e/demo/take_pictures.py

It writes `group.png`, `comparison.png`, `model.png` and `search.png` to `docs/images`.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

TESTS = Path(__file__).resolve().parents[2]
sys.path[0] = str(TESTS)

from support.browser import chromium  # noqa: E402 - found there

IMAGES = TESTS.parent / "docs" / "images"
WIDTH, HEIGHT = 1280, 900
STEPS = {
    "group": ["wine-cultivars"],
    "model": ["breast-cancer-screening", "logistic"],
}
"""The links to click, from the home page to that of each picture."""

VIEW = urlencode(
    [
        ("sort", "-metrics.mean_test_score"),
        *(("show", f"params.svc__{name}") for name in ("C", "kernel")),
        ("chart", "metrics.mean_test_score"),
        ("over", "params.svc__C"),
    ]
)
"""The view of the group: its runs, the best first, and a chart over a parameter."""

SEARCH = urlencode([("q", "metrics.accuracy>0.8")])


def take_pictures(address: str, folder: Path) -> None:
    """Write pictures of a group, a comparison, a model and a search to `folder`."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        for name, links in STEPS.items():
            page.goto(address)
            for link in links:
                page.get_by_role("link", name=link, exact=True).first.click()
                page.wait_for_load_state()
            if name == "group":
                page.goto(f"{page.url}?{VIEW}")
            page.screenshot(path=folder / f"{name}.png")
            if name == "group":
                for box in page.get_by_role("checkbox", name="Compare").all()[:3]:
                    box.check()
                page.get_by_role("button", name="Compare the chosen models").click()
                page.wait_for_load_state()
                page.screenshot(path=folder / "comparison.png")
        page.goto(f"{address}/search?{SEARCH}")
        page.screenshot(path=folder / "search.png")


def main() -> None:
    """Run the demo, and take the pictures that `docs/images` holds."""
    with tempfile.TemporaryDirectory() as folder:
        demo = subprocess.Popen(
            [sys.executable, "-m", "mlcat_ingest", "demo", "--dir", f"{folder}/mlcat-demo"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert demo.stdout is not None
            for line in demo.stdout:
                if match := re.match(r"Open (\S+)", line):
                    take_pictures(match[1], IMAGES)
                    return
            raise SystemExit("the demo ended before it served its catalog")
        finally:
            demo.terminate()
            demo.wait()


if __name__ == "__main__":
    main()
