#include "profile/rows.h"

#include <stdio.h>

void tachy_rows_open(struct tachy_rows *s)
{
    memset((void *)s, 0, sizeof(*s));
    pthread_mutex_init(&s->lock, NULL);
    tachy_rows_add(s, "decode", 0, NULL);
}

void tachy_rows_close(struct tachy_rows *s) { pthread_mutex_destroy(&s->lock); }

// Names go into JSON, metrics and folded stacks as they are.
static void clean(char to[TACHY_STEP_NAME], const char *name)
{
    snprintf(to, TACHY_STEP_NAME, "%s", name);
    for (char *c = to; *c; c++)
        if (strchr("\"\\;,{}", *c) || (unsigned char)*c < ' ')
            *c = '_';
}

static int find(const struct tachy_rows *s, const char *name)
{
    int n = tachy_rows_count(s), i = 0;
    while (i < n && strcmp(s->row[i].name, name))
        i++;
    return i;
}

int tachy_rows_add(struct tachy_rows *s, const char *wanted, unsigned flags, const char *remedy)
{
    char name[TACHY_STEP_NAME];
    clean(name, wanted);
    pthread_mutex_lock(&s->lock);
    int i = find(s, name), n = tachy_rows_count(s);
    if (i == n && n >= TACHY_MAX_STEPS - 1) {
        i = TACHY_MAX_STEPS - 1;
        clean(name, "other");
    }
    struct tachy_row *row = &s->row[i];
    if (i == n)
        memcpy(row->name, name, sizeof(name));
    atomic_fetch_or(&row->flags, flags);
    _Atomic(const char *) *say = flags & TACHY_STEP_IN_ORDER ? &s->in_order : &row->remedy;
    atomic_compare_exchange_strong(say, &(const char *){NULL}, remedy);
    if (i == n)
        atomic_store(&s->n, n + 1);
    pthread_mutex_unlock(&s->lock);
    return i;
}
