"""Attack run folders, searches, disks, names and settings, and count what does not hold.

    python -m benchmarks.faults [--minutes 30] [--seed 0] [--workers 1] [--out FILE] [--keep FOLDER]

One process kills commands at random moments (train, resume, search, export, compare), lets them go
on, and compares their figures with those of an unbroken run. Beside it each worker gives commands
damaged and crafted files, a full disk, hostile names and settings drawn at random, in a process
that has everything loaded. Every command must end with exit code 0, or with one sentence and exit
code 2. A traceback is any other end; a silent difference is exit code 0 with other figures than the
whole run has. What failed is kept in the folder KEEP, with the seed that gives it again.
"""

import argparse
import copy
import io
import json
import math
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from reltucker.atomic import write_json

RESULTS = Path(__file__).parent / "results" / "faults.json"
COMMAND = [sys.executable, "-m", "reltucker"]
PATIENCE = 600.0
"""Seconds after which a command counts as hanging."""
FIGURES = ("standard", "seen", "paper")

QUICK = [
    "--entity-dim=8",
    "--set=train.batch_size=64",
    "--set=train.checkpoint_seconds=0",
    "--set=train.patience=1000",
]
HOSTILE = [
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "=1+1",
    "@SUM(A1:A9)",
    "\\input{/etc/passwd} & % $ # _ { } ~ ^",
    "[bold red]markup[/bold red]",
    "../../etc/passwd",
    "name,with;commas|and\"quotes'",
    "\u202eright to left",
    "a" * 3000,
    "%s %d {0} {name}",
    "--help",
    "e\u0301 \U0001f600 \u0000x".replace("\u0000", ""),
    "null",
    "?",
]
Outcome = tuple[int | None, str, str]
"""Exit code, or None where a command broke; standard output; standard error."""


# -- commands in this process -----------------------------------------------------------------


class Hung(BaseException):
    """A command took too long."""


def run_command(*arguments: object) -> Outcome:
    """A command as `main` ends it, with what Rust prints to the standard error itself."""
    from reltucker.cli import main

    out, err = io.StringIO(), io.StringIO()
    before, argv = os.dup(2), sys.argv
    code: int | None = 0
    with tempfile.TemporaryFile() as raw:
        os.dup2(raw.fileno(), 2)
        sys.argv = ["reltucker", *map(str, arguments)]
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        try:
            with redirect_stdout(out), redirect_stderr(err):
                main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except BaseException:  # whatever it is, it was not told in a sentence
            code = None
            err.write(traceback.format_exc())
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            sys.argv = argv
            os.dup2(before, 2)
            os.close(before)
        raw.seek(0)
        err.write(raw.read().decode(errors="replace"))
    return code, out.getvalue(), err.getvalue()


def is_orderly(outcome: Outcome) -> bool:
    """Whether a command was done, or refused in one sentence."""
    code, _, err = outcome
    if "Traceback" in err or "panicked" in err:
        return False
    sentences = [line for line in err.splitlines() if line.startswith("error: ")]
    return code == 0 or (code == 2 and len(sentences) == 1)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process may grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# -- inputs drawn at random -------------------------------------------------------------------


def random_json(draw: random.Random, depth: int = 0) -> Any:
    """Any value that JSON can hold, and some that it cannot."""
    plain = [None, True, 0, -1, 3, 2**63, 10**400, 0.5, -1e300, math.inf, math.nan, "", "x", "E"]
    if depth > 3 or draw.random() < 0.6:
        return draw.choice(plain)
    if draw.random() < 0.5:
        return [random_json(draw, depth + 1) for _ in range(draw.randrange(4))]
    return {
        draw.choice(["epoch", "seen", "mrr", "tensor", "x"]): random_json(draw, depth + 1)
        for _ in range(draw.randrange(4))
    }


def changed_json(draw: random.Random, document: Any) -> Any:
    """A document with another value somewhere in it."""
    document = copy.deepcopy(document)
    inner = document
    while isinstance(inner, dict | list) and inner:
        key: Any = (
            draw.choice(list(inner)) if isinstance(inner, dict) else draw.randrange(len(inner))
        )
        if not isinstance(inner[key], dict | list) or not inner[key] or draw.random() < 0.3:
            if isinstance(inner, dict) and draw.random() < 0.2:
                del inner[key]
            else:
                inner[key] = random_json(draw)
            return document
        inner = inner[key]
    return random_json(draw)


