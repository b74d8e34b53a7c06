"""Equation completion: which expression fills a blank? A verification model scores the equation with every candidate in place.

`graphs`     blanks and candidates as one graph, in which only what lies above a blank is there once per candidate
`scoring`    the scores of all candidates for every blank
`ranking`    where the truth stands among them
`questions`  files of blanks with their candidates
`choices`    what is tried where nobody gives candidates
`records`    a record per blank, and shares within a rank

Source: Arabshahi 2020 and Mali 2021, their sections on equation completion; the ranks as in the released code.
"""
