"""What the tests of ec_bench share."""
import os
import subprocess
import sys


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def run(*command, **environment):
    """Exit status, standard output, and that with standard error behind it."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stdout + done.stderr