def crafted_text(draw: random.Random, content: bytes) -> bytes:
    """JSON that is not ours, in place of ours."""
    kind = draw.randrange(8)
    if kind == 0:
        return b"[" * 100_000 + b"]" * 100_000
    if kind == 1:
        return b"9" * draw.choice([100, 4000, 5000])
    if kind == 2:
        return json.dumps(random_json(draw)).encode()
    lines = content.decode().splitlines()
    if len(lines) > 1 and lines[1].startswith("{"):  # a document on each line
        place = draw.randrange(len(lines))
        lines[place] = json.dumps(changed_json(draw, _unsigned(json.loads(lines[place]))))
        return ("\n".join(lines) + "\n").encode()
    return json.dumps(changed_json(draw, _unsigned(json.loads(content)))).encode()


def crafted_tensors(draw: random.Random, path: Path) -> None:
    """Tensors of other types, shapes and values, or another state, without a checksum."""
    import torch
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    with safe_open(path, framework="pt") as file:
        about = {k: v for k, v in file.metadata().items() if k != "tensors" and "checksum" not in k}
    tensors = {name: value.clone() for name, value in load_file(path).items()}
    name = draw.choice(sorted(tensors))
    old = tensors[name]
    ways: list[Callable[[], Any]] = [
        lambda: old[:0].clone() if old.dim() else old,
        lambda: old.to(torch.int32),
        lambda: old.double(),
        lambda: old.to(torch.bool),
        lambda: -old.to(torch.int64) - 1,
        lambda: old + 10**6,
        lambda: old.reshape(1, -1),
        lambda: torch.full_like(old.float(), draw.choice([math.inf, math.nan, 1e38])),
        lambda: torch.zeros(draw.choice([(0,), (1,), (3, 0), (2, 2, 2)])),
    ]
    kind = draw.randrange(len(ways) + 3)
    if kind < len(ways):
        tensors[name] = ways[kind]().contiguous()
    elif kind == len(ways):
        del tensors[name]
    else:
        key = draw.choice(sorted(about))
        if key == "state":
            about[key] = json.dumps(changed_json(draw, json.loads(about[key])))
        else:
            about[key] = draw.choice(["", "-1", "9" * 5000, "x", "[]"])
    save_file(tensors, path, about)


def damaged(draw: random.Random, content: bytes) -> bytes:
    """The content with a flipped bit, cut, or with zeros or noise in it."""
    kind, place = draw.randrange(6), draw.randrange(max(1, len(content)))
    if kind == 0:
        return content[:place]
    if kind == 1:
        length = draw.randrange(1, 512)
        return content[:place] + bytes(length) + content[place + length :]
    if kind == 2:
        return content[:place] + draw.randbytes(8) + content[place + 8 :]
    changed = bytearray(content)
    changed[place] ^= 1 << draw.randrange(8)
    return bytes(changed)


def random_settings(draw: random.Random) -> list[str]:
    """Settings of a recipe, each with a value that it can or cannot take."""
    from reltucker.model import CORES
    from reltucker.training import Recipe

    tables = Recipe().model_dump()
    keys = [f"{part}.{key}" for part, table in tables.items() if part != "core" for key in table]
    keys += [f"core.{key}" for core in CORES.values() for key in core.Options.model_fields]
    values = ["0", "1", "2", "-1", "0.5", "1e300", "inf", "nan", "true", "[]", '"x"', "{}", ""]
    values += ["9" * 30, "adam", "n3", "dura", "k_vs_all", "one_vs_all", "plateau", "bfloat16"]
    settings = [f"model.name={draw.choice(sorted(CORES))}", "model.entity_dim=8"]
    for _ in range(draw.randrange(1, 4)):
        key = draw.choice(keys)
        if key not in ("graph.source", "train.epochs"):  # which would be trained to the end
            settings.append(f"{key}={draw.choice(values)}")
    return [f"--set={setting}" for setting in settings]


def timeless(document: Any) -> Any:
    """The document without its times, and the sizes of files."""
    if isinstance(document, dict):
        kept = {k: v for k, v in document.items() if "second" not in k and k != "bytes"}
        return {key: timeless(value) for key, value in kept.items()}
    return [timeless(value) for value in document] if isinstance(document, list) else document


