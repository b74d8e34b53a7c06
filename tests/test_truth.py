import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from each_case import assert_raises, cases
from near_identities import EQUATIONS, ON_LINES, newton, vanishing
from small_runs import small_config, small_run

from dgl_treestack.data import formats
from dgl_treestack.data.formats import read
from dgl_treestack.data.records import accuracy
from dgl_treestack.errors import ConfigurationError, ExpressionError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.generate.grow import UNARY
from dgl_treestack.generate.presets import SetOptions
from dgl_treestack.generate.production import produce
from dgl_treestack.resources import find_data
from dgl_treestack.results import archive, report
from dgl_treestack.results.run_result import read as read_result
from dgl_treestack.training.start import start
from dgl_treestack.truth import POINTS, Value, certificates, is_on_cut, judge, judge_at_fixed_points, judgement, value_of
from dgl_treestack.truth.evaluation import evaluate_sides
from dgl_treestack.truth.exact import BUDGET, Exact
from dgl_treestack.truth.points import FAR_SPREAD, FRESH_POINTS, MOST_ON_CUTS, SPREAD_POINTS, fresh, spread

HOLDING = ["sin(x)**2 + cos(x)**2 = 1", "exp(log(x)) = x", "x - x = 0", "0*x = 0", "0**0 = 1", "0.7 = 7/10", "sin(pi) = 0"]
HOLDING += ["cot(pi/2) = 0", "log(8, 2) = 3", "E**x = exp(x)", "sqrt(-1)**2 = -1"]
HOLDING += ["0**x = 0"]  # where Re x > 0, the only places where it is defined
# Rounding noise at a branch point is dropped.
HOLDING += ["log(x/x, 2) = 0", "acos(sin(x)**2 + cos(x)**2) = 0", "acosh(x*(1/x)) = 0", "asec(exp(x)*exp(-x)) = 0"]
REFUTED = ["x = 2*x", "2 + 2 = 5", "x**y = y**x"]
REFUTED += ["cos(2*y) = (1 - tan(x)**2)/(1 + tan(y)**2)"]  # the misspelt axiom of the papers' data
CONDITIONAL = ["sqrt(x**2) = x", "log(x*x) = 2*log(x)", "asin(sin(x)) = x", "sin(x) = sqrt(1 - cos(x)**2)"]
CONDITIONAL += ["(x**2)**y = x**(2*y)"]
UNDEFINED = ["nan = nan", "oo = oo", "1/(x - x) = 1", "tan(pi/2) = tan(pi/2)", "acot(0) = pi/2", "0**(-1) = 0**(-1)"]
UNDEFINED += ["(1/(x - x))**0 = 1"]  # NumPy says nan**0 = 1
UNDEFINED += ["9**9**9**9 = x", "x**x**x**x**x**x**x**x = 1/0", "exp(exp(exp(exp(x)))) = y**(y**(y**(99**99)))"]
SMALL = ["(x/9)**20000", "exp(-(x**2 + 9)*1000)", "sech(x**2*1000 + 999)", "csch(x**2*1000 + 999)"]
UNDEFINED += [f"acos({side}) = pi/2" for side in SMALL]  # what underflows is not zero
LISTS = {"holds": HOLDING, "refuted": REFUTED, "conditional": CONDITIONAL, "undefined": UNDEFINED}
VERDICTS = [(text, verdict) for verdict, texts in LISTS.items() for text in texts]

# Equal in every digit that a float has, and not equal.
LOOK_ALIKES = ["tanh(50) = 1", "exp(-exp(10)) = 0", "exp(-60) = 0", "exp(pi*sqrt(163)) = 262537412640768744", "1 + 1e-25 = 1"]
LOOK_ALIKES += ["1.0000000001*x = x", "1.00000000000000001*x = x", "x**1.0000000000001 = x"]
LOOK_ALIKES += ["(1 + 1e-17)*x = x", "sin(x) + 1e-15*sin(x) = sin(x)"]


