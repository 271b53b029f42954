#!/usr/bin/env python3
"""make_entities.py OUT.c: writes Python's table of HTML's named characters (html.entities.html5) as C, sorted by the names' bytes.

Names that end in a semicolon have a second value if text that was turned into capitals can still be told: "&NTILDE;".
"""
import html
import html.entities
import pathlib
import sys


def quoted(text):
    return '"' + "".join(f"\\{b:03o}" for b in text.encode()) + '"'


rows = {}
for name, text in html.entities.html5.items():
    rows[name] = (text, False)
    capitals = name.upper()
    if name.endswith(";") and name == name.lower() and html.unescape("&" + capitals) == "&" + capitals:
        rows.setdefault(capitals, (text.upper(), True))
body = "".join(f'    {{"{name}", {quoted(text)}, {str(capital).lower()}}},\n' for name, (text, capital) in sorted(rows.items()))
pathlib.Path(sys.argv[1]).write_text(
    '#include "text/clean.h"\n\nconst struct text_entity text_entities[] = {\n' + body +
    f"}};\nconst int text_nb_entities = {len(rows)};\n", encoding="utf-8")
