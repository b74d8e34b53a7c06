"""Campaigns of what a training leaves and reads: run folders, weights, foreign checkpoints, records; and of graphs."""

import io
import json
import pickle
import random
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import torch

from dgl_treestack import plain_data
from dgl_treestack.data import formats, graph, records
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.model.model import Model
from dgl_treestack.results import archive, report, run_result
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.import_authors import import_checkpoint
from dgl_treestack.runs.run import Run
from dgl_treestack.runs.weights import CHECKSUM
from dgl_treestack.training.start import start
from fuzz import mutate
from fuzz.inputs import ACCEPTED, Attack, small_examples


def _small_run(scratch: Path) -> Run:
    """Train a run of a second."""
    path = scratch / "small.jsonl"
    formats.write(path, small_examples())
    data = {"train": [str(path)], "validation": [str(path)], "test": [str(path)], "max_depth": 4}
    model = {"name": "tree_smu", "hidden": 4, "settings": {"stack_size": 2}}
    described = {"name": "small", "model": model, "data": data, "schedule": {"epochs": 2}, "compile": "off"}
    return start(plain_data.build(RunConfig, described), 0, scratch / "runs", quiet=True)


def run_folders(scratch: Path) -> Attack:
    """One file of a run folder damaged, swapped with another one, or gone; then the run is read, reported or resumed."""
    run = _small_run(scratch)
    model_scores = run.load_model().score(["x = y"])
    files = [path.relative_to(run.folder) for path in sorted(run.folder.rglob("*")) if path.is_file()]

    def attack(source: random.Random) -> str:
        copy = scratch / "attacked" / run.folder.name
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(run.folder, copy)
        path = copy / source.choice(files)
        content, kind = path.read_bytes(), source.randrange(6)
        if kind == 0:
            path.unlink()
        elif kind == 1:
            path.write_bytes((copy / source.choice(files)).read_bytes())
        elif kind == 2 and path.suffix in (".json", ".jsonl"):
            lines = content.decode().splitlines() if path.suffix == ".jsonl" else [content.decode()]
            i = source.randrange(len(lines))
            lines[i] = (
                mutate.nested(source) if source.random() < 0.1 else json.dumps(mutate.plain(source, json.loads(lines[i])))
            )
            path.write_text("\n".join(lines) + "\n")
        elif kind == 3 and path.suffix in (".toml", ".json", ".jsonl", ""):
            path.write_bytes(mutate.text(source, content.decode()).encode(errors="surrogatepass"))
        elif kind == 4:
            path.unlink()
            path.mkdir()
        else:
            path.write_bytes(mutate.content(source, content))
        action = source.randrange(3)
        if action == 0:
            score = Run.open(copy).load_model().score(["x = y"])
            assert torch.isfinite(score).all(), "a score that is not finite"
            return ACCEPTED if torch.equal(score, model_scores) else "accepted, other score"
        if action == 1:
            result = run_result.read(Run.open(copy).folder)
            (row,) = report.rows_of([result])
            shares = [
                value for name, (value, _) in ((n, v) for n, v in row.items() if isinstance(v, tuple)) if name != "best epoch"
            ]
            assert all(0 <= share <= 100 for share in shares), f"shares {shares}"
        else:
            if (copy / "DONE").is_file():
                (copy / "DONE").unlink()
            start(run.config, 0, copy.parent, resume=True, quiet=True)
            assert (copy / "DONE").exists()
        return ACCEPTED

    return attack


def weights(scratch: Path) -> Attack:
    """Safetensors files with damaged headers and contents; half of them without a checksum, as earlier versions wrote them."""
    run = _small_run(scratch)
    content = run.best.read_bytes()
    length = int.from_bytes(content[:8], "little")
    tensors = content[8 + length :]
    header = json.loads(content[8 : 8 + length])
    description = json.loads(header["__metadata__"]["description"])
    del description[CHECKSUM]
    earlier = {**header, "__metadata__": {"description": json.dumps(description)}}

    def file(header: Any) -> bytes:
        text = json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + tensors

    def attack(source: random.Random) -> str:
        attacked = earlier if source.random() < 0.5 else header
        if source.random() < 0.5:
            run.best.write_bytes(file(mutate.plain(source, attacked)))
        else:
            run.best.write_bytes(mutate.content(source, file(attacked)))
        score = Run(run.folder).load_model().score(["x = y"])
        return ACCEPTED if torch.isfinite(score).all() else "accepted, score too large"  # one flipped bit of an exponent

    return attack


