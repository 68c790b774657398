"""Checks the built documentation: python .ci/site.py FOLDER [--pictures FOLDER]

Links within the site hold, no page is too large, and in Chromium, where it and selenium are
installed, pages fit their window, show their pictures, and the search finds a primitive.
"""

import argparse
import shutil
import sys
import threading
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

LARGEST_PAGE = 300_000
WINDOWS = {"wide": (1400, 1000), "narrow": (400, 800)}
PAGES = {
    "home": "index.html",
    "tutorial": "tutorials/first_gradient.html",
    "gallery": "gallery.html",
    "errors": "errors.html",
    "index": "genindex-E.html",
}
# Chromium without a network of its own.
BROWSER_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--hide-scrollbars",
)
# What sticks out of the window, but for what scrolls by itself.
OVERFLOW = """
const scrolls = (e) => {
  for (; e && e !== document.body; e = e.parentElement) {
    const style = getComputedStyle(e);
    if (['auto', 'scroll', 'hidden', 'clip'].includes(style.overflowX)) return true;
    if (style.position === 'fixed') return true;
  }
  return false;
};
return [...document.querySelectorAll('article *')]
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e.parentElement)
                 && !scrolls(e))
  .map((e) => e.tagName + ' ' + e.textContent.slice(0, 60));
"""
PICTURES = """
return [...document.images].filter((e) => !e.complete || !e.naturalWidth).map((e) => e.src);
"""


class Targets(HTMLParser):
    """The anchors of a page, and what it links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.feed(text)

    def has(self, fragment: str) -> bool:
        """Says whether the page has an anchor."""
        return unquote(fragment) in self.anchors

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes an element's anchor and its link."""
        for name, value in attrs:
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value or "")
            elif name in ("href", "src") and value:
                self.links.add(value)


def broken_links(site: Path) -> list[str]:
    """Returns the links to pages, files and anchors of the site that are not there."""
    pages = {path: Targets(path.read_text()) for path in sorted(site.rglob("*.html"))}
    broken = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                broken.append(f"{path.relative_to(site)}: {link} is not there")
            elif parts.fragment and target in pages and not pages[target].has(parts.fragment):
                broken.append(f"{path.relative_to(site)}: {link} has no such anchor")
    return broken


def large_pages(site: Path) -> list[str]:
    """Returns the pages that are too large."""
    return [
        f"{path.relative_to(site)}: {path.stat().st_size:,} bytes, {LARGEST_PAGE:,} allowed"
        for path in sorted(site.rglob("*.html"))
        if path.stat().st_size > LARGEST_PAGE
    ]


class Quiet(SimpleHTTPRequestHandler):
    """Serves the site without a line for every request."""

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def in_browser(site: Path, pictures: Path | None) -> list[str] | None:
    """Returns what is wrong with pages in Chromium; None where there is none."""
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        return None
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    root = f"http://127.0.0.1:{server.server_port}"
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for option in BROWSER_OPTIONS:
        options.add_argument(option)
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    wrong = []
    try:
        browser.get(f"{root}/search.html?q=einsum")
        hits = WebDriverWait(browser, 20).until(
            lambda b: b.find_elements(By.CSS_SELECTOR, "#search-results li a")
        )
        found = next((hit.get_attribute("href") for hit in hits if "einsum" in hit.text), None)
        if found is None:
            wrong.append("search: einsum is not found")
        pages = {name: f"{root}/{path}" for name, path in PAGES.items()}
        pages |= {"einsum": found} if found else {}
        for theme in ("light", "dark"):
            browser.execute_script("localStorage.setItem('theme', arguments[0])", theme)
            for window, size in WINDOWS.items():
                browser.execute_cdp_cmd(
                    "Emulation.setDeviceMetricsOverride",
                    {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False},
                )
                for name, address in pages.items():
                    browser.get(address)
                    where = f"{name}, {window}, {theme}"
                    if browser.execute_script("return document.body.dataset.theme") != theme:
                        wrong.append(f"{where}: the theme is another")
                    missing = browser.execute_script(PICTURES)
                    wrong += [f"{where}: no picture {source}" for source in missing]
                    parts = browser.execute_script(OVERFLOW)
                    wrong += [f"{where}: sticks out of the window: {part}" for part in parts]
                    if pictures is not None:
                        pictures.mkdir(parents=True, exist_ok=True)
                        browser.save_screenshot(str(pictures / f"{name}_{window}_{theme}.png"))
    finally:
        browser.quit()
        server.shutdown()
    return wrong


def main() -> int:
    """Runs all checks; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("--pictures", type=Path, help="where screenshots go")
    options = parser.parse_args()
    site = options.site.resolve()
    seen = in_browser(site, options.pictures)
    if seen is None:
        print("Chromium or its driver is missing: no page was looked at")
    wrong = broken_links(site) + large_pages(site) + (seen or [])
    print(*wrong, sep="\n")
    pages = sorted(site.rglob("*.html"), key=lambda path: -path.stat().st_size)
    for path in pages[:3]:
        print(f"{path.stat().st_size:9,} bytes  {path.relative_to(site)}")
    print(f"{len(pages)} pages, {len(wrong)} faults")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
