"""`treestack`: every command is one call into the package. Heavy imports happen inside a command, so that `--help` is quick."""

import json
import logging
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import Positional, arg

from dgl_treestack import __version__
from dgl_treestack.errors import TreestackError

app = tyro.extras.SubcommandApp()

Json = Annotated[bool, arg(name="json", help="Print JSON for programs instead of text for people.")]
Device = Annotated[str, arg(help="cpu, or cuda; the engine topo needs a DGL that is built for it.")]
Engine = Annotated[Literal["levels", "topo"], arg(help="The driver that runs the cell over a batch.")]
Compile = Literal["auto", "on", "off"]


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, default=str))


@app.command
def doctor(json: Json = False) -> int:
    """Print versions, device, which DGL is used and what is missing. Exit code 1 when something is."""
    from dgl_treestack.doctor import describe, examine

    found = examine()
    _print_json(found) if json else print(describe(found))
    return 1 if found["problems"] else 0


@app.command
def cells(json: Json = False) -> None:
    """List every model name with its paper, equations and size."""
    from dgl_treestack.model.table import rows, text

    _print_json(rows()) if json else print(text(rows()))


@app.command
def generate(
    preset: Annotated[Positional[str], arg(help="Which data set to make; without it, the presets are listed.")] = "",
    *,
    output_dir: Annotated[Path | None, arg(help="Folder for the files; data/PRESET when it is not given.")] = None,
    seed: Annotated[int | None, arg(help="The preset's own when it is not given.")] = None,
    jobs: Annotated[int, arg(help="Processes; the files are the same for any number.")] = 1,
    train_size: Annotated[int, arg(help="Equations of depth 1-7 in the training fold, for `paper`.")] = 0,
    max_depth: Annotated[int, arg(help="Deepest equations, for `deep`.")] = 0,
    equations: Annotated[int, arg(help="About so many in all, for a smaller set of the same make.")] = 0,
) -> None:
    """Make certified equations. Stopped work goes on where it was when the same command is given again."""
    from dgl_treestack.generate.command import describe_presets, generate_preset

    if not preset:
        print(describe_presets())
        return
    sizes = {"train_size": train_size, "max_depth": max_depth, "equations": equations}
    generate_preset(preset, output_dir or Path("data") / preset, seed, sizes, jobs, progress=sys.stderr.isatty())


@app.command
def audit(
    files: Annotated[Positional[tuple[str, ...]], arg(help="Files of equations, ours or the authors', or bundled:...")],
    *,
    verdicts: Annotated[bool, arg(help="Judge every equation numerically.")] = True,
    duplicates: Annotated[bool, arg(help="Look for duplicates, neighbours, and overlap between files.")] = True,
    leakage: Annotated[bool, arg(help="Fit models that can do no mathematics, per group of depths.")] = True,
    together: Annotated[bool, arg(help="Take all files as one set instead of each by itself.")] = False,
    sample: Annotated[int, arg(help="Fit them to so many equations per group of depths at most; 0 for all.")] = 20_000,
    jobs: Annotated[int, arg(help="Processes that judge, threads that fit.")] = 1,
    figure: Annotated[Path | None, arg(help="Also draw the audit; written as .svg and as .png.")] = None,
    explain: Annotated[str, arg(help="Id of one equation: show its witness or derivation, and nothing else.")] = "",
    json: Json = False,
) -> int:
    """Judge labels, find duplicates, measure what shortcuts reach. Exit code 1 when a label is contradicted."""
    from dgl_treestack.audit import command
    from dgl_treestack.plots import check_output, plot_audit

    if explain:
        return command.explain_equation(files, explain, as_json=json)
    if figure:
        check_output(figure)
    options = command.choose(verdicts, duplicates, leakage, together, sample, jobs)
    report = command.audit_files(files, options, as_json=json, progress=sys.stderr.isatty())
    for path in plot_audit(report, figure) if figure else ():
        print(path, file=sys.stderr if json else sys.stdout)
    return int(command.is_contradicted(report))


@app.command
def inspect(
    file: Annotated[
        Positional[str], arg(help="A file of equations, bundled:quickstart/train and the like, or saved DGL graphs (.bin).")
    ],
    *,
    limit: Annotated[int, arg(help="Equations in the batch, from the start of the file; 0 for all.")] = 256,
    equation: Annotated[
        str, arg(help="Id of the equation to draw, in a .bin file the number of the tree; the first one otherwise.")
    ] = "",
    run: Annotated[tuple[Path, ...], arg(help="Run folders whose models are looked into, the first two compared.")] = (),
    output: Annotated[Path | None, arg(help="Draw one equation as a tree (.png, .svg), or write it (.graphml).")] = None,
    html: Annotated[Path | None, arg(help="With --run: write a page to walk through all equations of the batch.")] = None,
    vocabulary: Annotated[str, arg(help="canonical or released; without --run.")] = "canonical",
    json: Json = False,
) -> None:
    """Show what a batch of equations is made of, or with --run what models do inside them: actions, stacks, verdicts.

    Of saved DGL graphs, also the nodes of one tree with what they carry.
    """
    from dgl_treestack.errors import ConfigurationError
    from dgl_treestack.inspection.command import inspect_file, inspect_runs
    from dgl_treestack.inspection.graph_command import inspect_graphs

    if file.endswith(".bin"):
        if run or html:
            raise ConfigurationError("--run and --html look into equations, not into saved graphs. Give a file of equations.")
        inspect_graphs(file, limit=limit, chosen=equation, output=output, vocabulary=vocabulary, as_json=json)
        return
    if run:
        inspect_runs(file, run, limit=limit, chosen=equation, output=output, html=html, as_json=json)
        return
    if html:
        raise ConfigurationError("A page shows what models do. Name their run folders with --run.")
    inspect_file(file, limit=limit, chosen=equation, output=output, vocabulary=vocabulary, as_json=json)


