"""Ending what dead processes of a home have rented, wherever that is, and landing what it cost."""

from collections.abc import Callable
from pathlib import Path

from profilers.clusters.fleet import fleet, has_fleet
from profilers.renting.book import FOLDER, Book
from profilers.renting.reaping import Reaped, reap
from studies.rented import land_book


def reap_rented(home: Path, say: Callable[[str], None]) -> Reaped:
    """End what dead processes left: by the book, and by tags in the regions that it names.

    The fleet file's region counts too, once something was rented from this home or its book is
    lost; where there is neither, nobody is asked.
    """
    how = fleet().ec2 if has_fleet() else None
    regions, has_book = set() if how is None else {how.region}, (home / FOLDER).exists()
    if not regions and not has_book:
        return Reaped()
    from profilers.renting.aws import Ec2  # boto3 takes half a second to import

    book = Book(home / FOLDER)
    regions |= {one.region for one in book.read().intents.values()}
    reaped = reap(book, sorted(regions), Ec2, say)
    land_book(home)
    if has_book:
        return reaped
    # Nothing was rented as far as anybody knows: a region that cannot be asked is no matter.
    return Reaped(reaped.ended, tuple(one for one in reaped.left if one not in regions))
