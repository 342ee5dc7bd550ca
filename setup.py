"""Puts what comes with wmlab into its wheel: `data/`, logs and scenarios, as `wmlab/data`, and the notebooks.

Which of their files stands in pyproject.toml, as all else does. An editable installation finds them in the clone. It is
told of one folder alone, the clone. Then setuptools writes a plain path, by which `import wmlab` works next to the
clone too; with more folders it writes a hook, which comes after Python has taken the clone itself for a package.
"""

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

WITH_WMLAB = {"wmlab.data": "data", "wmlab.notebooks": "notebooks"}


class BuildWithData(build_py):
    """Builds the packages, and for a wheel what comes with them."""

    def finalize_options(self) -> None:
        """Adds the folders, unless the installation is an editable one."""
        super().finalize_options()
        if not self.editable_mode:
            self.packages = [*self.packages, *WITH_WMLAB]
            self.package_dir = {**self.package_dir, **WITH_WMLAB}


setup(
    packages=find_packages(include=["wmlab*"]),
    package_dir={"": "."},
    cmdclass={"build_py": BuildWithData},
)
