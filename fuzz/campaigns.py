"""The campaigns: name -> a function that prepares a folder and returns the attack, which runs one input and names its outcome.

An attack raises a TreestackError for input that is refused. `accepted` means a result that is consistent in itself.
"""

from collections.abc import Callable
from pathlib import Path

from fuzz.files import archives, graphs, pickles, run_folders, weights
from fuzz.inputs import Attack
from fuzz.texts import configurations, data_files, languages, parsers

# Campaign -> its share of the inputs in per cent: many where an input takes a fraction of a millisecond.
SHARES = {
    parsers: 40,
    data_files: 26,
    configurations: 8,
    languages: 8,
    weights: 6,
    pickles: 6,
    archives: 2,
    graphs: 3,
    run_folders: 1,
}
CAMPAIGNS: dict[str, Callable[[Path], Attack]] = {campaign.__name__: campaign for campaign in SHARES}
