"""The page of a profiled run, opened in Chromium: what a user clicks, hovers and types."""

import json
import shutil
from html.parser import HTMLParser

import numpy
import pytest
from support.long_forms import only_long

import functensor as ft
import functensor.numpy as np
from functensor.hooks.profiling.recording import Event
from functensor.hooks.profiling.report import Report

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="needs Debian's packages chromium and chromium-driver"
)
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--window-size=1200,1000",
)
NASTY = "</script><b>&amp;'\""


def train(w, x):
    for _ in range(4):
        with ft.scope("gradient"):
            g = ft.grad(lambda w: np.sum(np.tanh(np.matmul(x, w)) ** 2))(w)
        with ft.scope(NASTY.replace("/", "|")):
            w = np.where(w < 9, w - 0.1 * g, w)
    return w


@pytest.fixture(scope="module")
def report():
    return ft.hooks.profile(train)(numpy.ones((30, 40)), numpy.ones((20, 30)))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, report, tmp_path):
    """Opens the page; after the test the browser has complained about nothing."""
    report.save(tmp_path / "profile.html")
    browser.get((tmp_path / "profile.html").as_uri())
    yield browser
    assert browser.get_log("browser") == []


def view(browser):
    """Returns the nanoseconds at which the shown part of the timeline begins and ends."""
    timeline = browser.find_element("id", "timeline")
    return [float(timeline.get_attribute(f"data-{end}")) for end in ("begin", "end")]


def bar(browser, name):
    """Returns the first bar of that name: the number of its data, and its element."""
    data = json.loads(browser.find_element("id", "data").get_attribute("textContent"))
    number = next(
        i for i, b in enumerate(data["bars"]) if data["words"][b[4]] == name and b[3] > b[2]
    )
    return data["bars"][number], browser.find_element("css selector", f"[data-bar='{number}']")


@needs_chromium
def test_tables_sort_by_a_click(opened):
    def column(place):
        cells = opened.find_elements("css selector", f"#primitives tbody td:nth-child({place})")
        return [cell.get_attribute("textContent") for cell in cells]

    def click(place):
        head = opened.find_element("css selector", f"#primitives th:nth-child({place})")
        head.find_element("css selector", "button").click()
        return head.get_attribute("aria-sort")

    def numbers(place):
        return [float(text.replace(",", "")) for text in column(place)]

    assert numbers(2) == sorted(numbers(2), reverse=True)
    before = sorted(column(1))
    assert click(7) == "descending"
    assert numbers(7) == sorted(numbers(7), reverse=True)
    assert click(7) == "ascending"
    assert numbers(7) == sorted(numbers(7)) != sorted(numbers(7), reverse=True)
    assert click(1) == "ascending"
    assert column(1) == before
    assert click(1) == "descending"
    assert column(1) == before[::-1]
    sorted_heads = opened.find_elements("css selector", "#primitives th[aria-sort]")
    assert [head.text.split()[0] for head in sorted_heads] == ["primitive"]
    # By the keyboard too.
    head = opened.find_element("css selector", "#primitives th:nth-child(2) button")
    head.send_keys(Keys.ENTER)
    assert numbers(2) == sorted(numbers(2), reverse=True)


@needs_chromium
def test_hovering_tells_of_an_operation(opened, report):
    details = opened.find_element("id", "details")
    assert details.text == "No operation is chosen."
    opened.find_element("id", "timeline").send_keys(Keys.ARROW_RIGHT, Keys.ENTER)
    [_, _, _, _, _, number], element = bar(opened, "matmul")
    ActionChains(opened).move_to_element(element).perform()
    event = report.events[number]
    first, second, third = details.text.splitlines()
    assert first == "matmul (float64[20, 30], float64[30, 40]) → float64[20, 40]"
    assert second.startswith("forward, ")
    assert second.endswith("makes 6.3 KiB")
    assert third == f"{event.line}, scope gradient"
    scope = opened.find_element("css selector", ".bar.scope")
    ActionChains(opened).move_to_element(scope).perform()
    assert details.text.startswith("scope gradient\nforward, ")


@needs_chromium
def test_zooming(opened, report):
    assert view(opened) == [0, report.total]
    opened.find_element("id", "zoom-in").click()
    assert view(opened) == [report.total / 4, report.total * 3 / 4]
    opened.find_element("id", "left").click()
    assert view(opened) == [report.total / 8, report.total * 5 / 8]
    opened.find_element("id", "zoom-out").click()
    assert view(opened) == [0, report.total]
    timeline = opened.find_element("id", "timeline")
    timeline.send_keys("+")
    assert view(opened) == [report.total / 4, report.total * 3 / 4]
    timeline.send_keys("0")
    assert view(opened) == [0, report.total]
    # The wheel zooms around the pointer, once the timeline was clicked.
    ActionChains(opened).scroll_from_origin(origin(timeline), 0, -100).perform()
    begin, end = view(opened)
    assert end - begin == pytest.approx(0.8 * report.total)
    assert (begin + end) / 2 == pytest.approx(report.total / 2, rel=0.01)
    opened.find_element("id", "all").click()
    assert view(opened) == [0, report.total]


def origin(element):
    """Returns the middle of an element, where a wheel turns."""
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    return ScrollOrigin.from_element(element)


