"""Equation completion: which expression fills a blank? A verification model scores the equation with every candidate in place.

Source: Arabshahi 2020 and Mali 2021, their sections on equation completion; the ranks as in the released code.
"""
