"""Equation completion: which expression fills a blank? A verification model scores the equation with every candidate in place.

`graphs`     blanks and candidates as one graph, in which only the nodes above a blank exist once per candidate
`scoring`    the scores of all candidates for every blank, ranks of the truth among them, and the best fillers for one equation
`questions`  files of blanks with their candidates
`records`    a record per blank, and shares within a rank

Source: Arabshahi 2020 and Mali 2021, their sections on equation completion; the ranks as in the released code.
"""
