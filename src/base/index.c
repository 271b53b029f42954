#include "base/index.h"

#include "base/base.h"

#include <stdlib.h>

// Open addressing; at most half of the slots are taken.

static void put(struct tachy_index *x, struct tachy_index_slot s)
{
    size_t at = s.hash & (x->room - 1);
    while (x->slots[at].number)
        at = (at + 1) & (x->room - 1);
    x->slots[at] = s;
    x->used++;
}

static int grow(struct tachy_index *x)
{
    struct tachy_index old = *x;
    size_t room = old.room ? 2 * old.room : 64;
    struct tachy_index_slot *slots = calloc(room, sizeof(*slots));
    if (!slots)
        return TACHY_ERR_NOMEM;
    *x = (struct tachy_index){slots, room, 0};
    for (size_t i = 0; i < old.room; i++)
        if (old.slots[i].number)
            put(x, old.slots[i]);
    free(old.slots);
    return TACHY_OK;
}

int tachy_index_find(const struct tachy_index *x, uint64_t hash, tachy_index_same *same, const void *user,
                     const void *key)
{
    for (size_t at = hash; x->room; at++) {
        const struct tachy_index_slot *s = &x->slots[at & (x->room - 1)];
        if (!s->number)
            break;
        if (s->hash == hash && same(user, key, s->number - 1))
            return s->number - 1;
    }
    return -1;
}

int tachy_index_add(struct tachy_index *x, uint64_t hash, int number)
{
    int err = 2 * x->used < x->room ? TACHY_OK : grow(x);
    if (err == TACHY_OK)
        put(x, (struct tachy_index_slot){hash, number + 1});
    return err;
}

void tachy_index_free(struct tachy_index *x)
{
    free(x->slots);
    *x = (struct tachy_index){0};
}
