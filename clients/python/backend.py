"""Builds the wheel: maturin builds the native module, and before that this builds the program `quorlock` for it.

Called by pip, as pyproject.toml says. QUORLOCK_WHEEL_PROFILE=dev builds both faster, without optimisation.
QUORLOCK_WHEEL_PROGRAM names a program that is built already, such as one of scripts/release.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import maturin
from maturin import get_requires_for_build_editable, get_requires_for_build_wheel  # noqa: F401

HERE = Path(__file__).resolve().parent
PROFILE = os.environ.get("QUORLOCK_WHEEL_PROFILE", "release")
os.environ.setdefault("MATURIN_PEP517_ARGS", f"--profile {PROFILE}")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    build_program()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    build_program()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    (HERE / "wheel/scripts").mkdir(parents=True, exist_ok=True)
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("quorlock has no source distribution: its program needs the whole repository")


def build_program():
    """Puts the program where maturin takes the scripts of the wheel from."""
    built = os.environ.get("QUORLOCK_WHEEL_PROGRAM") or compile_program()
    scripts = HERE / "wheel/scripts"
    shutil.rmtree(scripts, ignore_errors=True)
    scripts.mkdir(parents=True)
    program = scripts / "quorlock"
    shutil.copy(built, program)
    subprocess.run(["strip", str(program)], check=False)
    program.chmod(0o755)


def compile_program():
    manifest = HERE.parent.parent / "Cargo.toml"
    command = ["cargo", "build", "--manifest-path", str(manifest), "--package", "quorlock-cli", "--profile", PROFILE]
    command += ["--message-format", "json-render-diagnostics"]
    built = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    artifacts = [json.loads(line) for line in built.splitlines()]
    return [artifact["executable"] for artifact in artifacts if artifact.get("executable")][-1]
