"""Campaigns of texts: equations and trees, data files, configurations, languages."""

import dataclasses
import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path

import torch

from dgl_treestack import plain_data
from dgl_treestack.data import formats
from dgl_treestack.expression import Expression, language
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.runs import configuration
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.run import build_model
from fuzz import mutate
from fuzz.inputs import ACCEPTED, LANGUAGES, Attack, is_same, small_examples


def parsers(scratch: Path) -> Attack:
    """Texts of equations in infix and prefix form, and of trees of every language."""
    signatures: list[Signature] = [MATH, *(language.read(path) for path in sorted(LANGUAGES.glob("*.toml")))]
    equations = [str(example.equation) for example in small_examples()]
    prefixes = [example.equation.prefix() for example in small_examples()]
    trees = ["[MAX 2 9 [MIN 4 7 ] 0 ]", "( ( not a ) ( and b ) )", "(3 (2 It) (4 (2 's) (4 good)))", "(a (or b)) # (not c)"]

    def attack(source: random.Random) -> str:
        signature = source.choice(signatures)
        is_prefix = source.random() < 0.4
        seeds: Sequence[str] = prefixes if is_prefix else equations if signature is MATH else trees
        given = mutate.text(source, source.choice(seeds), seeds)
        tree = Expression.from_prefix(given, signature) if is_prefix else Expression.parse(given, signature)
        assert is_same(Expression.from_prefix(tree.prefix(), signature), tree)
        if signature is MATH:
            assert is_same(Expression.parse(str(tree)), tree)
        return ACCEPTED

    return attack


def data_files(scratch: Path) -> Attack:
    """Lines and bytes of data files, plain and compressed."""
    lines = [json.dumps(formats.to_dict(example)) for example in small_examples()]

    def attack(source: random.Random) -> str:
        chosen = source.sample(lines, 3)
        kind = source.randrange(4)
        if kind == 0:
            chosen[1] = mutate.text(source, chosen[1], lines)
        elif kind == 1:
            chosen[1] = json.dumps(mutate.plain(source, json.loads(chosen[1])))
        elif kind == 2 and source.random() < 0.1:
            chosen[1] = mutate.nested(source)
        content = ("\n".join(chosen) + "\n").encode(errors="surrogatepass")
        path = scratch / source.choice(("data.jsonl", "data.jsonl.gz", "data.tsv", "data.txt", "data.json"))
        if path.suffix == ".gz":
            content = gzip.compress(content, mtime=0)
        path.write_bytes(mutate.content(source, content) if kind >= 2 else content)
        for example in formats.read(path):
            assert is_same(formats.from_dict(formats.to_dict(example)).equation, example.equation)
        return ACCEPTED

    return attack


def configurations(scratch: Path) -> Attack:
    """Configurations and `--set`, as far as the model with its parameters on the device `meta`."""
    folder = Path("configs")
    texts = [path.read_text() for path in sorted([*folder.glob("models/*.toml"), *folder.glob("quickstart/*.toml")])]
    keys = list(plain_data.flat(configuration.load(sorted(folder.glob("quickstart/*.toml"))[0])))
    keys += ["model.settings.stack_size", "model.settings.form", "model.settings.noop", "model.head_settings.verification.x"]

    def attack(source: random.Random) -> str:
        given = source.choice(texts)
        path = scratch / "config.toml"
        assignments = []
        if source.random() < 0.5:
            given = mutate.text(source, given, texts)
        else:
            value = source.choice(
                ("0", "-1", "1e999", "nan", "1" * 5000, "[" * 3000, "2020-01-01", "99999", "true", "{}", "'a\0b'")
            )
            value = value if source.random() < 0.7 else mutate.text(source, value)
            assignments = [f"{source.choice(keys)}={value}"]
        path.write_bytes(given.encode(errors="surrogatepass"))
        config = plain_data.override(configuration.load(path), assignments)
        assert plain_data.build(RunConfig, dataclasses.asdict(config)) == config or assignments
        if config.model.hidden <= 256:
            with torch.device("meta"):
                build_model(config.model, signals=config.signals)
        return ACCEPTED

    return attack


def languages(scratch: Path) -> Attack:
    """Files that describe a language."""
    texts = [path.read_text() for path in sorted(LANGUAGES.glob("*.toml"))]

    def attack(source: random.Random) -> str:
        path = scratch / "language.toml"
        path.write_bytes(mutate.text(source, source.choice(texts), texts).encode(errors="surrogatepass"))
        signature = language.read(path)
        path.write_text(language.to_toml(signature))
        assert language.read(path) == signature
        return ACCEPTED

    return attack
