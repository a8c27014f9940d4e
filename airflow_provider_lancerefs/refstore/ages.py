"""Ages as people write them."""

from __future__ import annotations

from datetime import timedelta

from airflow_provider_lancerefs.refstore.errors import InvalidInputError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_age(text: str) -> timedelta:
    """'90s', '30m', '12h' or '7d'; a plain 0 is no time at all."""
    unit = _UNITS.get(text[-1:])
    number = text[:-1] if unit else text
    if not number.isascii() or not number.isdigit() or (unit is None and number != "0"):
        raise InvalidInputError(f"{text!r} is not an age: write 90s, 30m, 12h or 7d.")
    try:
        return timedelta(**{unit or "seconds": int(number)})
    except OverflowError:
        raise InvalidInputError(f"{text!r} is longer than time can be counted.") from None