@pytest.mark.parametrize("judged", [judge, judge_at_fixed_points])
@pytest.mark.parametrize(("text", "verdict"), VERDICTS)
def test_verdict(text, verdict, judged):
    judgement = judged(Equation.parse(text))
    assert judgement.verdict == verdict and (judgement.points >= 10 or verdict == "undefined")
    assert judgement.agreeing <= judgement.points <= FRESH_POINTS + SPREAD_POINTS + MOST_ON_CUTS


def test_a_small_difference_is_a_refutation_where_it_is_certain_and_cancellations_refute_nothing():
    fixed = judge_at_fixed_points(Equation.parse("x + 1e-9 = x"))  # between agreement and what is taken for a difference
    assert fixed.verdict == "conditional"
    verdict = judge(Equation.parse("x + 1e-3/x**4 = x"))
    assert (verdict.verdict, verdict.agreeing) == ("refuted", 0), "points that agree in float64 do not count as agreeing"
    side = "x"
    for _ in range(4):  # costs complex128 four digits each time, and no step is doubtful by itself
        side = f"({side} - x*Float(0.9999))*10**4"
    judgement = judge(Equation.parse(f"{side} = x"))
    assert (judgement.verdict, judgement.agreeing) == ("holds", judgement.points)


@pytest.mark.parametrize("judged", [judge, judge_at_fixed_points])
@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_saturated_values_never_make_an_equation_hold(text, judged):
    assert judged(Equation.parse(text)).verdict != "holds"


@pytest.mark.parametrize("names", ["xy", *(pytest.param(names, marks=pytest.mark.slow) for names in ("uw", "tb"))])
def test_near_identities(names):
    """With other variables, every other equation each, verdicts and numbers of points are the same."""
    variables, of_names = dict(zip("xy", names, strict=True)), {"xy": slice(None), "uw": slice(0, None, 2)}
    assert len(EQUATIONS) >= 200
    wrong = []
    for text, verdict in EQUATIONS[of_names.get(names, slice(1, None, 2))]:
        equation = Equation.parse(text)
        judged = judge(equation.with_variables(variables))
        if judged.verdict != verdict or (names != "xy" and judged.agreeing != judge(equation).agreeing):
            wrong.append((text, verdict, judged))
    assert not wrong
    assert judge(Equation.parse(f"{vanishing(names[0])} = 0")).verdict == "refuted"
    assert judge(Equation.parse(f"{newton('2', '3*half', 9)} = sqrt(2)")).verdict == "holds"  # differs by 1e-784


@pytest.mark.parametrize("text", ON_LINES)
def test_a_witness_on_a_cut_is_on_it(text):
    witness = judge(Equation.parse(text)).witness
    assert abs(witness.left - witness.right) > 0.1 * abs(witness.left)
    if text.startswith(("sqrt(1/x**2) ", "sqrt(1/(x**2 + ", "sqrt(sech", "log(1 + ")) and "y" not in text:
        assert witness.variables["x"].real == 0 != witness.variables["x"].imag


def test_leaves_of_equal_value_are_judged_alike():
    text = "sin(x)**2 + sqrt(sin(x)**2 + cos(x)**2 - sin(x**(sin(x)**2 + cos(x)**2))**(-2 + 4))**2 + {0} = {0} + {0}"
    verdicts = [judge(Equation.parse(text.format(leaf))) for leaf in ("one", "1", "1.0", "Rational(2/2)")]
    assert verdicts[0].verdict == "holds" and verdicts == 4 * verdicts[:1]
    verdicts = [judge(Equation.parse(f"x + {leaf}*y = x**2")) for leaf in ("half", "0.5", "Rational(1/2)")]
    assert verdicts[0].verdict == "refuted" and verdicts == 3 * verdicts[:1]


