"""What an installation brings: packages, and MiB on disk, of the connector and of its extras.

.venv/bin/python tests/benchmarks/bench_install.py
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

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
    print(f"{'extras':<16} {'packages':>8} {'MiB':>7}")
    for extras in options.extras:
        with tempfile.TemporaryDirectory() as folder:
            number, size_mib = installed(extras, Path(folder))
        print(f"{extras or 'none':<16} {number:>8} {size_mib:>7.0f}", flush=True)


if __name__ == "__main__":
    main()
