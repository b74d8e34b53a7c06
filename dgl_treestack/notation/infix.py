"""Infix text, read and written.

Reading is `ast.parse` with a whitelist: nothing of the text is ever evaluated. Encodings are the papers':

    a - b    Add(a, Mul(-1, b))          -a       Mul(-1, a), and -1 is the leaf NegativeOne
    a / b    Mul(a, Pow(b, -1))          1 / a    Pow(a, -1)
    sqrt(a)  Pow(a, Half)                ln(a)    log(a, E), the same as log(a)
    a ^ b    a ** b                      a == b   a = b

`1` is an Integer, `1.29` a Number, `pi E oo nan one half _` are the constants and the blank. A leaf that has no short form
is written with its class: `Rational(2/5)`, `Integer(-2)`, `Float(0.7)`, `Symbol(pi)`. `write` chooses parentheses so that
`read(write(tree)) == tree`.
"""

from dgl_treestack.notation._infix_reader import read as read
from dgl_treestack.notation._infix_writer import write as write