def test_fresh_points_depend_on_the_text_alone_and_fixed_points_do_not():
    equations = [Equation.parse(text) for text in ("x + sin(y) = 2", "b + sin(a) = 2", "x + sin(y) = 3")]
    for draw in (fresh, spread):
        first, second, other = map(draw, equations)
        assert (first.of("x") == second.of("b")).all() and (first.of("y") == second.of("a")).all()
        assert not {*first.of("x")} & {*other.of("x")}
        assert not np.signbit(first.of("x").imag[first.of("x").imag == 0]).any()
    values = fresh(equations[0]).of("x")
    assert len({*values, *fresh(equations[0]).of("y")}) == 2 * FRESH_POINTS
    assert (values[:4].real > 0).all() and (values[:8].imag == 0).all() and (np.abs(values[:24]) < 4).all()
    assert (np.abs(values[24:40]) > 3).all() and (np.abs(values.imag) > np.pi).sum() >= 8 and np.abs(values).max() > 50
    x, y = (spread(equations[0]).of(name)[:FAR_SPREAD] for name in "xy")
    is_far = np.abs(x) >= 3  # points near the origin have at most this real part
    assert (is_far | (np.abs(y) >= 3)).all() and 20 < is_far.sum() < 44
    alone = spread(Equation.parse("sin(x) = 2")).of("x")[:FAR_SPREAD]
    for part in (alone.real, alone.imag):
        for low in (3, 30, 50):
            assert (part > low).any() and (part < -low).any()
    values = [value_of("x", point) for point in range(POINTS)]
    assert all(v.imag == 0 and v.real > 0 for v in values[:4])
    assert all(v.imag == 0 for v in values[:8]) and any(v.real < 0 for v in values[4:8])
    assert all(abs(v.imag) > 0.1 for v in values[8:]) and any(abs(v.real) > math.pi / 2 for v in values[8:])
    assert len(set(values)) == POINTS and value_of("y", 3) != value_of("x", 3)


@pytest.mark.parametrize(("module", "judged"), [(judgement, judge), (certificates, judge_at_fixed_points)])
def test_verdict_and_witness_are_the_same_with_other_last_digits(module, judged, monkeypatch):
    """Processors differ in the last digit of a function. Often several points have the same largest gap but for that digit."""
    equations = [example.equation for example in formats.read_examples(["bundled:smoke/validation"]) if not example.label]
    before = [judged(equation) for equation in equations]
    generator, evaluate = np.random.default_rng(0), module.evaluate_sides

    def elsewhere(*arguments):
        sides = evaluate(*arguments)
        for side in sides:
            side.number = side.number * (1 + 2e-16 * generator.standard_normal(len(side.number)))
        return sides

    monkeypatch.setattr(module, "evaluate_sides", elsewhere)
    for equation, verdict in zip(equations, before, strict=True):
        after = judged(equation)
        assert (after.verdict, after.points, after.witness.point) == (verdict.verdict, verdict.points, verdict.witness.point)


@pytest.mark.parametrize("argument", ["x", "2", "1/3", "-3", "2*sqrt(-1)", "-1/2*sqrt(-1)"])
def test_functions_agree_with_mpmath_also_on_their_cuts(argument):
    """In complex128 where that is not doubtful, and in 80 digits."""
    for name in UNARY:
        inner, outer = (valued(Expression.parse(text)) for text in (argument, f"{name}({argument})"))
        exact, trusted = Exact(BUDGET), ~np.broadcast_to(outer.doubt, POINTS)
        assert argument != "x" or trusted.sum() >= 12, name
        for point in range(POINTS):
            x = complex(exact.value(inner, point))
            expected = complex(getattr(mpmath, name)(x.real if x.imag == 0 else x))
            values = [exact.value(outer, point), *([outer.number[point]] if trusted[point] else [])]
            assert list(map(complex, values)) == pytest.approx([expected] * len(values), rel=1e-9, abs=1e-12), (name, x)


def valued(expression: Expression) -> Value:
    stack: list[Value] = []
    for i in range(expression.size - 1, -1, -1):
        children = tuple(stack.pop() for _ in range(expression.arities[i]))
        stack.append(Value(expression.names[i], expression.texts[i], children))
    return stack[0]


@cases(("sin(x) = cos(x)", "refuted"), ("x + y = y + x", "holds"), ("x - x + (y - y) = 0", "holds"))
def test_no_verdict_without_a_point_in_many_digits(text, verdict):
    """Also what is refuted in complex128 is confirmed; work beyond the budget leaves points undefined."""
    equation = Equation.parse(text)
    for judged, digits, without in ((judge, 430, "undecided"), (judge_at_fixed_points, 80, "undefined")):
        digits = 80 if verdict == "refuted" else digits
        assert (judged(equation).verdict, judged(equation).precision) == (verdict, f"{digits} digits")
        assert judged(equation, budget=0).verdict == without


