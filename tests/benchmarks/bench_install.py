"""What an installation brings: packages, and MiB on disk, of the connector and of its extras.

.venv/bin/python tests/benchmarks/bench_install.py
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.measure import Figure

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("", "aws", "feast", "catalog", "demo")


def installed(extras: str, folder: Path) -> tuple[int, float]:
    """Install the package into a new environment; return the number of packages and their MiB."""
    environment = folder / (extras or "connector")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    pip = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--link-mode=copy"]
    target = ["--python", str(environment / "bin" / "python")]
    subprocess.run([*pip, *target, f"{ROOT}[{extras}]" if extras else str(ROOT)], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    files = [path for path in packages.rglob("*") if path.is_file()]
    number = sum(path.name == "METADATA" for path in files)
    return number, sum(path.stat().st_size for path in files) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extras", nargs="*", default=EXTRAS, help="e.g. catalog, or aws,feast")
    options = parser.parse_args()
    for extras in options.extras:
        with tempfile.TemporaryDirectory() as folder:
            number, size_mib = installed(extras, Path(folder))
        name = f"extra `{extras}`" if extras else "no extra"
        print(Figure(f"{name}, packages", number, ""), flush=True)
        print(Figure(f"{name}, size", round(size_mib), "MiB"), flush=True)


if __name__ == "__main__":
    main()
