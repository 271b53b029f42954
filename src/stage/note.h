#pragma once
#include "postprocess/text.h"
#include "stage/stage_ops.h"

// Notes: bytes that an item adds to files about all items of all inputs (struct tachy_stage_ops, `take`). They are of this machine's
// byte order. `run` makes a note of each item. It is taken at once, or left with the item if the task keeps notes.

// For ops of a stage with `take`: its bytes of an item, and what closes them.
enum { TACHY_NOTE_ITEM = sizeof(struct tachy_text) };
void tachy_note_close(void *item);

// In run: the item's note, empty.
struct tachy_text *tachy_note_begin(const struct tachy_stage *st, const struct tachy_item *item);
// The note is whole. TACHY_ERR_NOMEM, or what `take` says.
int tachy_note_end(struct tachy_stage *st, const struct tachy_item *item);
static inline void tachy_note_put(struct tachy_text *note, const void *data, size_t size) { tachy_text_put(note, data, size); }

// The note of the item with this result of a task that keeps notes; NULL: the task makes none. Until the result ends.
const struct tachy_text *tachy_note_of(const tachy_task *t, const struct tachy_result *r);

// In take: reads the next bytes. false: there are not so many.
struct tachy_note {
    const char *p;
    size_t left;
};
bool tachy_note_get(struct tachy_note *n, void *to, size_t size);