@app.command
def train(
    configs: Annotated[Positional[tuple[str, ...]], arg(help="TOML files, or names such as configs/quickstart/tree_smu.toml.")],
    *,
    output_dir: Annotated[Path, arg(help="Run folders <name>-<seed> are made here.")] = Path("runs"),
    seed: int = 0,
    seeds: Annotated[tuple[int, ...], arg(help="Several seeds, one run each; takes the place of --seed.")] = (),
    set: Annotated[tuple[str, ...], arg(help="Replace values: schedule.epochs=3 model.settings.stack_size=2.")] = (),
    device: Device = "cpu",
    compile: Annotated[
        Compile | None, arg(help="Native code: auto is for long runs. Default: what the configuration says.")
    ] = None,
    jobs: Annotated[int, arg(help="Runs at a time, each a process with one thread.")] = 1,
    stacked: Annotated[bool, arg(help="Compute the seeds of a tree model as one graph, for small batches on a GPU.")] = False,
    data: Annotated[
        Path | None, arg(help="For configs/language_model: the folder of the text, ptb.train.txt and the like in it.")
    ] = None,
    resume: Annotated[bool, arg(help="Go on with runs that were stopped; leave finished ones alone.")] = False,
    quiet: Annotated[bool, arg(help="No progress bar and no log on the screen.")] = False,
) -> int:
    """Train models. Ctrl-C saves; --resume goes on to the same numbers as a run that was never stopped."""
    from dgl_treestack.training.command import train_all

    if data:
        from dgl_treestack.errors import ConfigurationError
        from dgl_treestack.language.command import train_language

        if device != "cpu" or compile or jobs > 1 or stacked:
            raise ConfigurationError(
                "Language models train on the CPU, one after another: no --device, --compile, --jobs or --stacked."
            )
        seeds = seeds or (seed,)
        return train_language(configs, data, output_dir, seeds, assignments=set, resume=resume, quiet=quiet)
    return train_all(
        configs,
        output_dir,
        seeds or (seed,),
        assignments=(*set, *([f"compile={compile}"] if compile else [])),
        device=device,
        jobs=jobs,
        stacked=stacked,
        resume=resume,
        quiet=quiet,
    )


@app.command
def sweep(
    file: Annotated[Positional[str], arg(help="A TOML file with base, seeds, set and grid; configs/sweep/ has the papers'.")],
    *,
    output_dir: Annotated[Path, arg(help="Run folders <name>-<hash>-<seed> are made here.")] = Path("runs"),
    jobs: Annotated[int, arg(help="Runs at a time, each a process with one thread.")] = 1,
    dry_run: Annotated[bool, arg(help="Only list the runs that are missing.")] = False,
    json: Json = False,
) -> int:
    """Train a grid of configurations and seeds. Given again, it skips what is done and goes on with what was stopped."""
    from dgl_treestack.experiments.sweep import run_sweep

    return run_sweep(file, output_dir, jobs=jobs, dry_run=dry_run, as_json=json)


@app.command
def reproduce(
    protocols: Annotated[
        Positional[tuple[str, ...]], arg(help="Names of protocols, or all; without any, they are listed.")
    ] = (),
    *,
    scale: Annotated[str, arg(help="smoke: minutes, to see it run; day: a day of two cores; paper: as the papers.")] = "smoke",
    output_dir: Annotated[Path | None, arg(help="Runs, tables and figures go here; reproduced/SCALE when not given.")] = None,
    seeds: Annotated[tuple[int, ...], arg(help="In place of the scale's own.")] = (),
    jobs: Annotated[int, arg(help="Runs at a time, each a process with one thread.")] = 1,
    train: Annotated[bool, arg(help="Without it: tables and figures from the runs that are done.")] = True,
    dry_run: Annotated[bool, arg(help="Only list the runs that are missing.")] = False,
) -> int:
    """Run the papers' experiments: tables with their numbers beside ours, figures. Runs that are done are not repeated."""
    from dgl_treestack.experiments.reproduce import describe, reproduce

    if not protocols:
        print(describe())
        return 0
    folder = output_dir or Path("reproduced") / scale
    return reproduce(protocols, scale, folder, seeds=seeds, jobs=jobs, train=train, dry_run=dry_run)


