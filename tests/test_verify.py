"""`treestack verify`: the numeric check first, a model when there is one that answers."""

import io
import json
import re
import subprocess
import sys

import pytest
from each_case import cases

from dgl_treestack.cli import main

NEEDLESS = ("torch", "dgl", "numpy", "flint", "sympy", "sklearn", "scipy", "matplotlib", "tqdm")  # for a syntax error


@pytest.fixture
def verify(capsys, monkeypatch):
    def call(*arguments, stdin="", code=0):
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as left:
            main(["verify", *arguments])
        assert (left.value.code or 0) == code
        return capsys.readouterr()

    return call


def apart(*arguments):
    """Run the command in a process of its own; return the process, and which of the needless libraries it has loaded."""
    script = f"import sys; from dgl_treestack.cli import main\ntry: main({['verify', *arguments]})\n"
    script += f"except SystemExit as left: print(left.code, *[name for name in {NEEDLESS} if name in sys.modules])"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return process, process.stdout.splitlines()[-1].split()


def test_a_syntax_error_waits_for_no_library_and_the_check_needs_no_torch():
    process, loaded = apart("sin(x) = ")
    assert loaded == ["2"] and "side of the equation is missing" in process.stderr
    process, loaded = apart("--no-model", "x + y = y + x")
    assert "numeric  holds: " in process.stdout and "torch" not in loaded and "model" not in process.stdout


@cases("x + 1e-9 = x", "sin(x) = cos(x)", "2**10 + 1e-9 = 1024", "x*(1 + 1e-12*I) = x", "sqrt(1/x**2) = 1/sqrt(x**2)")
def test_the_sides_differ_to_the_eye(verify, text):
    left, right = re.search(r"the sides are (\S+) and (\S+)$", verify(text, "--no-model").out, re.MULTILINE).groups()
    assert complex(left) != complex(right) and max(len(left), len(right)) <= 2 * 20


def test_a_difference_beyond_the_digits_of_a_float_is_a_number(verify):
    text = verify("(x + 5e-20)*(x - 5e-20)*(x + I*5e-20)*(x - I*5e-20) = x**4", "--no-model").out
    assert 0 < float(re.search(r"and differ by (\S+)$", text, re.MULTILINE)[1]) < 1e-70


def test_why_something_is_undefined(verify):
    reasons = {
        "2**70 = 2**71": "2**71 is beyond 1e+20 in size",
        "1/(x - x) = 1": "1/(x - x) divides by zero",
        "x = oo": "oo is no number",
        "tan(pi/2) = 1": "tan(pi/2) is at a pole",
        "tanh(50) = 1": "tanh(50) is too close to its limit",
        "0**I = 1": "0**sqrt(-1) is a power of zero without value",
        "exp(-exp(10)) = 0": "exp(-exp(10)) is beyond",
    }
    for text, reason in reasons.items():
        assert f"numeric  undefined: {reason}" in verify(text, "--no-model").out, text


def test_the_verdict_is_shown_when_the_model_has_no_answer(verify):
    text = verify("a*b + c + d = d + c + f*g").out
    assert "numeric  refuted: " in text and "model    no answer: " in text and "Symbol" in text
    answer = json.loads(verify("a*b + c + d = d + c + f*g", "--json").out)
    assert answer["verdict"] == "refuted" and answer["probability"] is None and "Symbol" in answer["refused"]
    text = verify(f"x*0.{'1234567890' * 6} = 0.{'1234567890' * 6}*x").out
    assert "numeric  holds: " in text and "P(correct)" in text
    text = verify(f"x*0.{'1' * 80} = 0.{'1' * 79}2*x", "--no-model").out
    assert "numeric  refuted: 0 of 42" in text and "differ by" in text


def test_several_equations_and_errors_as_json(verify, tmp_path):
    (tmp_path / "equations.txt").write_text("x = x\n\n2x = x\n")
    output = verify("x + y = y + x", "--file", str(tmp_path / "equations.txt"), "--no-model", code=2)
    assert output.out.count("numeric  holds: ") == 2 and "equations.txt:3: Not an expression" in output.err
    output = verify("-", "--json", "--no-model", stdin="x = y\nx = x\n")
    assert [answer["verdict"] for answer in json.loads(output.out)] == ["refuted", "holds"]
    assert "There is no equation" in verify(code=2).err
    assert "Cannot be read" in verify("--file", str(tmp_path / "nothing.txt"), code=2).err
    answer = json.loads(verify("2x = x", "--json", code=2).out)
    assert answer["equation"] == "2x = x" and "Write 2*x for 2x." in answer["error"]
    answers = json.loads(verify("x = x", "sin x = 1", "--json", "--no-model", code=2).out)
    assert [sorted(answer) for answer in answers] == [["equation", "numeric", "verdict"], ["equation", "error"]]


def test_a_minus_at_the_beginning_and_what_is_said_of_names_and_of_equations_without_variables(verify):
    assert "-x = x - 2*x   (depth" in verify("-x = x - 2*x", "--no-model").out
    assert "holds" in verify("-1 + x = x - 1", "--no-model").out
    assert "unrecognized" in verify("-quick", code=2).err.lower()
    assert "Read as variables: ab, x; a product a*b." in verify("ab = x", "--no-model").out
    assert "I is the imaginary unit" in json.loads(verify("exp(i*pi) = -1", "--no-model", "--json").out)["remark"]
    assert "holds" in verify("exp(I*pi) = -1", "--no-model").out and "oo" in verify("infinity = x", "--no-model").out
    text = verify("2**10 = 1024").out
    assert "right about 68 of 100 equations without variables" in text and "100 %" not in text
    assert "test equations of depth 2" in verify("x*y = y*x").out
