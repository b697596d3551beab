"""Ask a database of advisories (OSV) about every package of requirements.lock.

Usage: python scripts/audit.py [further options of pip-audit, such as --osv-url URL]

Exit status 0: no advisory; 1: there are some; 2: not audited, or not all of it.
"""

import json
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

CHECKOUT = Path(__file__).parents[1]
LOCK = CHECKOUT / "requirements.lock"
PLACE = CHECKOUT / "build" / "audit"
TOOL = "pip-audit==2.10.1"
"""In an environment of its own: Stepcast needs none of the packages that come with it."""


def main() -> int:
    """Audit and print what was found, a line each."""
    program = PLACE / "bin" / "pip-audit"
    if not program.exists():
        venv.create(PLACE, with_pip=True, clear=True)
        install = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", TOOL]
        if subprocess.run([PLACE / "bin" / "python", *install]).returncode:
            return _say(f"not audited: {TOOL} cannot be installed", 2)
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        # PyPI is no database for this: a mirror without its advisories looks like no advisory.
        source_options = ["--vulnerability-service", "osv", "--requirement", str(LOCK), "--no-deps"]
        output_options = ["--disable-pip", "--progress-spinner", "off", "--format", "json"]
        done = subprocess.run(
            [program, *source_options, *output_options, "--output", report, *sys.argv[1:]],
            capture_output=True,
            text=True,
        )
        if not report.exists() or not report.stat().st_size:
            why = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
            return _say(f"not audited: the advisory database gave no answer: {why[-300:]}", 2)
        return judge(json.loads(report.read_text()), locked(LOCK.read_text()))


def locked(lock: str) -> set[str]:
    """Return the names of the packages in a lock file."""
    lines = (line.partition("==")[0] for line in lock.splitlines())
    return {_normal(name) for name in lines if name and not name.startswith("#")}


def judge(report: Mapping[str, Any], names: set[str]) -> int:
    """Print the advisories of a report of pip-audit, and what it left out of these names."""
    audited, count = set(), 0
    for package in report["dependencies"]:
        if "skip_reason" in package:
            continue
        audited.add(_normal(str(package["name"])))
        for advisory in package["vulns"]:
            count += 1
            fixed = ", ".join(advisory["fix_versions"]) or "no release"
            _say(f"{package['name']} {package['version']}: {advisory['id']}, mended in {fixed}")
    if left := sorted(names - audited):
        return _say(f"not audited: {', '.join(left)}", 2)
    return _say(f"{len(audited)} packages audited, {count} advisories", int(count > 0))


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _say(line: str, status: int = 0) -> int:
    sys.stdout.write(f"audit: {line}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
