"""Types of command-line options."""

import argparse
import os
import pathlib
import shutil
import subprocess


def existing(text):
    """A path, made absolute. A missing one is refused early: a loader only passes over it, and a run then tests nothing of it."""
    if not pathlib.Path(text).exists():
        raise argparse.ArgumentTypeError(f"'{text}' does not exist")
    return pathlib.Path(os.path.abspath(text))


def plugin_directory(text):
    path = existing(text)
    if not any(path.glob("libec_*.so")):
        raise argparse.ArgumentTypeError(f"'{text}' is not a directory that holds a libec_NAME.so")
    return path


def variable(text):
    """(NAME, VALUE)"""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name, value


def add_cluster_options(parser, is_plugin_needed=False):
    """What every program takes that makes a cluster."""
    parser.add_argument("--plugin-dir", type=plugin_directory, required=is_plugin_needed, help="erasure-code plugins to add to Ceph's own")
    parser.add_argument("--osd-env", type=variable, action="append", default=[], metavar="NAME=VALUE",
                        help="an environment variable of every OSD, as LD_PRELOAD=/a/library.so; may be repeated")


def parser(description, **more):
    """One that shows the program's own text as it is."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter, **more)


ROOT = pathlib.Path(__file__).resolve().parents[2]


def commit():
    done = subprocess.run(["git", "-C", ROOT, "-c", f"safe.directory={ROOT}", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
                          text=True, capture_output=True) if shutil.which("git") else None
    return done.stdout.strip() if done and done.returncode == 0 else "unknown"
