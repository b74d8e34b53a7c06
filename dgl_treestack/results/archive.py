"""Results of runs in one file that is small enough to be committed. Tables and most figures are computed from it again.

A ZIP file, compressed by LZMA, without pickle:

    description.json       the runs: configuration, seed, commit, machine, metrics per epoch, columns of their records
    arrays/<digest>.npy    columns of records; equal columns, such as the depths of a test set, are stored once

Records lose what tables do not need: texts, and the scores of equations. In place of a score -2, -1, 1 or 2 tells the answer,
and which member of a pair has the higher score, so that calibration cannot be computed. Records with vectors, such as
representations, are left out; the table's columns that were measured on them are stored as numbers.
"""

import hashlib
import io
import json
import lzma
import tokenize
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from dgl_treestack import atomic, plain_data
from dgl_treestack.data.records import Record
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.plain_data import tables_of
from dgl_treestack.results.columns import UTF_8, ColumnRecords, entries, smallest
from dgl_treestack.results.run_result import RunResult, range_of
from dgl_treestack.runs import configuration
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.run import checked_metrics

SCHEMA = 1
DESCRIPTION = "description.json"
NAMES = ("id", "pair", "family")  # columns of text that are stored
OWN = ("validation", "test")  # sets of records that are fields of a RunResult; the others are in `more`
NONE = -1  # an answer that is neither correct nor wrong

Columns = dict[str, np.ndarray]


def write(path: Path, runs: Sequence[RunResult]) -> None:
    """Write runs, with `values` where their records are left out, to a file. The same runs give the same bytes."""
    array_by_digest: dict[str, np.ndarray] = {}
    descriptions = []
    for run in runs:
        sets: dict[str, dict[str, str]] = {}
        for name, rows in {"validation": run.validation, "test": run.test, **run.more}.items():
            columns = _columns(rows)
            if columns is not None:
                sets[name] = {title: _digest(columns[title]) for title in sorted(columns)}
                array_by_digest |= {sets[name][title]: array for title, array in columns.items()}
        descriptions.append(
            {
                "config": configuration.dump(run.config),
                "seed": run.seed,
                "commit": run.commit,
                "machine": run.machine,
                "equations": run.equations,
                "measured": run.measured,
                "best_epoch": run.best_epoch,
                "classes": run.classes,
                "rows": run.rows,
                "values": run.values,
                "sets": sets,
                **({"cpu_seconds": run.cpu_seconds} if run.cpu_seconds else {}),
                **({"parameters": run.parameters} if run.parameters else {}),
            }
        )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as file:
        description = {"schema": SCHEMA, "runs": descriptions}
        file.writestr(zipfile.ZipInfo(DESCRIPTION), json.dumps(description), zipfile.ZIP_LZMA)
        for digest, array in sorted(array_by_digest.items()):
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=False)
            file.writestr(zipfile.ZipInfo(f"arrays/{digest}.npy"), content.getvalue(), zipfile.ZIP_LZMA)
    atomic.write_bytes(path, buffer.getvalue())


def read(path: Path) -> list[RunResult]:
    """Read the runs of a file that `write` has written. Raises DataError for any other file."""
    try:
        with zipfile.ZipFile(path) as file:
            description = json.loads(file.read(DESCRIPTION))
            if description["schema"] != SCHEMA:
                raise DataError(f"Its schema is {description['schema']!r}, not {SCHEMA}. Make it again with `reproduce`.", path)
            array_by_digest = {
                Path(name).stem: np.lib.format.read_array(io.BytesIO(file.read(name)), allow_pickle=False)
                for name in file.namelist()
                if name != DESCRIPTION
            }
        return [_run(entry, array_by_digest, path) for entry in description["runs"]]
    except OSError as error:
        raise DataError(f"Cannot be read: {error.strerror}.", path) from None
    except DataError:
        raise
    except (
        *(zipfile.BadZipFile, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError),
        *(ValueError, KeyError, TypeError, AttributeError, SyntaxError, tokenize.TokenError, MemoryError),
        ConfigurationError,
    ) as error:
        raise DataError(f"Not a complete file of records ({error!r}). Make it again with `reproduce`.", path) from None


def _run(entry: Mapping[str, Any], array_by_digest: Mapping[str, np.ndarray], path: Path) -> RunResult:
    """Return the run of an entry of the description."""
    sets = {
        name: _rows({title: array_by_digest[digest] for title, digest in columns.items()})
        for name, columns in entry["sets"].items()
    }
    for name in OWN:
        if len(sets[name]) and "depth" not in sets[name][0]:
            raise ValueError(f"the records {name!r} have no column 'depth'")
    return RunResult(
        path,
        plain_data.build(RunConfig, tables_of(entry["config"])),
        entry["seed"],
        checked_metrics(entry["rows"]),
        sets["validation"],
        sets["test"],
        equations=entry["equations"],
        commit=entry["commit"],
        machine=entry["machine"],
        measured=range_of(entry["measured"]),
        best_epoch=entry["best_epoch"],
        classes=tuple(entry["classes"]),
        more={name: rows for name, rows in sets.items() if name not in OWN},
        values=entry["values"],
        cpu_seconds=entry.get("cpu_seconds", 0.0),
        parameters=entry.get("parameters", 0),
    )


