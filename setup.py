"""Maps the top-level folders into the `aiocg` package; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

FOLDERS = ("workers", "transport", "datasets")

packages = ["aiocg", *(f"aiocg.{sub}" for sub in find_packages("aiocg") if sub.split(".")[0] not in FOLDERS)]
for folder in FOLDERS:
    packages += [f"aiocg.{folder}", *(f"aiocg.{folder}.{sub}" for sub in find_packages(folder))]

package_dir = {"aiocg": "aiocg", **{f"aiocg.{f}": f for f in FOLDERS}}
setup(packages=packages, package_dir=package_dir, py_modules=["aiocg_codesize"])
