"""Take the pictures of the pages anew, from the demo: ``make pictures``. Needs Debian's ``chromium``."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from optfair.errors import need_extra

HERE = Path(__file__).parent
PICTURES = {"frontier.png": "demo_frontier.png", "rates.png": "demo_rates.png"}
SIZE = {"width": 1000, "height": 760}


def main() -> None:
    """Run the demo, copy its pictures, and photograph the first screen of its report."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "optfair", "demo", "-o", folder], check=True)
        for name, copy in PICTURES.items():
            shutil.copy(Path(folder) / name, HERE / copy)
        with need_extra("playwright.sync_api", "make pictures").sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE)
            page.goto((Path(folder) / "report.html").as_uri())
            page.screenshot(path=HERE / "report_page.png")
            browser.close()


if __name__ == "__main__":
    main()
