"""Does an equation hold? Numeric verdicts with a certificate.

Semantics
    Values are complex principal values. `0**0` is 1 and `0**z` is 0 for Re z > 0. A function evaluated on its branch cut
    takes the value that FLINT and mpmath give there (the cut is continuous counter-clockwise); there are no signed zeros: a
    real or imaginary part that is only rounding noise is +0 before the next operation.
    A value is *undefined* at a pole, beyond 1e20 in magnitude, below 1e-20 without being zero, or where a function has
    saturated (tanh within 1e-20 of 1), because finitely many digits cannot decide there. NaN and infinity are undefined.
    An equation holds only if both sides are equal at *every* point where both are defined.

Points
    Each variable has one fixed value per point, derived from its name (`value_of`): 4 points with positive reals, 4 with
    reals of either sign, 16 with complex numbers. They do not depend on the equation, so a witness can be evaluated again.
    An equation without variables has a single value, which is computed in 80 digits and used at every point.

Verdicts, over at least 10 defined points
    holds         relative gap at most 1e-9 at every one of them (1e-33 where 80 digits were used)
    refuted       relative gap above 1e-6 at three quarters of them or more
    conditional   anything between
    undefined     fewer defined points

Values are computed in complex128 first: all points of a subtree at once, each distinct subtree once. A point is *doubtful*
when a value computed for it is large, small, cancelled, saturated or close to a cut or branch point, or when the gap itself is
neither clearly zero nor clearly not. Doubtful points are evaluated again in 80 digits, or omitted if the others already
refute. An equation holds only if at least one point is confirmed in 80 digits; it is refuted only if the point with the
largest gap and another one are. The work in 80 digits has a budget of operations, not of seconds, so that a verdict is the
same on every machine; a point beyond the budget is undefined.

Limits: sides that differ by less than these gaps at every point count as equal, as do `cosh(1e-9*x)*cos(1e-9*x)` and 1. The 80
digits are not intervals; three cancellations of 19 digits each use them up.
"""

from dgl_treestack.truth.evaluation import POINTS as POINTS
from dgl_treestack.truth.evaluation import Value as Value
from dgl_treestack.truth.evaluation import value_of as value_of
from dgl_treestack.truth.judgement import Verdict as Verdict
from dgl_treestack.truth.judgement import Witness as Witness
from dgl_treestack.truth.judgement import certify as certify
from dgl_treestack.truth.judgement import compare as compare
from dgl_treestack.truth.judgement import judge as judge
from dgl_treestack.truth.judgement import judge_rounded as judge_rounded
