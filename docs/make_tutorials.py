"""Execute the tutorials, in place: python docs/make_tutorials.py [NAME ...] [--out FOLDER]"""

import argparse
import base64
import io
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from PIL import Image
from traitlets.config import Config

TUTORIALS = Path(__file__).resolve().parent / "tutorials"
SECONDS = 300
"""How long a cell may take, on a machine that is busy with other things."""

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def environment() -> dict[str, str]:
    """What a kernel sees: the commands of this environment first, one thread, no colours."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    quiet = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}
    quiet["PYTHONWARNINGS"] = "ignore:IProgress not found"  # tqdm, where there are no ipywidgets
    threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    return threads | os.environ | quiet | {"PATH": path}


def executed(path: Path) -> Any:
    """The notebook with new outputs; it works in a temporary folder, beside a copy of data/."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(TUTORIALS / "data", Path(folder) / "data")
        sockets = {"transport": "ipc", "ip": f"{folder}/kernel"}  # files, for ports may be taken
        client = NotebookClient(
            notebook,
            timeout=SECONDS,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
            config=Config(KernelManager=sockets),
            resources={"metadata": {"path": folder}},
        )
        client.execute(env=environment())
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata.clear()
        for output in cell.get("outputs", ()):
            if "text" in output:
                output.text = plain(output.text)
            if picture := output.get("data", {}).get("image/png"):
                output.data["image/png"] = small(picture)
    return notebook


def plain(text: str) -> str:
    """What a command has printed, without marks for a terminal, progress and trailing spaces."""
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).split("\n")
    shown = [line.rstrip().rpartition("\r")[2] for line in lines]
    return "\n".join(line.rstrip() for line in shown if "━━" not in line)


def small(picture: str) -> str:
    """A PNG in base64, on white, with 256 colours: a fraction of the bytes."""
    found = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGBA")
    flat = Image.alpha_composite(Image.new("RGBA", found.size, "white"), found).convert("RGB")
    kept = io.BytesIO()
    flat.quantize(256).save(kept, "PNG", optimize=True)
    return base64.b64encode(kept.getvalue()).decode()


def leaks(notebook: Any) -> list[str]:
    """Outputs in which a folder of this machine is named."""
    folders = {Path.home(), Path(tempfile.gettempdir()), TUTORIALS.parents[1]}
    names = {str(each) for folder in folders for each in (folder, folder.resolve())} - {"/"}
    shown = [str(output) for cell in notebook.cells for output in cell.get("outputs", ())]
    return [text for text in shown if any(name in text for name in names)]


def main(arguments: list[str] | None = None) -> None:
    """Execute the named notebooks, or all; nothing is written of one that fails or leaks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="such as 01-first-graph; by default all")
    parser.add_argument("--out", type=Path, default=TUTORIALS, help="the folder to write")
    chosen = parser.parse_args(arguments)
    names = chosen.names or sorted(path.stem for path in TUTORIALS.glob("*.ipynb"))
    for name in names:
        notebook = executed(TUTORIALS / f"{Path(name).stem}.ipynb")
        if found := leaks(notebook):
            sys.exit(f"{name}: an output names a folder of this machine: {found[0][:300]}")
        nbformat.write(notebook, chosen.out / f"{Path(name).stem}.ipynb")
        print(f"{name}: executed")


if __name__ == "__main__":
    main()
