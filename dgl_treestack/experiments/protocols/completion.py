"""Equation completion by models that were trained to verify: where do they rank what was blanked?"""

from dgl_treestack.experiments._models import MAIN, SAME, every_tree_model
from dgl_treestack.experiments._protocol import Column, Protocol, filled

PROTOCOL = Protocol(
    "Completion",
    "Arabshahi 2020, Figure 4, and Mali 2021, Figure 3, which print no numbers",
    every_tree_model({}),
    (
        *(Column(f"{kind} top-{most}", filled(kind, most)) for kind in ("raw", "class", "collapse") for most in (1, 5)),
        *(
            Column(f"deep, {kind} top-{most}", filled(kind, most, "deep blanks"))
            for kind, most in (("class", 1), ("collapse", 5))
        ),
    ),
    extras=("blanks", "deep blanks"),
    figures=("completion",),
    drawn=MAIN,
    note="Blanks of depth 0-2 (the paper of 2020 has 1-2, its files 0-1), and of depth 1-13 with a thousand candidates each "
    "(deep) as in 2021. " + SAME,
    compared=(),
)
