"""`treestack generate`."""

import json
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from dgl_treestack.generate import presets
from dgl_treestack.generate.presets import Options
from dgl_treestack.generate.production import MANIFEST, produce


def describe_presets() -> str:
    """The presets, one a line."""
    lines = []
    for name in presets.names():
        options = "".join(f" --{option.replace('_', '-')}" for option in sorted(presets.find(name).accepts))
        lines.append(f"{name:<16} {presets.find(name).summary}\n{'':<16} seed {presets.find(name).seed},{options}")
    return "\n".join(lines)


def generate_preset(name: str, output_dir: Path, seed: int | None, sizes: dict[str, int], jobs: int, progress: bool) -> None:
    """Make a preset's files and print what was made, dropped and missing.

    seed: None for the preset's own. sizes: the options of `presets.Options` beside the seed.
    """
    preset = presets.find(name)
    signal.signal(signal.SIGTERM, _stop)
    manifest = produce(name, Options(preset.seed if seed is None else seed, **sizes), output_dir, jobs, progress)
    for file, content in manifest["files"].items():
        print(f"{output_dir / file}: {content['equations']} equations")
        print("  by depth  " + "  ".join(f"{d}: {sum(n.values())}" for d, n in content["by depth and label"].items()))
    for line in _notes(manifest["notes"]):
        print(line)
    print(f"{output_dir / MANIFEST}: counts by label, checksums, settings")


def _notes(notes: dict[str, Any], indent: str = "") -> Iterable[str]:
    for title, content in notes.items():
        nested = isinstance(content, dict) and any(isinstance(value, dict) for value in content.values())
        if nested:
            yield f"{indent}{title}:"
            yield from _notes(content, indent + "  ")
        elif content not in ({}, []):
            text = "  ".join(f"{key}: {value}" for key, value in content.items()) if isinstance(content, dict) else content
            yield f"{indent}{title}:  {text if isinstance(text, str) else json.dumps(text)}"


def _stop(*_: Any) -> NoReturn:
    print("Stopped; finished shards are kept, and the same command goes on.", file=sys.stderr)
    sys.exit(143)
