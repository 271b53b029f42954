#include "stage/note.h"

struct tachy_text *tachy_note_begin(const struct tachy_stage *st, const struct tachy_item *item)
{
    struct tachy_text *note = tachy_stage_item(st, item);
    note->len = 0;
    note->failed = false;
    return note;
}

int tachy_note_end(struct tachy_stage *st, const struct tachy_item *item)
{
    const struct tachy_text *note = tachy_stage_item(st, item);
    if (note->failed)
        return TACHY_ERR_NOMEM;
    return st->task->keeps_notes || !note->len ? TACHY_OK : st->ops->take(st, TACHY_DEF(st->task->input, ""), note->p, note->len);
}

void tachy_note_close(void *item) { tachy_text_free(item); }

const struct tachy_text *tachy_note_of(const tachy_task *t, const struct tachy_result *r)
{
    const struct tachy_item *item = (const struct tachy_item *)((const char *)r - offsetof(struct tachy_item, result));
    for (int i = 0; i < t->nb_stages; i++)
        if (t->stage[i]->ops->take)
            return tachy_stage_item(t->stage[i], item);
    return NULL;
}

bool tachy_note_get(struct tachy_note *n, void *to, size_t size)
{
    if (n->left < size)
        return false;
    memcpy(to, n->p, size);
    n->p += size;
    n->left -= size;
    return true;
}
