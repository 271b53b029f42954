#!/usr/bin/env python3
"""embed_cards.py OUT.c CARD.json...: writes the built-in model cards as C strings."""
import json
import pathlib
import sys

out, *cards = sys.argv[1:]
rows = []
for card in cards:
    text = pathlib.Path(card).read_text(encoding="utf-8")
    json.loads(text)  # a broken card must break the build, not the user's run
    lines = "\n".join("     " + json.dumps(line + "\n") for line in text.splitlines())
    rows.append(f'    {{"{pathlib.Path(card).stem}",\n{lines}}},\n')
pathlib.Path(out).write_text(
    '#include "model/zoo.h"\n\nconst struct zoo_builtin zoo_builtins[] = {\n'
    + "".join(rows) + "    {0},\n};\n", encoding="utf-8")
