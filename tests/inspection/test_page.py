"""The page of `inspect --html`, opened from disk in a headless Chromium."""

import json
import re
import shutil

import pytest

from dgl_treestack.cli.inspect import inspect
from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.expression import Equation
from dgl_treestack.resources import find_data
from dgl_treestack.runs.evaluation import evaluate
from dgl_treestack.runs.pretrained import FOLDER
from dgl_treestack.runs.run import Run

SHALLOW, DEEP = 30, 10
NASTY = "</script><script>window.hurt=1</script>"
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --window-size=1700,1000"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A page of shallow equations, some of depth 13 and one with a nasty name, and the records of the same run."""
    folder = tmp_path_factory.mktemp("page")
    every = list(formats.read(find_data("bundled:quickstart/test")))
    deep = [example for example in every if example.equation.depth == 13][:DEEP]
    nasty = Example(Equation.parse("x = x"), None, NASTY, "test")
    formats.write(folder / "some.jsonl", [*every[:SHALLOW], *deep, nasty])
    shutil.copytree(FOLDER, folder / "run")
    rows = evaluate(Run.open(folder / "run"), str(folder / "some.jsonl"))
    options = {"limit": 0, "equation": "", "output": None, "json": False}
    inspect(str(folder / "some.jsonl"), run=(folder / "run",), html=folder / "page.html", **options)
    return folder / "page.html", {row["id"]: row for row in rows}, deep


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason="the page is looked at with selenium: pip install selenium")
    program, driver = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
    if not (program and driver):
        pytest.skip("there is no Chromium with its driver (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield opened
    opened.quit()


@pytest.fixture
def page(browser, made):
    browser.get("about:blank")
    browser.get(made[0].as_uri())
    yield browser
    assert browser.get_log("browser") == [], "nothing in the console"


def shown(page):
    return page.execute_script(
        "return [...document.querySelectorAll('#list button')].map(one => DATA.equations[one.dataset.at].id)"
    )


def test_it_needs_nothing_else(made, page):
    text = made[0].read_text()
    assert set(re.findall(r"https?://[^\"'\s]+", text)) == {"http://www.w3.org/2000/svg"} and "import(" not in text
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert page.execute_script("return window.hurt") is None and NASTY in shown(page)


def test_its_numbers_are_those_of_the_records(made, page):
    _, rows, _ = made
    data = page.execute_script("return DATA.equations.map(one => [one.id, one.depth, one.label, one.models.tree_smu])")
    assert len(data) == len(rows) == SHALLOW + DEEP + 1
    for name, depth, label, own in data:
        row = rows[name]
        assert (depth, label, own["score"], own["correct"]) == (row["depth"], row["label"], row["score"], row["correct"])
    first = shown(page)[0]
    assert f"score {rows[first]['score']:.4f}" in page.find_element("id", "verdict").text
    counts = [int(cell.text) for cell in page.find_elements("css selector", "#mixes tr[data-mix] td:nth-child(2)")]
    right = sum(row["correct"] is True for row in rows.values())
    assert sorted(counts) == sorted([1, right, len(rows) - 1 - right])


def test_a_deep_equation_is_legible(made, page):
    equation = made[2][0]
    page.execute_script("open(DATA.equations.findIndex(one => one.id === arguments[0]))", equation.id)
    assert page.find_element("id", "equation").text == str(equation.equation)
    boxes = page.execute_script(
        "return [...document.querySelectorAll('.node')].map(one => { const box ="
        " one.querySelector('.box').getBoundingClientRect(), text = one.querySelector('text').getBoundingClientRect();"
        " return [box.left, box.top, box.right, box.bottom, text.left, text.right, text.height] })"
    )
    assert len(boxes) == equation.equation.size
    for i, (left, top, right, bottom, *text) in enumerate(boxes):
        assert text[0] >= left and text[1] <= right and text[2] >= 12, "labels lie in their boxes and are not small"
        for other in boxes[:i]:
            assert right <= other[0] or left >= other[2] or bottom <= other[1] or top >= other[3], "boxes do not overlap"
    page.find_element("id", "fit").click()
    width = page.execute_script(
        "return [document.getElementById('drawing').clientWidth, document.querySelector('main').clientWidth]"
    )
    assert width[0] <= width[1]


def test_filters(made, page):
    _, rows, _ = made
    low = page.find_element("id", "from")
    low.clear()
    low.send_keys("13")
    assert shown(page) == [name for name, row in rows.items() if row["depth"] >= 13]
    page.find_element("id", "all").click()
    page.execute_script("const one = document.getElementById('verdict-0'); one.value = 'wrong'; one.onchange()")
    assert shown(page) == [name for name, row in rows.items() if row["correct"] is False]
    page.find_element("css selector", "#mixes tr[data-mix='true']").click()
    assert shown(page) == [name for name, row in rows.items() if row["correct"]]
    page.find_element("id", "all").click()
    page.execute_script(
        "const one = document.getElementById('order'); one.value = 'score'; one.dispatchEvent(new Event('input'))"
    )
    scores = [rows[name]["score"] for name in shown(page)]
    assert scores == sorted(scores, reverse=True)


def test_walking_the_tree(made, page):
    from selenium.webdriver import ActionChains, Keys

    data = json.loads(page.execute_script("return JSON.stringify(DATA.equations[state.at])"))
    own = data["models"]["tree_smu"]
    at = next(node for node, push in enumerate(own["gates"]["push"]) if push is not None)
    page.find_element("css selector", f"[data-node='{at}']").click()
    assert data["nodes"][at]["label"] in page.find_element("css selector", "#detail h2").text
    gates = {row.get_attribute("data-gate"): float(row.text.split()[-1]) for row in page.find_elements("css selector", ".gate")}
    assert all(gates[name] == pytest.approx(own["gates"][name][at], abs=6e-4) for name in ("push", "pop", "noop"))
    lengths = [float(item.text) for item in page.find_elements("css selector", ".heat ol li")]
    assert lengths == pytest.approx(own["rows"][at], abs=6e-4)
    pixels = page.execute_script(
        "const one = document.querySelector('canvas.map'); return [one.width, one.height,"
        " new Set(one.getContext('2d').getImageData(0, 0, one.width, one.height).data).size]"
    )
    assert pixels[:2] == [50, 5] and pixels[2] > 20, "a map of five rows of fifty, in many colours"
    keys = ActionChains(page)
    keys.send_keys(Keys.ARROW_RIGHT).perform()
    assert page.execute_script("return state.node") == data["nodes"][at]["children"][0]
    keys.send_keys(Keys.ARROW_LEFT).perform()
    assert page.execute_script("return state.node") == at
    page.find_element("css selector", "[data-node='0']").click()
    assert "dot product of the sides" in page.find_element("css selector", ".sides").text
    before = page.execute_script("return state.at")
    keys.send_keys("n").perform()
    assert page.execute_script("return state.at") == before + 1
