"""Debian's Chromium, driven by Playwright, and what holds for every page that it shows."""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Final, Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, sync_playwright

PHONE, DESK = 375, 1280
"""Widths of the viewport, in CSS pixels."""

Scheme = Literal["light", "dark"]

SCHEMES: Final[Mapping[Scheme, Sequence[str]]] = {
    "light": (),
    "dark": ("color-contrast", "link-in-text-block"),
}
"""The rules of axe for each scheme of colours: all, and those that look at colours."""

_RUN_AXE: Final = """rules => axe.run({
    resultTypes: ["violations"],
    ...(rules.length ? {runOnly: rules} : {}),
}).then(results => results.violations)"""

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Give a headless Chromium of this machine; Playwright's own download is never used."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def watched(browser: Browser, address: str, width: int) -> Iterator[Page]:
    """Give a page; at the end, none of what it showed ran a script, or left `address`."""
    seen: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            seen.append(message.text)

    def answer(dialog: Dialog) -> None:
        seen.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def sent(request: Request) -> None:
        if not request.url.startswith(f"{address}/"):
            seen.append(request.url)

    with closing(
        browser.new_context(base_url=address, viewport={"width": width, "height": 900})
    ) as context:
        context.set_default_timeout(30_000)
        page = context.new_page()
        page.on("console", note)
        page.on("dialog", answer)
        page.on("request", sent)
        yield page
    assert seen == []


def check_fit(page: Page, width: int) -> None:
    """Check that a page fits a width, which it has from then on."""
    page.set_viewport_size({"width": width, "height": 900})
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width, page.url


def check_look(page: Page, scheme: Scheme) -> None:
    """Check that a page follows the colours of the system, and is accessible in them."""
    page.emulate_media(color_scheme=scheme)
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    red, green, blue = (int(part) for part in re.findall(r"\d+", colour)[:3])
    assert (max(red, green, blue) < 64) is (scheme == "dark"), page.url
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(AXE_SCRIPT)
    found = [
        (violation["id"], [node["html"] for node in violation["nodes"]][:3])
        for violation in page.evaluate(_RUN_AXE, SCHEMES[scheme])
    ]
    assert not found, f"{page.url}, {scheme}: {found}"
