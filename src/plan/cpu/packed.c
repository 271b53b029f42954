#include "plan/cpu/packed.h"

#include "base/base.h"
#include "base/mix.h"

#include <pthread.h>
#include <stdlib.h>

struct plan_packed {
    struct plan_packed *next; // in its list
    uint64_t digest;
    size_t size;
    int owners;
    void *data;
};

// The process's: sessions that know nothing of each other share. Everything but data, size and digest
// is under the lock.
enum { LISTS = 256 };
static struct plan_packed *lists[LISTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// The digest finds, the bytes decide.
static struct plan_packed *find(uint64_t digest, const void *data, size_t size)
{
    struct plan_packed *k = lists[digest % LISTS];
    while (k && (k->digest != digest || k->size != size || memcmp(k->data, data, size) != 0))
        k = k->next;
    return k;
}

struct plan_packed *plan_packed_share(void *data, size_t size)
{
    struct plan_packed *made = calloc(1, sizeof(*made));
    if (!made) {
        tachy_aligned_free(data);
        return NULL;
    }
    uint64_t digest[2] = {0, 1};
    tachy_mix_wide(digest, data, size);
    *made = (struct plan_packed){.digest = digest[0], .size = size, .owners = 1, .data = data};
    pthread_mutex_lock(&lock);
    struct plan_packed **list = &lists[made->digest % LISTS], *k = find(made->digest, data, size);
    if (k) {
        k->owners++;
    } else {
        made->next = *list;
        *list = made;
    }
    pthread_mutex_unlock(&lock);
    if (!k)
        return made;
    tachy_aligned_free(data);
    free(made);
    return k;
}

void plan_packed_unref(struct plan_packed **pk)
{
    struct plan_packed *k = *pk;
    *pk = NULL;
    if (!k)
        return;
    pthread_mutex_lock(&lock);
    bool last = --k->owners == 0;
    struct plan_packed **at = &lists[k->digest % LISTS];
    while (last && *at != k)
        at = &(*at)->next;
    if (last)
        *at = k->next;
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    tachy_aligned_free(k->data);
    free(k);
}

const void *plan_packed_data(const struct plan_packed *k) { return k->data; }
size_t plan_packed_size(const struct plan_packed *k) { return k->size; }

int plan_packed_owners(const struct plan_packed *k)
{
    pthread_mutex_lock(&lock);
    int n = k->owners;
    pthread_mutex_unlock(&lock);
    return n;
}
