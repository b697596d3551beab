"""Make a release: check, build, then commit and tag. Nothing is pushed.

Usage: python scripts/release.py VERSION [--dry-run]; `make release VERSION=1.2.3` says it too.

With --dry-run everything is done but commit and tag. Then, and if something fails, all files are as
they were.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from datetime import UTC, date, datetime
from io import BytesIO
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
FILES = ("CHANGELOG.md", "CITATION.cff", "pyproject.toml")
_VERSION = re.compile(r"\d+\.\d+\.\d+", re.ASCII)
_UNRELEASED = "## Unreleased\n"


class Refused(Exception):
    """A release cannot be made; the text says why and what to do."""


def main(arguments: list[str]) -> int:
    """Make a release; return the exit status."""
    dry = "--dry-run" in arguments
    versions = [argument for argument in arguments if argument != "--dry-run"]
    try:
        if len(versions) != 1:
            raise Refused("say which: make release VERSION=1.2.3")
        _release(versions[0], dry)
    except Refused as refused:
        sys.stderr.write(f"release: {refused}\n")
        return 1
    return 0


def _release(version: str, dry: bool) -> None:
    if _run("git", "status", "--porcelain"):
        raise Refused("the tree has changes; commit them, or take them away")
    if _run("git", "tag", "--list", f"v{version}"):
        raise Refused(f"there is a tag v{version} already")
    before = {name: (CHECKOUT / name).read_text() for name in FILES}
    after = with_version(before, version, datetime.now(UTC).date())
    for target in ("lint", "test"):
        _say(f"make {target}")
        if subprocess.run(["make", target], cwd=CHECKOUT).returncode:
            raise Refused(f"make {target} failed")
    try:
        for name, text in after.items():
            (CHECKOUT / name).write_text(text)
        built = _build(after)
        if not dry:
            _run("git", "commit", "--quiet", "--message", f"Release {version}", *FILES)
            _run("git", "tag", "--annotate", "--message", f"Stepcast {version}", f"v{version}")
    finally:
        if dry or _run("git", "status", "--porcelain"):
            _run("git", "checkout", "--quiet", "--", *FILES)
    names = ", ".join(f"dist/{path.name}" for path in built)
    _say(f"{names}: built")
    if dry:
        _say("a dry run: nothing is committed or tagged")
    else:
        _say(f"committed and tagged; `git push origin HEAD v{version}` publishes it")


def with_version(files: Mapping[str, str], version: str, day: date) -> dict[str, str]:
    """Return the files of a release: its version in each, and a new heading Unreleased.

    Raises:
        Refused: it is no version, not above the one before, or there is nothing to release.
    """
    before = re.search(r'^version = "(.*)"$', files["pyproject.toml"], re.MULTILINE)
    if before is None:
        raise Refused("pyproject.toml has no version")
    if not _VERSION.fullmatch(version) or _numbers(version) <= _numbers(before[1]):
        raise Refused(f"expected a version such as 1.2.3, above {before[1]}; found {version!r}")
    changes = files["CHANGELOG.md"].partition(_UNRELEASED)[2].partition("\n## ")[0]
    if not changes.strip():
        raise Refused("CHANGELOG.md has nothing under Unreleased")
    heading = f"{_UNRELEASED}\n## {version} ({day})\n"
    released = re.sub(r"^date-released: .*\n", "", files["CITATION.cff"], flags=re.MULTILINE)
    return {
        "CHANGELOG.md": files["CHANGELOG.md"].replace(_UNRELEASED, heading, 1),
        "CITATION.cff": re.sub(
            r"^version: .*$",
            f"version: {version}\ndate-released: {day}",
            released,
            count=1,
            flags=re.MULTILINE,
        ),
        "pyproject.toml": files["pyproject.toml"].replace(before[0], f'version = "{version}"', 1),
    }


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


def _build(changed: Mapping[str, str]) -> tuple[Path, Path]:
    """Build a source archive of what is committed, and the wheel of that archive."""
    with tempfile.TemporaryDirectory() as folder:
        committed = subprocess.run(
            ["git", "archive", "HEAD"], cwd=CHECKOUT, check=True, capture_output=True
        ).stdout
        with tarfile.open(fileobj=BytesIO(committed)) as archive:
            archive.extractall(folder, filter="data")
        for name, text in changed.items():
            Path(folder, name).write_text(text)
        dist = CHECKOUT / "dist"
        dist.mkdir(exist_ok=True)
        code = "import sys; from setuptools import build_meta as b; b.build_sdist(sys.argv[1])"
        _run(sys.executable, "-c", code, dist, at=Path(folder))
    newest = max(dist.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime)
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", dist, newest)
    wheel = max(dist.glob("*.whl"), key=lambda path: path.stat().st_mtime)
    return newest, wheel


def _pip(*arguments: object) -> None:
    _run(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)


def _run(*command: object, at: Path = CHECKOUT) -> str:
    """Return what a command printed.

    Raises:
        Refused: it failed.
    """
    words = [str(word) for word in command]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(words, cwd=at, env=kept, capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"{' '.join(words[:4])} … failed: {done.stderr.strip()[-500:]}")
    return done.stdout.strip()


def _say(line: str) -> None:
    sys.stdout.write(f"release: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
