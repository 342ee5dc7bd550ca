"""Puts `data/`, the logs and scenarios that come with wmlab, into its wheel as `wmlab/data`.

Which of its files stands in pyproject.toml, as all else does.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["wmlab*"]), "wmlab.data"],
    package_dir={"wmlab.data": "data"},
)
