"""Make the pictures of the page: reltucker demo, then python docs/make_screenshots.py [RUN...]"""

import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import sync_playwright

from reltucker import open_run
from reltucker.study.demonstration import questions_to_try

PICTURES = Path(__file__).parent / "pictures"
RUNS = ("demo/srt", "demo/complex", "demo/drt")
SIZE = {"width": 1000, "height": 760}


def views(run: str) -> dict[str, str]:
    """The addresses of what is shown, about facts that were held out."""
    asked = questions_to_try(open_run(run))[0]
    question = {"s": asked["subject"], "r": asked["relation"]}
    best = open_run(run).predict(**asked, top=1)["answer"][0]
    return {
        "ask": f"ask?{urlencode(question)}",
        "why": f"why?{urlencode({**question, 'o': best})}",
        "see": f"see?{urlencode({'part': 'around', 'name': question['s']})}",
        "discover": "discover?top=20",
    }


def main(runs: list[str]) -> None:
    """Serve the runs and take a picture of each view, in light colours."""
    command = [sys.executable, "-m", "reltucker", "serve", *runs, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split()[-1]
        try:
            with sync_playwright() as driver:
                chromium = shutil.which("chromium")
                browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                page = browser.new_page(viewport=SIZE, color_scheme="light")
                for name, view in views(runs[0]).items():
                    page.goto("about:blank")
                    page.goto(f"{address}#/{view}")
                    page.wait_for_selector("#results")
                    path = PICTURES / f"page-{name}.png"
                    clip = {"x": 0, "y": 0, "width": SIZE["width"], "height": 1000}
                    page.screenshot(path=path, full_page=True, clip=clip)
                    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)
        finally:
            server.terminate()


if __name__ == "__main__":
    main(sys.argv[1:] or list(RUNS))
