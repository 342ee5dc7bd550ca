"""Puts what comes with wmlab into its wheel: `data/`, logs and scenarios, as `wmlab/data`, and the notebooks.

Which of their files stands in pyproject.toml, as all else does.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["wmlab*"]), "wmlab.data", "wmlab.notebooks"],
    package_dir={"wmlab.data": "data", "wmlab.notebooks": "notebooks"},
)
