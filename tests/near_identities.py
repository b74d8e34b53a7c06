"""Equations that are nearly true, or true in a region only, beside some that are true: texts in x and y, and verdicts.

The verdicts are known: a difference that is no constant zero is at almost all points, and a branch is left at a known distance.
"""

from dgl_treestack.truth import POINTS, value_of


def newton(root: str, start: str, steps: int) -> str:
    """Newton's iteration for the square root of a number, written out; every step doubles the digits that are right."""
    iterate = start
    for _ in range(steps):
        iterate = f"half*({iterate} + {root}/({iterate}))"
    return iterate


def vanishing(variable: str) -> str:
    """A product that is zero at all fixed points of a variable."""
    values = [value_of(variable, point) for point in range(POINTS)]
    factors = [f"({variable} - ({value.real!r}) - ({value.imag!r})*sqrt(-1))" for value in values]
    return "*".join(factors)


def texts_of(listed: str) -> list[str]:
    """The equations of a text, which has a semicolon between them."""
    return [text.strip() for text in listed.split(";")]


SCALED = ("x", "sin(x)", "exp(x) + y", "log(x)*y", "sqrt(x)", "tanh(x) - y")  # times 1 + 10**-k
HOLDS = texts_of("""
acsch(x) = asinh(1/x); sqrt(x**2/(x**2 + 1)) = sqrt(x**2)/sqrt(x**2 + 1); asinh(x) = log(x + sqrt(x**2 + 1));
acoth(x) = (log(1 + 1/x) - log(1 - 1/x))/2; acot(x) = atan(1/x); log(1/x**2) = log((1/x)**2); sin(x)**2 + cos(x)**2 = 1;
cosh(x)**2 - sinh(x)**2 = 1; sin(2*x) = 2*sin(x)*cos(x); exp(x)*exp(y) = exp(x + y); exp(log(x)) = x; sin(asin(x)) = x;
tan(atan(x)) = x; tanh(atanh(x)) = x; cosh(acosh(x)) = x; sqrt(x)**2 = x; asin(x) + acos(x) = pi/2;
acos(x) + acos(-x) = pi; asec(x) = acos(1/x); cos(x + y) = cos(x)*cos(y) - sin(x)*sin(y);
(x + y)**3 = x**3 + 3*x**2*y + 3*x*y**2 + y**3; x**4 - y**4 = (x - y)*(x + y)*(x**2 + y**2); log(x, 2)*log(2) = log(x);
tan(x)*cos(x) = sin(x); 1/(1/x) = x; atan(-x) = -atan(x); asinh(-x) = -asinh(x); cos(sqrt(x)) = cos(-sqrt(x));
4*atan(1) = pi; 16*atan(1/5) - 4*atan(1/239) = pi; sqrt(5 + 2*sqrt(6)) = sqrt(2) + sqrt(3); asin(half) = pi/6;
(2 + sqrt(5))**(1/3) - (sqrt(5) - 2)**(1/3) = 1; sqrt(-1)**sqrt(-1) = exp(-pi/2); cos(pi/5) = (1 + sqrt(5))/4;
log(-1) = pi*sqrt(-1); 48*atan(1/18) + 32*atan(1/57) - 20*atan(1/239) = pi; sinh(asinh(x)*2) = 2*x*sqrt(x**2 + 1)
""")
CONDITIONAL = (  # the last of the first ones differs by 1e-12 where it does
    *texts_of("""
log(exp(x)) = x; asin(sin(x)) = x; acos(cos(x)) = x; atan(tan(x)) = x; atanh(tanh(x)) = x; asinh(sinh(x)) = x;
acosh(cosh(x)) = x; sqrt(x**2) = x; (x**3)**(1/3) = x; (x**2)**y = x**(2*y); log(x*y) = log(x) + log(y);
sqrt(x*y) = sqrt(x)*sqrt(y); log(x**2) = 2*log(x); sqrt(1/x) = 1/sqrt(x); log(1/x) = -log(x); sqrt(x**4) = x**2;
atan(x) + atan(1/x) = pi/2; sin(x) = sqrt(1 - cos(x)**2); atan(x) + atan(y) = atan((x + y)/(1 - x*y));
sqrt(exp(x)) = exp(x/2); log(exp(x)*exp(y)) = x + y; (x*y)**(1/3) = x**(1/3)*y**(1/3);
sqrt(x - y)*sqrt(x - y) = sqrt((x - y)**2); cos((log(exp(x)) - x)/1000/2000) = cos((log(exp(y)) - y)/1000/2000)
"""),
    *(f"asin(sin(x/{k})) = x/{k}" for k in (2, 3, 4)),
    *(f"log(exp(x/{k})) = x/{k}" for k in (2, 3, 4, 5, 6, 9.23, 14.96)),  # left at a distance of 47
    *(f"log(exp(x/{k})) + sin(y)*7 = x/{k} + sin(y)*7" for k in (1.59, 6.37, 14.01)),
    *(f"sqrt(({k} - x)**2) = {k} - x" for k in (*range(1, 13), 20, 32, 47)),
    *(f"sqrt(({k} + y)**2) = {k} + y" for k in range(4, 13, 2)),
    *(f"log(({k} + x)**2) = 2*log({k} + x)" for k in range(3, 13, 2)),
    *(f"atanh(tanh(x/{k})) = x/{k}" for k in (2, 3, 4)),
    *(f"({k} - x)**3 = (({k} - x)**9)**(1/3)" for k in (2, 5, 8)),
)
# True but on the cuts of their functions, which are lines, or but for small values.
ON_LINES = (
    *texts_of("""
sqrt(1/x**2) = 1/sqrt(x**2); sqrt(1/(x**2 + 1)) = 1/sqrt(x**2 + 1); sqrt(1/(x**2 + 3)) = 1/sqrt(x**2 + 3);
sqrt(sech(x)) = 1/sqrt(cosh(x)); log(sech(x)) = -log(cosh(x)); sqrt(csch(x)**2) = 1/sqrt(sinh(x)**2);
log(1 + 1/x**2) = log(x**2 + 1) - log(x**2); log(1/(sqrt(-1)*x)) = -log(sqrt(-1)*x);
log(1/(x**2 + 2*sqrt(-1))) = -log(x**2 + 2*sqrt(-1)); sqrt(1/(x + sqrt(-1))) = 1/sqrt(x + sqrt(-1));
log(1/cos(x)**2) = -log(cos(x)**2); log(1/exp(x)) = -log(exp(x)); sqrt(1/(x**2 + y**2)) = 1/sqrt(x**2 + y**2);
log(1/(x + y)**2) = -log((x + y)**2); sqrt(1/(exp(x) + exp(y))) = 1/sqrt(exp(x) + exp(y))
"""),
    *(f"sqrt(1/x**{k}) = 1/sqrt(x**{k})" for k in (4, 6, 8, 10)),  # the diagonals, and lines between
)
NEAR_ZERO = (
    *texts_of("""
exp(acosh(5*x + 1/(20*x))) = 10*x; exp(acosh((20*x + 1/(20*x))/2)) = 20*x;
log((x + 1/10)/(x - 1/10)) = log(x + 1/10) - log(x - 1/10); 2*acoth(8*x) = acoth((64*x**2 + 1)/(16*x));
sqrt(1 - 1/(100*x**2)) = sqrt(x - 1/10)*sqrt(x + 1/10)/x; atanh(16*x/(1 + 64*x**2)) = 2*acoth(8*x)
"""),
    *(f"exp(acosh((10**{k}*x + 1/(10**{k}*x))/2)) = 10**{k}*x" for k in (2, 3, 4, 5)),
    *(f"log((x + 10**(-{k}))*(x - y)) = log(x + 10**(-{k})) + log(x - y)" for k in (2, 4)),
)
REFUTED = (
    *texts_of("""
exp(pi*sqrt(163)) = 262537412640768744; exp(pi*sqrt(67)) = 147197952744; exp(pi*sqrt(43)) = 884736744;
log(640320**3 + 744)/sqrt(163) = pi; pi**4 + pi**5 = E**6; E**pi - pi = 20; 355/113 = pi; (9**2 + 19**2/22)**(1/4) = pi;
16*atan(1/5) - 4*atan(1/238) = pi; sqrt(2) + sqrt(3) = pi; sin(11) = -1; cos(710) = 1; cosh(1e-9*x)*cos(1e-9*x) = 1;
x + 1e-9 = x; x**1.0000000000001 = x; sin(x + 1e-15) = sin(x); exp(x + 1e-18) = exp(x); x*y + 1e-18*y = x*y;
sqrt(10) + sqrt(11) = sqrt(5) + sqrt(18); 163/log(163) = 2**5; E**(pi/2) = 48104/10000; tan(11*half) = -1 + 1/221
"""),
    *(f"(1 + 1e-{k})*({text}) = {text}" for text in SCALED for k in range(5, 20)),
    *(f"{newton(root, '3*half', steps)} = sqrt({root})" for root in ("2", "3") for steps in range(2, 9)),  # to 1e-392
    *(f"{newton('x', '1', steps)} = sqrt(x)" for steps in range(3, 7)),
    *(  # to some 80 digits
        f"({text} + {d})*({text} - {d})*({text} + sqrt(-1)*{d})*({text} - sqrt(-1)*{d}) = {result}"
        for text, d, result in (("x", "5e-20", "x**4"), ("x**4", "1e-19", "x**16"), ("x + y", "1e-19", "(x + y)**4"))
    ),
    *(f"cos({text}*x) = 1" for text in ("1e-5", "1e-9", "1e-17", "1e-19")),
)
EQUATIONS = [
    *((text, "holds") for text in HOLDS),
    *((text, "conditional") for text in (*CONDITIONAL, *ON_LINES, *NEAR_ZERO)),
    *((text, "refuted") for text in REFUTED),
]
