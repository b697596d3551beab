"""Where this project keeps what it remembers; see `warehouse.home`."""

from warehouse.home import CHECKOUT, home

__all__ = ["CHECKOUT", "home"]