@needs_chromium
def test_dragging_moves(opened, report):
    opened.find_element("id", "zoom-in").click()
    timeline = opened.find_element("id", "timeline")
    width = timeline.size["width"]
    before = view(opened)
    chain = ActionChains(opened).move_to_element(timeline).click_and_hold()
    chain.move_by_offset(width // 10, 0).release().perform()
    moved = (before[0] - view(opened)[0]) / (report.total / 2)
    assert moved == pytest.approx(0.1, abs=0.01)


@needs_chromium
def test_the_keyboard_goes_from_operation_to_operation(opened, report):
    timeline = opened.find_element("id", "timeline")
    details = opened.find_element("id", "details")
    seen = []
    for _ in range(len(report.events)):
        timeline.send_keys(Keys.ARROW_RIGHT)
        seen.append(details.text.split()[0])
    assert seen == [event.name for event in report.events]
    timeline.send_keys(Keys.ARROW_RIGHT)
    assert details.text.split()[0] == seen[-1]
    timeline.send_keys(Keys.ARROW_LEFT)
    assert details.text.split()[0] == seen[-2]
    assert opened.find_element("css selector", ".chosen") is not None
    timeline.send_keys(Keys.ENTER)
    event = report.events[-2]
    begin, end = view(opened)
    assert begin < event.begin < event.end < end
    assert end - begin == pytest.approx(2 * (event.end - event.begin))


@needs_chromium
def test_the_chosen_operation_is_seen_among_bars_drawn_as_one(browser, tmp_path):
    events = [
        Event("f", "", "x.py:1", "forward", 10 * i, 10 * i + 9, "", 8, None) for i in range(3)
    ]
    Report("short", None, 1_000_000, True, events, []).save(tmp_path / "short.html")
    browser.get((tmp_path / "short.html").as_uri())
    for _ in events:
        browser.find_element("id", "timeline").send_keys(Keys.ARROW_RIGHT)
        [chosen] = browser.find_elements("css selector", ".chosen")
        assert chosen.get_attribute("data-count") == "3"
    browser.find_element("id", "timeline").send_keys(Keys.ENTER)
    [chosen] = browser.find_elements("css selector", ".chosen")
    assert chosen.get_attribute("data-bar") == "2"
    assert chosen.get_attribute("data-count") == "1"


@needs_chromium
def test_rows_and_the_peak(opened, report):
    texts = [text.text for text in opened.find_elements("css selector", "#timeline text.faint")]
    assert {"forward", "backward"} <= set(texts)
    [peak] = opened.find_elements("css selector", "#memory text.peak")
    assert peak.text == f"peak {report.peak / 1024:.1f} KiB"
    memory = opened.find_element("id", "memory")
    ActionChains(opened).move_to_element(memory).perform()
    assert " alive at " in opened.find_element("id", "alive").text
    rows = opened.find_elements("css selector", "#holdings tbody td:first-child")
    assert sum(int(cell.get_attribute("data-value")) for cell in rows) == report.peak


@needs_chromium
def test_lines_have_their_code_and_nothing_becomes_markup(opened, report):
    cells = opened.find_elements("css selector", "#lines tbody td:nth-child(2)")
    code = [cell.get_attribute("textContent") for cell in cells]
    assert "w = np.where(w < 9, w - 0.1 * g, w)" in code
    scopes = opened.find_elements("css selector", "#scopes tbody td:first-child")
    assert NASTY.replace("/", "|") in [cell.get_attribute("textContent") for cell in scopes]
    assert opened.find_elements("css selector", "main b") == []


@needs_chromium
def test_light_and_dark(opened):
    shown = {}
    for mode in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": mode}]
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        body = opened.find_element("css selector", "body")
        shown[mode] = body.value_of_css_property("background-color")
    assert shown == {"light": "rgba(255, 255, 255, 1)", "dark": "rgba(20, 24, 30, 1)"}


@only_long
@pytest.mark.long
@needs_chromium
def test_a_page_of_many_operations_draws_few_bars(browser, tmp_path):
    events = [
        Event("f", f"s{i // 100}", "x.py:1", "forward", 10 * i, 10 * i + 9, "", 8, None)
        for i in range(50_000)
    ]
    Report("many", None, 500_000, True, events, []).save(tmp_path / "many.html")
    browser.get((tmp_path / "many.html").as_uri())
    drawn = browser.find_elements("css selector", "#timeline rect.bar:not(.scope)")
    assert len(drawn) < 3000
    assert sum(int(bar.get_attribute("data-count")) for bar in drawn[:20]) > 500
    for _ in range(9):
        browser.find_element("id", "zoom-in").click()
    drawn = browser.find_elements("css selector", "#timeline rect.bar:not(.scope)")
    assert 90 < len(drawn) < 110
    assert {bar.get_attribute("data-count") for bar in drawn} == {"1"}
    assert browser.get_log("browser") == []


@needs_chromium
def test_a_page_of_nothing(browser, tmp_path):
    ft.hooks.profile(lambda: None)().save(tmp_path / "nothing.html")
    browser.get((tmp_path / "nothing.html").as_uri())
    browser.find_element("id", "zoom-in").click()
    browser.find_element("id", "timeline").send_keys(Keys.ARROW_RIGHT)
    assert browser.find_element("id", "details").text == "No operation is chosen."
    assert browser.get_log("browser") == []


class Links(HTMLParser):
    """Collects what a page would load."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        self.found += [value for key, value in attributes if key in ("src", "href")]


def test_the_page_loads_nothing(report, tmp_path):
    report.save(tmp_path / "profile.html")
    text = (tmp_path / "profile.html").read_text(encoding="utf-8")
    parser = Links()
    parser.feed(text)
    assert parser.found == []
    assert "default-src 'none'" in text
    assert "url(" not in text
    assert text.count("</script>") == 2
