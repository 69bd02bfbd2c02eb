#!/usr/bin/env python3
"""Writes src/text/regex_shapes.inc: code points that the PCRE2 of Debian 12 (Unicode 14) puts into another class than
the reference tokenizers do (Unicode 16), each with a stand-in of the same class and the same UTF-8 length.

    python3 -m venv V && V/bin/pip install unicodedata2==16.0.0 && V/bin/python scripts/regex_shapes.py

Needs a Python whose own unicodedata is version 14 (Python 3.11), which is what PCRE2 10.42 was made from.
"""
import pathlib
import unicodedata

import unicodedata2

assert unicodedata.unidata_version == "14.0.0" and unicodedata2.unidata_version == "16.0.0"

OUT = pathlib.Path(__file__).resolve().parent.parent / "src/text/regex_shapes.inc"


def utf8_length(cp):
    return 1 if cp < 0x80 else 2 if cp < 0x800 else 3 if cp < 0x10000 else 4


def stand_in(cp, category):
    """The nearest code point that both versions put into `category`, with as many bytes as `cp`."""
    for distance in range(1, 0x110000):
        for other in (cp - distance, cp + distance):
            if 0 <= other < 0x110000 and utf8_length(other) == utf8_length(cp):
                if unicodedata.category(chr(other)) == category == unicodedata2.category(chr(other)):
                    return other
    raise AssertionError(hex(cp))


def main():
    ranges = []
    for cp in range(0x110000):
        old, new = unicodedata.category(chr(cp)), unicodedata2.category(chr(cp))
        # PCRE2's \s takes the Mongolian vowel separator for a space, Unicode has not since 6.3.
        if old == new and cp != 0x180E:
            continue
        other = 0x200B if cp == 0x180E else stand_in(cp, new)
        if ranges and ranges[-1][1] == cp - 1 and ranges[-1][3] == new:
            ranges[-1][1] = cp
        else:
            ranges.append([cp, cp, other, new])
    with OUT.open("w") as f:
        f.write("// Made by scripts/regex_shapes.py: {first, last, stand-in}, ascending.\n")
        for first, last, other, _ in ranges:
            f.write(f"{{0x{first:X}, 0x{last:X}, 0x{other:X}}},\n")
    print(f"{OUT}: {len(ranges)} ranges")


if __name__ == "__main__":
    main()
