"""What tests leave on this host: namespaces, control groups and programs of a home."""

from pathlib import Path

from profilers.clusters import cgroups, netns, owner


def left_behind() -> list[str]:
    """Return every namespace and control group of this home; those of others are of other tests."""
    prefix = f"{owner.PREFIX}-{owner.token()}-"
    spaces = [name for name in netns.namespaces() if name.startswith(prefix)]
    return spaces + cgroups.names(prefix)


def programs(where: str) -> list[str]:
    """Return the command lines of what runs with this text in its environment."""
    command_lines = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if where in (path / "environ").read_bytes().decode(errors="replace"):
                command_lines.append((path / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return command_lines