@pytest.mark.parametrize("name", ["exp", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sin", "atan"))])
def test_chains_of_twenty_thousand_operators(name):
    depth = 20_000
    equation = Equation.from_prefix("Equality " + f"{name} " * depth + "Symbol:x Symbol:x")
    # the radius of a ball grows by a third in every complex atan, so that 430 digits last for 3,000 of them
    assert judge(equation).verdict == ("refuted" if name == "sin" else "undecided")
    assert judge_at_fixed_points(equation).verdict == ("undefined" if name == "exp" else "refuted")


@cases(("sin Symbol:x", "Put '='"), ("Equality Blank One", "blank"), ("Equality Equality One One One", "inside"))
def test_what_has_no_truth_value_is_refused(prefix, message):
    assert_raises(ExpressionError, message, judge, Expression.from_prefix(prefix))


ON_CUT = ["log(-1) = x", "sqrt(-(x**0)) = 1", "acos(2) = x", "acosh(1) = 0", "log(x - x - 3) = 1", "sqrt(0) = 0"]
ON_CUT += ["(-1)**x = 1"]  # a power is exp(x*log(-1))
ON_CUT += ["asin(1) = pi/2", "asec(1/2) = 1"]  # a branch point; acos(2)
ON_CUT += ["asin(sin(x)**2 + cos(x)**2) = pi/2"]  # 1 at every point, but for rounding
ON_CUT += ["log(log(exp(x)) - x - 1) = 2"]  # -1 where x is in the strip of the logarithm
ON_CUT += ["asech(sin(asin(acosh(4)))) = acosh(1/acosh(4))"]
ELSEWHERE = ["sqrt(x) = x**(1/2)", "x**2 = x*x", "(-2)**3 = -8", "log(1) = 0", "sqrt(4) = 2", "acosh(5) = 1", "acot(x) = 1"]
ELSEWHERE += ["asech(1/5) = 1"]


@pytest.mark.parametrize("text", (*ON_CUT, *ELSEWHERE))
def test_on_a_cut_or_not(text):
    assert is_on_cut(*evaluate_sides(Expression.parse(text))) == (text in ON_CUT)


def test_bundled_certificates_say_it():
    examples = list(read(find_data("bundled:quickstart/validation")))[::10]
    for example in examples:
        assert example.certificate.get("cut", False) == is_on_cut(*evaluate_sides(example.equation)), example.id


@pytest.mark.slow
def test_generation_marks_pairs_or_leaves_them_out(tmp_path):
    for no_cuts in (False, True):
        folder = tmp_path / str(no_cuts)
        manifest = produce("paper", SetOptions(seed=5, equations=300, no_cuts=no_cuts), folder)
        marked = [example for path in folder.glob("*.jsonl.gz") for example in read(path) if "cut" in example.certificate]
        counts = [entry.get("on a branch cut, by depth", {}) for entry in manifest["files"].values()]
        assert sum(sum(by_depth.values()) for by_depth in counts) == len(marked)
        assert (marked == []) == no_cuts


def test_records_and_tables_without_them(tmp_path):
    with pytest.raises(ConfigurationError, match="No record is of an equation on a branch cut"):
        report.tabulate([small_run(tmp_path).folder], cuts=False)
    config = small_config(tmp_path)
    for kind in ("validation", "test"):
        path = tmp_path / f"{kind}.jsonl"
        examples = [replace(e, certificate={"cut": True} if i % 3 == 0 else {}) for i, e in enumerate(read(path))]
        formats.write(path, examples)
    run = start(config, 0, tmp_path / "runs")
    result = read_result(run.folder)
    assert result.of("test")["cut"].to_list() == [i % 3 == 0 for i in range(160)]
    archive.write(tmp_path / "records.parquet", [result])
    (stored,) = archive.read(tmp_path / "records.parquet")
    assert stored.of("test")["cut"].equals(result.of("test")["cut"])
    (row,) = report.tabulate([run.folder], cuts=False)
    validation = result.of("validation")
    assert row["validation"][0] == pytest.approx(accuracy(validation.filter(~validation["cut"])))
