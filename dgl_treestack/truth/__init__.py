"""Does an equation hold? Numeric verdicts with a certificate.

Semantics
    Values are complex principal values. `0**0` is 1 and `0**z` is 0 for Re z > 0. A function evaluated on its branch cut
    takes the value that FLINT and mpmath give there (the cut is continuous counter-clockwise); there are no signed zeros: a
    real or imaginary part that is only rounding noise is +0 before the next operation.
    A value is *undefined* at a pole, beyond 1e20 in magnitude, below 1e-20 without being zero, or where a function has
    saturated (tanh within 1e-20 of 1), because finitely many digits cannot decide there. NaN and infinity are undefined.
    An equation holds only if both sides are equal at *every* point where both are defined.

Two judges
    `judge`, for any equation (`verify`, `audit`, completion). Its 42 points are drawn from the text of the equation, whatever
    its variables are called: 24 near the origin, 16 with real part, imaginary part or both between 3 and 50, two beyond.
    Four times as many are drawn for an equation that has values at a few of them only. One that seems to hold is judged at more
    points: 64 with one variable far in every direction; 120 on the axes, on the diagonals and between them, in every decade
    from 1e-6 to 1e4; and up to 32 at which an argument of one of its functions lies on the function's cut, computed by Newton's
    method. Of these, those that the digits cannot decide do not count. complex128 decides clear points. The others, and all
    points of an equation that seems to hold, are decided by balls (complex intervals), whose digits are doubled, up to 430,
    until the balls of the two sides are apart or agree in 60 digits.

        holds         no point where the sides differ, and balls of 80 digits agree at all points and of 430 at three
        refuted       the sides differ at three quarters of the points or more; balls are apart at two of them
        conditional   the sides differ at fewer points: true in a region, on a branch, or but for the cuts
        undefined     fewer than 10 points with values
        undecided     fewer than 10 points with values that the digits or the budget can decide

    `judge_at_fixed_points`, for equations that are generated, which are derived or made false besides. Its 24 points are fixed,
    derived from the name of a variable (`value_of`), so that a certificate names a witness by its number. *holds*: the relative
    gap is at most 1e-9 everywhere (1e-33 in 80 digits). *refuted*: it is above 1e-6 at three quarters of the points or more.
    *conditional*: anything between. *undefined*: fewer than 10 points have values. A point is doubtful when a value there is
    large, small, cancelled, saturated or close to a cut or branch point, or when the gap is neither clearly zero nor clearly
    not. Doubtful points are evaluated in 80 digits, or omitted if the others already refute. One point of what holds and two of
    what is refuted are confirmed so.

An equation without variables has a single value, used at every point. The work in many digits has a budget of operations, not
of seconds, so that a verdict is the same on every machine.

Limits: a part of a value that is smaller than 1e-347 times what was added is taken as zero, or no function could be evaluated
on its cut; so sides that differ by less count as equal. What differs only beyond the points does, too.
"""

from dgl_treestack.truth.certificates import Comparison as Comparison
from dgl_treestack.truth.certificates import judge_at_fixed_points as judge_at_fixed_points
from dgl_treestack.truth.certificates import judge_rounded as judge_rounded
from dgl_treestack.truth.evaluation import Value as Value
from dgl_treestack.truth.judgement import REFUTED_SHARE as REFUTED_SHARE
from dgl_treestack.truth.judgement import Verdict as Verdict
from dgl_treestack.truth.judgement import Witness as Witness
from dgl_treestack.truth.judgement import judge as judge
from dgl_treestack.truth.judgement import relative_gap as relative_gap
from dgl_treestack.truth.judgement import why_undefined as why_undefined
from dgl_treestack.truth.points import POINTS as POINTS
from dgl_treestack.truth.points import is_on_cut as is_on_cut
from dgl_treestack.truth.points import value_of as value_of