def _unsigned(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: value for key, value in document.items() if key != "checksum"}
    return document


# -- a worker -----------------------------------------------------------------------------------


class Fuzzer:
    """Gives commands inputs drawn at random, and counts how they end."""

    def __init__(self, folder: Path, keep: Path, seed: int) -> None:
        self.folder, self.keep, self.seed = folder, keep, seed
        self.counts: Counter[str] = Counter()
        self.draw = random.Random(seed)
        self.graph = write_graph(folder / "graph", [f"e{i}" for i in range(30)])
        self.run = self._trained("run", self.graph)
        self.unfinished = folder / "unfinished"
        shutil.copytree(self.run, self.unfinished)
        (self.unfinished / "result.json").unlink()
        self.hostile_graph = write_graph(folder / "hostile graph", HOSTILE * 2)
        self.hostile = self._trained("hostile", self.hostile_graph)
        self.whole = {run: self._files(run) for run in (self.run, self.unfinished)}
        self.figures = {command: self._figures(self.run, command) for command in READERS}
        code, text, err = run_command("resume", self._fresh("resumed"), "--json")
        assert code == 0, err
        self.resumed = {key: json.loads(text)[key] for key in FIGURES}

    def work(self, seconds: float) -> None:
        """Attack for so long."""
        attacks = [self.damage, self.craft, self.fill, self.name, self.set]
        weights = [45, 35, 3, 5, 12]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            (attack,) = self.draw.choices(attacks, weights)
            number = self.counts["fuzzed inputs"]
            self.counts["fuzzed inputs"] += 1
            self.counts[attack.__name__] += 1
            try:
                attack()
            except Exception:
                self._failed("tracebacks", attack.__name__, number, traceback.format_exc())

    # -- attacks --

    def damage(self) -> None:
        """A file of a run is not what was written."""
        self._with_changed_file(
            lambda path: path.write_bytes(damaged(self.draw, path.read_bytes()))
        )

    def craft(self) -> None:
        """A file of a run is of the right kind, and made by somebody else."""

        def change(path: Path) -> None:
            if path.suffix == ".safetensors":
                crafted_tensors(self.draw, path)
            elif path.suffix in (".json", ".jsonl"):
                path.write_bytes(crafted_text(self.draw, path.read_bytes()))
            else:
                path.write_bytes(damaged(self.draw, path.read_bytes()))

        self._with_changed_file(change, is_damage=False)

    def fill(self) -> None:
        """The disk is full."""
        run = self._fresh("full")
        size = self.draw.choice([0, 100, 1000, 3000, 6000, 10_000])
        command = self.draw.choice(["resume", "export", "calibrate", "train"])
        arguments: list[object] = [command, run]
        if command == "train":
            out = self.folder / "trained"
            shutil.rmtree(out, ignore_errors=True)
            arguments = [command, self.graph, *QUICK, "--model=complex", "--epochs=1"]
            arguments.append(f"--out={out}")
        with room_for(size):
            outcome = run_command(*arguments)
        self._judge("fill", outcome, f"{arguments} {size}")
        self._judge("fill", run_command("verify", run), f"{arguments} {size}", codes=(0,))

    def name(self) -> None:
        """Names in a graph that would do something elsewhere."""
        one, two = self.draw.choice(HOSTILE), self.draw.choice(HOSTILE)
        answers = self.folder / f"answers{self.draw.choice(['.csv', '.tsv', '.parquet'])}"
        command: list[object] = self.draw.choice(
            [
                ["predict", self.hostile, "--", one, "r0", "?"],
                ["predict", self.hostile, "--json", "--", one, two, "?"],
                ["predict", self.hostile, f"--out={answers}", "--", one, "r0", "?"],
                ["similar", self.hostile, "--", one],
                ["why", self.hostile, "--", one, "r1", two],
                ["evaluate", self.hostile, "--by=relation"],
                ["data", "describe", self.hostile_graph],
                ["discover", self.hostile, "--top=3"],
            ]
        )
        outcome = run_command(*command)
        self._judge("name", outcome, str(command))
        if "\x1b[31m" in outcome[1] and "--json" not in command:
            self._failed("unescaped", "name", self.counts["name"], str(command))

    def set(self) -> None:
        """Settings at random; one in eight is trained."""
        is_trained = self.draw.random() < 0.125
        out = self.folder / "set"
        shutil.rmtree(out, ignore_errors=True)
        settings = random_settings(self.draw)
        end = [f"--out={out}", "--epochs=1"] if is_trained else ["--show-recipe"]
        self._judge("set", run_command("train", self.graph, *settings, *end), str(settings))

    # -- how they ended --

    def _with_changed_file(self, change: Callable[[Path], Any], is_damage: bool = True) -> None:
        resumes = self.draw.random() < 0.15
        run = self.unfinished if resumes else self.run
        path = self.draw.choice(sorted(self.whole[run]))
        command = "resume" if resumes else self.draw.choice(sorted(READERS))
        try:
            change(path)
            what = f"{command} with another {path.name}"
            if resumes:
                run = self._fresh("fresh")
            outcome = (
                run_command("resume", run, "--json") if resumes else self._answer(run, command)
            )
            self._judge("damage", outcome, what)
            if is_damage and outcome[0] == 0:
                found = timeless(json.loads(outcome[1]))
                expected: Any = self.figures.get(command)
                if resumes:
                    found, expected = {key: found[key] for key in FIGURES}, self.resumed
                if found != expected:
                    self._failed("silent differences", what, self.counts["damage"], "", path)
        finally:
            for path, content in self.whole[self.unfinished if resumes else self.run].items():
                if not path.exists() or path.read_bytes() != content:
                    path.write_bytes(content)

    def _answer(self, run: Path, command: str) -> Outcome:
        first, *rest = READERS[command]
        return run_command(first, run, *rest)

    def _figures(self, run: Path, command: str) -> Any:
        code, text, err = self._answer(run, command)
        assert code == 0, err
        return timeless(json.loads(text))

    def _judge(
        self, attack: str, outcome: Outcome, what: str, codes: Sequence[int] = (0, 2)
    ) -> None:
        self.counts["refused" if outcome[0] == 2 else "done"] += 1
        if not is_orderly(outcome) or outcome[0] not in codes:
            self._failed(
                "tracebacks", attack, self.counts["fuzzed inputs"], f"{what}\n{outcome[2]}"
            )

    def _failed(
        self, kind: str, what: str, number: int, text: str, path: Path | None = None
    ) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= 50:
            kept = self.keep / f"{kind.replace(' ', '-')}-{self.seed}-{number}"
            kept.mkdir(parents=True, exist_ok=True)
            (kept / "what.txt").write_text(f"{what}\n{text}", errors="replace")
            if path is not None and path.is_file():
                shutil.copy(path, kept)

    def _trained(self, name: str, graph: Path) -> Path:
        out = self.folder / name
        options = [*QUICK, "--model=complex", "--epochs=2", f"--out={out}"]
        code, _, err = run_command("train", graph, *options)
        assert code == 0, err
        return out

    def _fresh(self, name: str) -> Path:
        """A copy of the run that has not ended."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return Path(shutil.copytree(self.unfinished, self.folder / name))

    def _files(self, run: Path) -> dict[Path, bytes]:
        files = (path for path in run.iterdir() if path.is_file() and path.name[0] != ".")
        return {path: path.read_bytes() for path in files}


READERS: dict[str, list[str]] = {
    "evaluate": ["evaluate", "--json"],
    "describe-model": ["describe-model", "--json"],
    "predict": ["predict", "e1", "r0", "?", "--json"],
    "verify": ["verify", "--json"],
}


def write_graph(folder: Path, names: Sequence[str]) -> Path:
    """A graph of these names, as a folder of TSV files."""
    draw = random.Random(0)
    names = [name.replace("\t", " ") for name in dict.fromkeys(names)]
    relations = ["r0", "r1", names[1], names[5 % len(names)]]
    rows = {(draw.choice(names), draw.choice(relations), draw.choice(names)) for _ in range(400)}
    rows |= {(name, "r0", names[0]) for name in names}
    rows |= {(names[0], relation, names[0]) for relation in relations}
    ordered = sorted(rows)
    draw.shuffle(ordered)
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"train": ordered[60:], "valid": ordered[:30], "test": ordered[30:60]}
    for split, triples in parts.items():
        lines = "".join("\t".join(triple) + "\n" for triple in triples)
        (folder / f"{split}.tsv").write_text(lines, encoding="utf-8")
    return folder


def _fuzz(seed: int, seconds: float, keep: Path, told: Any) -> None:
    import typer

    import reltucker.cli

    def hang(number: int, frame: Any) -> None:
        raise Hung

    signal.signal(signal.SIGALRM, hang)
    # typer would make all commands anew for each one that is run.
    reltucker.cli.app = typer.main.get_command(reltucker.cli.app)  # type: ignore[assignment]
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        fuzzer = Fuzzer(Path(folder), keep, seed)
        end = time.monotonic() + seconds
        parent = os.getppid()
        while (left := end - time.monotonic()) > 0 and os.getppid() == parent:
            fuzzer.work(min(10.0, left))
            told.put((seed, dict(fuzzer.counts)))
    told.put((seed, dict(fuzzer.counts)))


# -- kills -----------------------------------------------------------------------------------------


class Killer:
    """Kills commands at random moments, lets them go on, and compares what comes out."""

    def __init__(self, folder: Path, keep: Path, seed: int) -> None:
        self.folder, self.keep = folder, keep
        self.draw = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.graph = write_graph(folder / "graph", [f"e{i}" for i in range(30)])
        self.expected: dict[str, tuple[Any, float]] = {}

    def work(self, seconds: float) -> None:
        """Kill for so long; whatever was begun is ended."""
        scenarios = [self.training, self.training, self.exporting, self.comparing, self.searching]
        end, turn = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            scenarios[turn % len(scenarios)](end)
            turn += 1

    def training(self, end: float) -> None:
        """train, then resume, until it has ended."""
        model = self.draw.choice(["complex", "srt", "drt"])
        epochs = 200 if model == "complex" else 60
        options = [*QUICK, f"--model={model}", f"--epochs={epochs}"]
        if model == "srt":
            options.append("--set=core.warm_up_epochs=2")

        def first(out: Path) -> list[object]:
            return ["train", self.graph, *options, f"--out={out}"]

        def then(out: Path) -> list[object]:
            return ["resume", out] if (out / "recipe.toml").exists() else first(out)

        def figures(out: Path) -> Any:
            from reltucker import open_run

            run = open_run(out)
            assert run.result is not None
            epochs = [(r["epoch"], r["loss"], r.get("valid")) for r in run.epochs()]
            return epochs, {key: run.result[key] for key in FIGURES}

        self._scenario(f"train {model}", first, then, figures, kills=4, end=end)

    def searching(self, end: float) -> None:
        """search, by the same command. A trial that is killed before its settings were drawn
        counts as none, and the one in its place has another number and so other settings."""

        def command(out: Path) -> list[object]:
            options = ["--space=simple", "--model=distmult", "--trials=2", "--epochs=3"]
            return ["search", self.graph, *options, "--sampler=random", f"--out={out}"]

        def figures(out: Path) -> Any:
            result = json.loads((out / "result.json").read_text())
            return result["trials"], sorted(result)

        self._scenario("search", command, command, figures, kills=2, end=end)

    def exporting(self, end: float) -> None:
        """export, by the same command."""
        run = self._run()

        def command(out: Path) -> list[object]:
            return ["export", run, f"--out={out}"]

        self._scenario("export", command, command, self._contents, kills=2, end=end)

    def comparing(self, end: float) -> None:
        """compare, by the same command."""
        run = self._run()

        def command(out: Path) -> list[object]:
            return ["compare", run, f"--out={out}"]

        def figures(out: Path) -> Any:
            return sorted(path.name for path in out.rglob("*") if path.name[0] != ".")

        self._scenario("compare", command, command, figures, kills=2, end=end)

    def _scenario(
        self,
        name: str,
        first: Callable[[Path], list[object]],
        then: Callable[[Path], list[object]],
        figures: Callable[[Path], Any],
        *,
        kills: int,
        end: float,
    ) -> None:
        """Run a command to its end once; then kill it some times, let it end, and compare."""
        if name not in self.expected:
            began, out = time.monotonic(), self.folder / name.replace(" ", "-")
            if self._start(first(out)).wait() != 0:
                self._failed(name, "the unbroken command did not end well", out)
                return
            self.expected[name] = figures(out), time.monotonic() - began
        expected, seconds = self.expected[name]
        out = self.folder / "broken"
        shutil.rmtree(out, ignore_errors=True)
        command = first(out)
        for _ in range(kills):
            began, process = time.monotonic(), self._start(command)
            while self.draw.random() < 0.99 and process.poll() is None and not out.exists():
                time.sleep(0.05)  # most moments before that are spent with imports
            try:
                process.wait(timeout=self.draw.uniform(0.0, 0.5) * seconds)
            except subprocess.TimeoutExpired:
                self.counts["kills"] += 1
                self.counts[f"kills of {name}"] += 1
            else:  # it was faster than the first time
                self.expected[name] = expected, min(seconds, time.monotonic() - began)
                break
            process.kill()
            process.wait()
            command = then(out)
        process = self._start(command)
        _, err = process.communicate()
        if process.returncode != 0:
            self._failed(name, err, out)
            return
        self.counts["resumed"] += 1
        if figures(out) != expected:
            self.counts["silent differences"] += 1
            self._keep(f"silent-{name}", f"{figures(out)}\n\n{expected}", out)
        left = [path for path in out.rglob(".*.tmp") if "trials" not in path.parts]
        if left:
            self.counts["left behind"] += 1
            self._keep(f"left-{name}", str(left), out)

    def _run(self) -> Path:
        out = self.folder / "run"
        if not out.exists():
            command = ["train", self.graph, *QUICK, "--model=complex", "--epochs=3", f"--out={out}"]
            assert self._start(command).wait() == 0
        return out

    def _contents(self, out: Path) -> Any:
        return {path.name: path.read_bytes() for path in out.iterdir() if path.name[0] != "."}

    def _start(self, arguments: Sequence[object]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
        )

    def _failed(self, name: str, text: str, out: Path) -> None:
        self.counts["tracebacks"] += 1
        self._keep(f"broken-{name}", text, out)

    def _keep(self, name: str, text: str, out: Path) -> None:
        kept = self.keep / f"{name.replace(' ', '-')}-{self.counts['kills']}"
        kept.mkdir(parents=True, exist_ok=True)
        (kept / "what.txt").write_text(text, errors="replace")
        if out.exists():
            shutil.copytree(out, kept / "folder", dirs_exist_ok=True)


# -- all together ----------------------------------------------------------------------------------


def attack(minutes: float, seed: int, workers: int, keep: Path) -> dict[str, Any]:
    """Attack with so many workers and one killer; returns the counts."""
    spawn = multiprocessing.get_context("spawn")
    told: Any = spawn.Queue()
    seconds = 60.0 * minutes
    started = [
        spawn.Process(target=_fuzz, args=(seed + number, seconds, keep, told))
        for number in range(workers)
    ]
    for process in started:
        process.start()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        killer = Killer(Path(folder), keep, seed)
        killer.work(seconds)
    counts: dict[int, dict[str, int]] = {}
    while any(process.is_alive() for process in started) or not told.empty():
        try:
            number, found = told.get(timeout=1.0)
        except Exception:  # nothing for a second
            continue
        counts[number] = found
    total = Counter({"kills": 0, "fuzzed inputs": 0, "tracebacks": 0, "silent differences": 0})
    total.update(killer.counts)
    for found in counts.values():
        total.update(found)
    total["dead workers"] = sum(process.exitcode != 0 for process in started)
    return {"minutes": minutes, "seed": seed, "workers": workers, "counts": dict(total)}


def main() -> None:
    """Attack, print the counts, and write them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="processes that give fuzzed inputs")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to write the counts")
    parser.add_argument("--keep", type=Path, default=Path("faults"), help="what failed")
    options = parser.parse_args()
    result = attack(options.minutes, options.seed, options.workers, options.keep)
    for name, count in result["counts"].items():
        print(f"{count:9,d}  {name}")
    write_json(options.out, result)
    failures = sum(result["counts"].get(name, 0) for name in ("tracebacks", "silent differences"))
    if failures:
        print(f"what failed is in {options.keep}", file=sys.stderr)
    sys.exit(1 if failures or result["counts"]["dead workers"] else 0)


if __name__ == "__main__":
    main()
