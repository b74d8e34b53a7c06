"""The page of `inspect --html`, opened from disk in a headless Chromium."""

import json
import re
import shutil

import pytest
from small_runs import FILM, film_config

from dgl_treestack import Equation, Run
from dgl_treestack.cli.inspect import inspect
from dgl_treestack.data import formats
from dgl_treestack.resources import find_data
from dgl_treestack.runs import pretrained
from dgl_treestack.runs.evaluation import evaluate
from dgl_treestack.training.start import start

SHALLOW, DEEP = 30, 10
NASTY = "</script><script>window.hurt=1</script>"
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --window-size=1700,1000"
)

SMU = pretrained.FOLDER / "tree_smu"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A page of shallow equations, some of depth 13 and one with a nasty name, and the records of the same run."""
    folder = tmp_path_factory.mktemp("page")
    examples = list(formats.read(find_data("bundled:quickstart/test")))
    deep = [example for example in examples if example.equation.depth == 13][:DEEP]
    formats.write(folder / "some.jsonl", [*examples[:SHALLOW], *deep, formats.Example(Equation.parse("x = x"), None, NASTY)])
    shutil.copytree(SMU, folder / "run")
    rows = evaluate(Run.open(folder / "run"), str(folder / "some.jsonl")).rows(named=True)
    inspect(str(folder / "some.jsonl"), run=(folder / "run",), html=folder / "page.html", limit=0)
    return folder / "page.html", {row["id"]: row for row in rows}, deep


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason="the page is looked at with selenium: pip install selenium")
    program, driver = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
    if not (program and driver):
        pytest.skip("there is no Chromium with its driver (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.arguments.extend(FLAGS.split())
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield opened
    opened.quit()


@pytest.fixture
def page(browser, written):
    browser.get("about:blank")
    browser.get(written[0].as_uri())
    yield browser
    assert browser.get_log("browser") == [], "nothing in the console"


def shown(page):
    return page.execute_script(
        "return [...document.querySelectorAll('#list button')].map(b => DATA.equations[b.dataset.at].id)"
    )


def test_it_needs_nothing_else_and_its_numbers_are_those_of_the_records(written, page):
    text = written[0].read_text()
    assert set(re.findall(r"https?://[^\"'\s]+", text)) == {"http://www.w3.org/2000/svg"} and "import(" not in text
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert page.execute_script("return window.hurt") is None and NASTY in shown(page)
    _, rows, _ = written
    data = page.execute_script("return DATA.equations.map(item => [item.id, item.depth, item.label, item.models.tree_smu])")
    assert len(data) == len(rows) == SHALLOW + DEEP + 1
    for name, *about, model in data:
        assert [*about, model["score"], model["correct"]] == [rows[name][k] for k in ("depth", "label", "score", "correct")]
    assert f"score {rows[shown(page)[0]]['score']:.4f}" in page.find_element("id", "verdict").text
    counts = [int(cell.text) for cell in page.find_elements("css selector", "#mixes tr[data-mix] td:nth-child(2)")]
    right = sum(row["correct"] is True for row in rows.values())
    assert sorted(counts) == sorted([1, right, len(rows) - 1 - right])


def test_a_deep_equation_is_legible(written, page):
    equation = written[2][0]
    page.execute_script("open(DATA.equations.findIndex(item => item.id === arguments[0]))", equation.id)
    assert page.find_element("id", "equation").text == str(equation.equation)
    boxes = page.execute_script(
        "return [...document.querySelectorAll('.node')].map(node => { const box ="
        " node.querySelector('.box').getBoundingClientRect(), text = node.querySelector('text').getBoundingClientRect();"
        " return [box.left, box.top, box.right, box.bottom, text.left, text.right, text.height] })"
    )
    assert len(boxes) == equation.equation.size
    for i, (left, top, right, bottom, *text) in enumerate(boxes):
        assert text[0] >= left and text[1] <= right and text[2] >= 12, "labels lie in their boxes and are not small"
        for earlier in boxes[:i]:
            beside, above_or_below = right <= earlier[0] or left >= earlier[2], bottom <= earlier[1] or top >= earlier[3]
            assert beside or above_or_below, "boxes do not overlap"
    page.find_element("id", "fit").click()
    widths = "document.getElementById('drawing').clientWidth <= document.querySelector('main').clientWidth"
    assert page.execute_script(f"return {widths}")


def test_filters(written, page):
    _, rows, _ = written
    low = page.find_element("id", "from")
    low.clear()
    low.send_keys("13")
    assert shown(page) == [name for name, row in rows.items() if row["depth"] >= 13]
    page.find_element("id", "all").click()
    page.execute_script("const list = document.getElementById('verdict-0'); list.value = 'wrong'; list.onchange()")
    assert shown(page) == [name for name, row in rows.items() if row["correct"] is False]
    page.find_element("css selector", "#mixes tr[data-mix='true']").click()
    assert shown(page) == [name for name, row in rows.items() if row["correct"]]
    page.find_element("id", "all").click()
    page.execute_script(
        "const one = document.getElementById('order'); one.value = 'score'; one.dispatchEvent(new Event('input'))"
    )
    scores = [rows[name]["score"] for name in shown(page)]
    assert scores == sorted(scores, reverse=True)


def test_walking_the_tree(written, page):
    from selenium.webdriver import ActionChains, Keys

    data = json.loads(page.execute_script("return JSON.stringify(DATA.equations[state.at])"))
    model = data["models"]["tree_smu"]
    at = next(node for node, push in enumerate(model["gates"]["push"]) if push is not None)
    page.find_element("css selector", f"[data-node='{at}']").click()
    assert data["nodes"][at]["label"] in page.find_element("css selector", "#detail h2").text
    gates = {row.get_attribute("data-gate"): float(row.text.split()[-1]) for row in page.find_elements("css selector", ".gate")}
    assert all(gates[name] == pytest.approx(model["gates"][name][at], abs=6e-4) for name in ("push", "pop", "noop"))
    lengths = [float(item.text) for item in page.find_elements("css selector", ".heat ol li")]
    assert lengths == pytest.approx(model["rows"]["stack"][at], abs=6e-4)
    pixels = page.execute_script(
        "const map = document.querySelector('canvas.map'); return [map.width, map.height,"
        " new Set(map.getContext('2d').getImageData(0, 0, map.width, map.height).data).size]"
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


def test_answers_at_nodes(browser, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = start(film_config(language="sentiment"), 0, tmp_path / "runs", quiet=True)
    inspect("film.txt", run=(run.folder,), html=tmp_path / "page.html", output=tmp_path / "tree.svg")
    rows = {row["id"]: row for row in run.read_records("film.txt").rows(named=True)}
    assert len(rows) == sum(phrase.count("(") for phrase in FILM)
    browser.get("about:blank")
    browser.get((tmp_path / "page.html").as_uri())
    script = "return DATA.equations.map(one => [one.id, one.labels, one.models.tree_rnn.answers])"
    for id, labels, answers in browser.execute_script(script):
        own = [rows[f"{id}/{node}"] for node in range(len(answers))]
        assert answers == [row["predicted"] for row in own] and labels == [row["label"] for row in own]
    wrong = [node for node in range(5) if not rows[f"2/{node}"]["correct"]]
    browser.execute_script("open(1)")
    missed = browser.find_elements("css selector", "#drawing .node.missed")
    assert wrong and sorted(int(group.get_attribute("data-node")) for group in missed) == wrong
    browser.execute_script(f"choose({wrong[0]})")
    detail, row = browser.find_element("id", "detail").text, rows[f"2/{wrong[0]}"]
    assert f"label {row['label']}" in detail and f"answer {row['predicted']}" in detail
    assert f"answer {rows['2/0']['predicted']}" in browser.find_element("id", "verdict").text
    assert "label 2" in browser.find_element("css selector", "#list button.chosen").text
    assert browser.get_log("browser") == []
