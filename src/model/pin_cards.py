#!/usr/bin/env python3
"""pin_cards.py MODEL_FOLDER CARD.json...: writes size and SHA-256 of each card's file, which lies in
MODEL_FOLDER, into the card. For use after a change of the importer, on files that were compared with
LiteRT's results. Only the two values change."""
import hashlib
import json
import pathlib
import re
import sys

folder, *cards = sys.argv[1:]
for name in cards:
    card = pathlib.Path(name)
    text = card.read_text(encoding="utf-8")
    data = (pathlib.Path(folder) / json.loads(text)["file"]).read_bytes()
    text = re.sub(r'^  "bytes": \d+', f'  "bytes": {len(data)}', text, count=1, flags=re.M)
    text = re.sub(r'^  "sha256": "[0-9a-f]*"', f'  "sha256": "{hashlib.sha256(data).hexdigest()}"', text,
                  count=1, flags=re.M)
    card.write_text(text, encoding="utf-8")
    print(card.name, len(data), hashlib.sha256(data).hexdigest())