@app.command
def evaluate(
    run: Annotated[Positional[Path], arg(help="A run folder.")],
    data: Annotated[
        Positional[str], arg(help="A file of equations (.jsonl or the authors' .json, may be .gz), or bundled:...")
    ],
    *,
    output: Annotated[Path | None, arg(help="Also write the records to this file.")] = None,
    engine: Engine = "levels",
    precision: Literal["float32", "float64"] = "float32",
    json: Json = False,
) -> None:
    """Score a data file with a run: one record per equation, in file order, into the run folder (and --output)."""
    from dgl_treestack.training.command import evaluate_file

    evaluate_file(run, data, output=output, engine=engine, precision=precision, as_json=json)


AnyRun = Annotated[Path | None, arg(help="The run folder whose model is asked; the model of the package otherwise.")]


@app.command
def verify(
    equation: Annotated[Positional[str], arg(help='Such as "sin(x)**2 + cos(x)**2 = 1"; after -- if it begins with a minus.')],
    *,
    run: AnyRun = None,
    json: Json = False,
) -> None:
    """Ask a model whether an equation holds, and check it numerically beside."""
    from dgl_treestack.runs.pretrained import open_run
    from dgl_treestack.training.command import verify_equation

    verify_equation(equation, open_run(run), as_json=json)


@app.command
def complete(
    question: Annotated[
        Positional[str],
        arg(help='An equation with a blank, "sin(x)**2 + _ = 1", or a file of blanks, which is ranked: .jsonl, .json, .gz.'),
    ],
    *,
    run: AnyRun = None,
    candidates: Annotated[
        Path | None, arg(help="What may fill the blank. Default: for a file, the one that it names; else small expressions.")
    ] = None,
    top: Annotated[int, arg(help="How many fillers to show for an equation.")] = 10,
    output: Annotated[Path | None, arg(help="For a file of blanks: also write the records here.")] = None,
    precision: Literal["float32", "float64"] = "float32",
    json: Json = False,
) -> None:
    """Fill the blank of an equation with what a model finds likeliest, or see where it ranks the truth for a file of blanks."""
    from dgl_treestack.completion.command import complete as run_complete
    from dgl_treestack.runs.pretrained import open_run

    run_complete(question, open_run(run), candidates=candidates, top=top, precision=precision, output=output, as_json=json)


@app.command(name="import-authors")
def import_authors(
    checkpoint: Annotated[Positional[Path], arg(help="A released file <name>-model-<epoch>.checkpoint.")],
    *,
    output_dir: Annotated[Path, arg(help="The run folder to make.")],
    preset: Annotated[str, arg(help="Supplies what the file does not say: stack size and activations.")] = "scripts",
    stack_size: Annotated[int | None, arg(help="Use this stack size instead of the preset's 5.")] = None,
) -> None:
    """Turn the authors' released weights into an ordinary run folder."""
    from dgl_treestack.runs.import_authors import import_checkpoint

    run = import_checkpoint(checkpoint, output_dir, preset, stack_size)
    print(f"{run.folder}: {run.config.model.name}, hidden {run.config.model.hidden}, settings {run.config.model.settings}")


@app.command
def plot(
    figure: Annotated[Positional[str], arg(help="Which figure: depth, epochs, learning_curve, or equations.")],
    runs: Annotated[Positional[tuple[Path, ...]], arg(help="Run folders; for `equations`, folders of data.")],
    *,
    output: Annotated[Path, arg(help="Written as .svg and as .png.")],
) -> None:
    """Draw a figure from the records of runs."""
    from dgl_treestack.plots import plot as draw

    for path in draw(figure, runs, output):
        print(path)


@app.command
def report(
    runs: Annotated[Positional[tuple[Path, ...]], arg(help="Run folders.")],
    *,
    metric: Annotated[str, arg(help="accuracy, precision, recall, f1, pairs or calibration.")] = "accuracy",
    depths: Annotated[bool, arg(help="Also a column for every depth of the test set.")] = False,
    output: Annotated[Path | None, arg(help="Also written as .md and as .csv.")] = None,
    json: Json = False,
) -> None:
    """Print a table over runs: mean and sample standard deviation over seeds."""
    from dgl_treestack import atomic
    from dgl_treestack.results.report import csv, markdown, tabulate

    rows = tabulate(runs, metric, depths=depths)
    if output:
        atomic.write_text(output.with_suffix(".md"), markdown(rows) + "\n")
        atomic.write_text(output.with_suffix(".csv"), csv(rows))
    _print_json(rows) if json else print(markdown(rows))


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Exit codes: 0 done, 1 a check found something, 2 bad input, 130 and 143 stopped and saved."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(__version__)
        sys.exit(0)
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    description = "Recursive neural networks with differentiable stacks, on batched DGL graphs of mathematical equations."
    try:
        sys.exit(app.cli(prog="treestack", description=description, args=arguments))
    except TreestackError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
