"""Ways to damage a file, and values that nobody expects."""

from typing import NamedTuple

from hypothesis import strategies as st

NUMBERS = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1]
WORDS = [
    "", " ", "0", "-1", "nan", "inf", "1e999", "null", "true", "ß∞\u202e", "a\nb", "../../x", "%s",
    "\x00", "\x1b[31m", "9" * 400, "[[[[", "{}", "/dev/null", "C:\\x", "--force", "-", "~", "$HOME",
]  # fmt: skip


class Edit(NamedTuple):
    """One change of some bytes, at a place that is taken modulo their number."""

    kind: str
    place: int
    value: int


def _position(data: bytes, place: int) -> int:
    return place % max(1, len(data))


def _changed(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes([value % 256]) + data[at + 1 :]


def _number(data: bytes, at: int, value: int) -> bytes:
    """Overwrite 2, 4 or 8 bytes by a number at the border of what they hold."""
    width, order = (2, 4, 8)[value % 3], ("little", "big")[value // 3 % 2]
    number = NUMBERS[value // 6 % len(NUMBERS)] % 256**width
    return data[:at] + number.to_bytes(width, order) + data[at + width :]  # type: ignore[arg-type]


def _inserted(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + value.to_bytes(8, "big") * (1 + value % 9) + data[at:]


def _left_out(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + data[at + 1 + value % 64 :]


def _twice(data: bytes, at: int, value: int) -> bytes:
    return data[: at + 1 + value % 256] + data[at:]


def _zeros(data: bytes, at: int, value: int) -> bytes:
    count = min(1 + value % 256, len(data) - at)
    return data[:at] + bytes(count) + data[at + count :]


SEVERAL = "several of these"
EDITS = {
    "changed bytes": _changed,
    "numbers at their limits": _number,
    "cut short": lambda data, at, _: data[:at],
    "bytes inserted": _inserted,
    "bytes left out": _left_out,
    "a part twice": _twice,
    "zeros": _zeros,
}

edits = st.lists(
    st.builds(
        Edit,
        st.sampled_from(sorted(EDITS)),
        st.one_of(st.integers(0, 400), st.integers(0, 10**6)),  # the header, or anywhere
        st.integers(0, 2**32),
    ),
    max_size=4,
)


def edited(data: bytes, changes: list[Edit]) -> bytes:
    """Return the bytes after all changes."""
    for one in changes:
        data = EDITS[one.kind](data, _position(data, one.place), one.value)
    return data


def named(changes: list[Edit]) -> str:
    """Return the kind of damage for the table."""
    kinds = {one.kind for one in changes}
    return "whole" if not kinds else kinds.pop() if len(kinds) == 1 else SEVERAL


odd_numbers = st.one_of(
    st.sampled_from([0, -1, 1, 2, 3, 10**5, 10**8, 10**9, 2**31, 2**63, 10**30, True, False]),
    st.sampled_from(
        [0.0, -0.5, 0.5, 1.5, 1e-300, 1e300, float("nan"), float("inf"), -float("inf")]
    ),
    st.integers(-5, 70),
    st.floats(),
)
odd_words = st.one_of(st.sampled_from(WORDS), st.text(max_size=20))
odd_json = st.recursive(
    st.one_of(st.none(), odd_numbers, odd_words),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(odd_words, inner, max_size=4)
    ),
    max_leaves=6,
)
# Values that take the place of others in nested JSON, by the number of the place.
odd_values = st.lists(st.tuples(st.integers(0, 60), odd_json), max_size=2)
