"""`treestack generate`."""

import json
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NoReturn

from tyro.conf import Positional, arg

from dgl_treestack.cli import Cpus, OnCluster, where


def generate(
    preset: Annotated[Positional[str], arg(help="The data set to generate. Without it, the presets are listed.")] = "",
    *,
    output_dir: Annotated[Path | None, arg(help="Folder for the files. Default: data/PRESET.")] = None,
    seed: Annotated[int | None, arg(help="Default: the preset's own.")] = None,
    jobs: Annotated[int, arg(help="How many processes to use; the files are the same for any number.")] = 1,
    cluster: OnCluster = "",
    cpus_per_task: Cpus = 1.0,
    train_size: Annotated[int, arg(help="Equations of depth 1-7 in the training fold, for `paper`.")] = 0,
    max_depth: Annotated[int, arg(help="Depth of the deepest equations, for `deep` and `paper-deeper`.")] = 0,
    equations: Annotated[int, arg(help="About how many equations in all, for a smaller set of the same kind.")] = 0,
    no_cuts: Annotated[bool, arg(help="Leave out pairs with a value on a branch cut or at a branch point.")] = False,
    far_lists: Annotated[int, arg(help="Lists in each test file of longer lists or more arguments, for `listops`.")] = 0,
) -> None:
    """Generate certified equations. Run a command again to continue where it was stopped."""
    from dgl_treestack.generate import presets
    from dgl_treestack.generate.production import MANIFEST, produce

    if not preset:
        for name in presets.names():
            entry = presets.find(name)
            flags = "".join(f" --{option.replace('_', '-')}" for option in sorted(entry.accepts))
            print(f"{name:<16} {entry.summary}\n{'':<16} seed {entry.seed},{flags}")
        return
    signal.signal(signal.SIGTERM, _stop)
    folder, seed = output_dir or Path("data") / preset, presets.find(preset).seed if seed is None else seed
    options = presets.SetOptions(seed, train_size, max_depth, equations, no_cuts, far_lists)
    tasks = where(jobs, cluster, cpus_per_task)
    manifest = produce(preset, options, folder, tasks, progress=sys.stderr.isatty())
    for file, content in manifest["files"].items():
        print(f"{folder / file}: {content['equations']} {'sentences' if file.endswith('.txt') else 'equations'}")
        by_depth = content["by depth and label"].items()
        print("  by depth  " + "  ".join(f"{depth}: {sum(by_label.values())}" for depth, by_label in by_depth))
    for line in _notes(manifest["notes"]):
        print(line)
    print(f"{folder / MANIFEST}: counts by label, checksums, settings")


def _notes(notes: dict[str, Any], indent: str = "") -> Iterable[str]:
    """Yield the notes of a manifest as lines; dictionaries of dictionaries are indented."""
    for title, content in notes.items():
        nested = isinstance(content, dict) and any(isinstance(value, dict) for value in content.values())
        if nested:
            yield f"{indent}{title}:"
            yield from _notes(content, indent + "  ")
        elif content not in ({}, []):
            text = "  ".join(f"{key}: {value}" for key, value in content.items()) if isinstance(content, dict) else content
            yield f"{indent}{title}:  {text if isinstance(text, str) else json.dumps(text)}"


def _stop(*_: Any) -> NoReturn:
    """Handle SIGTERM."""
    print("Stopped; finished shards are kept. Run the same command again to continue.", file=sys.stderr)
    sys.exit(143)
