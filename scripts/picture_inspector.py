#!/usr/bin/env python3
"""Take the pictures of docs/how-to/inspector.md, of the pages that `serve --demo` shows.

    python scripts/picture_inspector.py

Needs Chromium, as the tests of the pages do.
"""

import io
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import sync_playwright

PICTURES = Path(__file__).parents[1] / "docs" / "how-to" / "pictures"
FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
FLAGS += "--disable-background-networking --disable-component-update --disable-sync"
SESSION = "session?id=money-migration"
BESIDE = 24  # pixels between two pictures


def main():
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        options = ["serve", "--demo", "--port", "0", "--state", folder]
        worker = subprocess.Popen([sys.executable, "-m", "context_assembler", *options])
        try:
            address = Path(folder) / "worker"
            while not address.is_file() or not address.read_text().endswith("\n"):
                time.sleep(0.1)
            url = f"http://{address.read_text().split()[0]}/"
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=FLAGS.split()
            )

            def opened(width, height, scheme, path):
                page = browser.new_page(
                    viewport={"width": width, "height": height}, color_scheme=scheme
                )
                page.goto(url + path)
                return page

            page = opened(1180, 1060, "light", f"{SESSION}&at=40")
            keep("window", [page.screenshot()])
            page.locator("#price-budget").fill("40000")
            page.get_by_role("button", name="Replay the session").click()
            page.locator("#costs table").wait_for()
            keep("costs", [page.locator("section", has=page.locator("#costs")).screenshot()])

            page = opened(1180, 900, "dark", SESSION)
            page.locator("#if-budget").fill("24000")
            page.get_by_role("button", name="Try").click()
            page.locator("#tried section").wait_for()
            keep("what-if", [page.locator("section", has=page.locator("#if")).screenshot()])

            narrow = [opened(390, 844, scheme, SESSION) for scheme in ("light", "dark")]
            narrow[1].locator("#other").fill("44")
            narrow[1].get_by_role("button", name="Compare").click()
            narrow[1].get_by_text("Added:").wait_for()
            narrow[1].evaluate("document.getElementById('compare-title').scrollIntoView()")
            keep("phone", [page.screenshot() for page in narrow])
            browser.close()
        finally:
            worker.terminate()
            worker.wait()


def keep(name, shots):
    """Write pictures side by side as one small file."""
    images = [Image.open(io.BytesIO(shot)).convert("RGB") for shot in shots]
    width = sum(image.width for image in images) + BESIDE * (len(images) - 1)
    whole = Image.new("RGB", (width, max(image.height for image in images)), "white")
    left = 0
    for image in images:
        whole.paste(image, (left, 0))
        left += image.width + BESIDE
    whole.save(PICTURES / f"inspector-{name}.webp", quality=82, method=6)


if __name__ == "__main__":
    main()
