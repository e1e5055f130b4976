"""`optfair.nn` without torch: one line says which extra to install."""

import subprocess
import sys


def test_without_torch():
    code = """
import sys
sys.modules["torch"] = None
try:
    import optfair.nn
except ImportError as error:
    print(error)
"""
    process = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == 'optfair.nn needs torch: pip install "optfair[torch]"' and process.stderr == ""
