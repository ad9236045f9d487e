"""What pyproject.toml cannot say: the examples go into the package, and a wheel with native parts names its platform.

`scripts/build-wheels` makes the native parts and says where they are; without it `pip install .` makes a plain wheel,
whose parts are built when they are first used.
"""

import os
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
PARTS = os.environ.get("METALCORE_WHEEL_PARTS")
"""A folder whose files are laid over the package: prebuilt/ and what else was built for the platform."""
PLATFORM = os.environ.get("METALCORE_WHEEL_PLATFORM")
"""The platform's tag: manylinux_2_17_x86_64. The parts are loaded by ctypes and know no version of Python."""


class BuildPy(build_py):
    """The package, the examples as metalcore/examples, and the parts of the platform."""

    def run(self):
        super().run()
        if self.editable_mode:  # a clone has them beside the package
            return
        for folder, target in ((ROOT / "examples", "examples"), *([(ROOT / PARTS, "")] if PARTS else [])):
            for file in sorted(folder.rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    to = Path(self.build_lib, "metalcore", target, file.relative_to(folder))
                    self.mkpath(str(to.parent))
                    self.copy_file(str(file), str(to))


class Parts(Distribution):
    """To setuptools the parts are what a compiled module is: they belong to a platform."""

    def has_ext_modules(self):
        return bool(PLATFORM)


class BdistWheel(bdist_wheel):
    """One wheel of a platform for every Python 3."""

    def get_tag(self):
        return ("py3", "none", PLATFORM) if PLATFORM else super().get_tag()


if bool(PARTS) != bool(PLATFORM):
    raise SystemExit("METALCORE_WHEEL_PARTS and METALCORE_WHEEL_PLATFORM go together: scripts/build-wheels sets both")

setup(distclass=Parts, cmdclass={"build_py": BuildPy, "bdist_wheel": BdistWheel})
