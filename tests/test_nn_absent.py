"""`optfair.nn` where torch is not: one line that says which extra to install."""

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
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'optfair.nn needs torch: pip install "optfair[torch]"' and done.stderr == ""