class _Planted:
    """Writes a file when it is unpickled."""

    def __init__(self, path: str):
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path(self.path),))


def pickles(scratch: Path) -> Attack:
    """Checkpoints for `import-authors`: pickles of every protocol, archives, damaged ones; nothing of them may run."""
    planted = scratch / "planted"
    tensors = {"Symbol.weight": torch.zeros(3, 4), "bias": torch.zeros(1), "a": torch.zeros(2, 2, dtype=torch.complex64)}
    saved = []
    for is_archive in (True, False):
        buffer = io.BytesIO()
        torch.save(tensors, buffer, _use_new_zipfile_serialization=is_archive)
        saved.append(buffer.getvalue())

    def attack(source: random.Random) -> str:
        kind = source.randrange(5)
        if kind == 0:
            content = pickle.dumps({"state_dict": _Planted(str(planted))}, protocol=source.randrange(6))
        elif kind == 1:
            buffer = io.BytesIO()
            torch.save({"a": _Planted(str(planted))}, buffer, pickle_protocol=source.randrange(2, 6))
            content = buffer.getvalue()
        elif kind == 2:
            content = pickle.dumps(mutate.plain(source, {"a": [1, "b"], "c": {"d": 1.5}}), protocol=source.randrange(6))
        else:
            content = mutate.content(source, source.choice(saved))
        path = scratch / "checkpoint.pt"
        path.write_bytes(content)
        try:
            import_checkpoint(path, scratch / "imported")
        finally:
            assert not planted.exists(), "code of a pickle ran"
        return ACCEPTED

    return attack


def archives(scratch: Path) -> Attack:
    """Files `records.parquet`, and tables of records in a run."""
    run = _small_run(scratch)
    path, table = scratch / "records.parquet", next((run.folder / "records").glob("*.parquet"))
    archive.write(path, [run_result.read(run.folder)])
    contents = path.read_bytes(), table.read_bytes()
    rows, description = pl.read_parquet(path), json.loads(pl.read_parquet_metadata(path)[archive.DESCRIPTION])

    def attack(source: random.Random) -> str:
        kind = source.randrange(3)
        if kind == 0:
            path.write_bytes(mutate.content(source, contents[0]))
        elif kind == 1:
            records.write(path, rows, {archive.DESCRIPTION: json.dumps(mutate.plain(source, description))})
        else:
            table.write_bytes(mutate.content(source, contents[1]))
        for result in [run_result.read(run.folder)] if kind == 2 else archive.read(path):
            report.rows_of([result])
        return ACCEPTED

    return attack


def graphs(scratch: Path) -> Attack:
    """Batched graphs with wrong edges and features: refused, or with the states that the engine `topo` gives."""
    vocabulary = Vocabulary.preset("canonical")
    model = Model.build("tree_smu", 4, vocabulary, seed=0).double().eval()
    trees = [example.equation for example in small_examples()]

    def attack(source: random.Random) -> str:
        batch = graph.from_expressions(source.sample(trees, source.randint(1, 3)), vocabulary)
        for _ in range(source.randint(1, 2)):
            kind = source.randrange(5)
            home = source.choice((batch.ndata, batch.edata))
            name = source.choice(list(home) or [""])
            if not name:
                continue
            values = home[name]
            if kind == 0:
                i = source.randrange(len(values)) if len(values) else 0
                changed = values.clone()
                if len(values):
                    changed[i] = torch.tensor(source.choice((-2, -1, 0, 1, 2, 5, 100, 10**6))).to(values.dtype)
                home[name] = changed
            elif kind == 1:
                home[name] = values.to(source.choice((torch.float32, torch.int32, torch.bool, torch.float64)))
            elif kind == 2:
                del home[name]
            elif kind == 3:
                nodes = batch.num_nodes()
                batch.add_edges(source.randrange(nodes), source.randrange(nodes))
            else:
                batch.remove_edges([source.randrange(batch.num_edges())])
        states = model.states(batch)
        reference = model.states(batch, engine="topo")
        assert torch.allclose(states, reference, atol=1e-9, equal_nan=True)
        return ACCEPTED

    return attack