def has_vectors(rows: Sequence[Record]) -> bool:
    """Return whether records have entries of several numbers, so that they are left out."""
    return bool(rows) and any(isinstance(entry, list | dict) for entry in rows[0].values())


def _columns(rows: Sequence[Record]) -> Columns | None:
    """Return the columns of records that are stored: name -> (records,). None if they have vectors.

    Names are stored as bytes, numbers as they are, with NaN for None; other columns, such as texts, are left out.
    """
    if not len(rows):
        return {}
    if has_vectors(rows):
        return None
    if isinstance(rows, ColumnRecords):
        values_of_column = {name: entries(array) for name, array in rows.columns.items()}
    else:
        values_of_column = {
            name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)
        }
    columns: Columns = {}
    for name, values in values_of_column.items():
        kinds = set(map(type, values))
        if name in NAMES:
            columns[name] = np.array([str(value or "").encode(*UTF_8) for value in values], dtype=np.bytes_)
        elif name == "cut":
            columns[name] = np.array([bool(value) for value in values])
        elif name == "correct":
            columns[name] = np.array([NONE if value is None else value for value in values], dtype=np.int8)
        elif name in ("score", "schema"):
            continue
        elif kinds == {int}:
            columns[name] = smallest(np.array(values))
        elif kinds <= {int, float, NoneType} and kinds != {NoneType}:
            columns[name] = np.array(values, dtype=np.float64)
    has_verdicts = "label" in columns and set(np.unique(columns["label"])) <= {0, 1}
    scores = np.array(values_of_column.get("score", ()), dtype=float) if has_verdicts else np.empty(0)
    if "correct" in columns and not np.isnan(scores).all():
        columns["score"] = _levels(scores, columns)
        if columns["score"].all():
            del columns["correct"]  # it follows from label and score
    return columns


def _levels(scores: np.ndarray, columns: Columns) -> np.ndarray:
    """Return int8 (records,): the sign of the answer, doubled for the member of a pair farther from zero; 0 without a score."""
    positive = (columns["label"] == 1) == (columns["correct"] == 1)
    levels = np.where(np.isnan(scores), 0, np.where(positive, 1, -1)).astype(np.int8)
    if "pair" in columns:
        order = np.lexsort((scores, columns["pair"]))
        lower, higher = order[:-1], order[1:]
        apart = (
            (columns["pair"][lower] == columns["pair"][higher])
            & (columns["pair"][lower] != b"")
            & (positive[lower] == positive[higher])
            & (scores[lower] < scores[higher])
        )
        lower, higher = lower[apart], higher[apart]
        levels[np.where(positive[higher], higher, lower)] *= 2
    return levels


def _rows(columns: Columns) -> ColumnRecords:
    """Return the records of stored columns. Those that had no number, such as the label of a blank, are None."""
    count = len(next(iter(columns.values()), ()))
    if any(array.shape != (count,) for array in columns.values()):
        raise ValueError("columns of other lengths")
    for name in NAMES:
        if name in columns:
            entries(columns[name])  # raises UnicodeDecodeError, a ValueError
    restored = dict(columns)
    for name, array in columns.items():
        if array.dtype.kind == "f" and np.isnan(array).any():
            restored[name] = _without(array, np.isnan(array))
    if "correct" in columns:
        restored["correct"] = columns["correct"] == 1
        if (columns["correct"] == NONE).any():
            restored["correct"] = _without(restored["correct"], columns["correct"] == NONE)
    elif "score" in columns:
        restored["correct"] = (columns["score"] > 0) == (columns["label"] == 1)
    if "score" in columns and not columns["score"].all():
        restored["score"] = _without(columns["score"], columns["score"] == 0)
    nothing = dict.fromkeys(("label", "score", "correct"), np.full(count, None, dtype=object))
    return ColumnRecords({**nothing, **restored})


def _without(array: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Return an array with None where `missing` is true."""
    values = array.astype(object)
    values[missing] = None
    return values


def _digest(array: np.ndarray) -> str:
    """Return a name for an array that depends on its type and content only."""
    return hashlib.sha256(f"{array.dtype.str}{array.shape}".encode() + array.tobytes()).hexdigest()[:16]
