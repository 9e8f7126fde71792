"""PNG files byte by byte: what no library would write."""

import struct
import zlib


def chunk(name, content):
    check = struct.pack(">I", zlib.crc32(name + content))
    return struct.pack(">I", len(content)) + name + content + check


def png(width, height, *, bits=8, kind=2, rows=b"", extra=b""):
    """Whatever the rows hold: a header that claims something else is easily made."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0))
    content = chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + header + extra + content
