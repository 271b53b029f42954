#include "base/mix.h"

#include "base/base.h"
#include "base/cpu.h"
#include "base/team.h"

#include <stdlib.h>

// The digest of much data: of the digests of its pieces, which several threads compute.

enum { PIECE = 1 << 20, FEW = 8 << 20, THREADS = 16 }; // bytes; fewer are not worth threads; at most

struct piece {
    const uint8_t *data;
    size_t size;
    uint64_t digest[2];
};

struct pieces {
    struct piece *list;
    int n, shares;
};

static void mix_piece(struct piece *p)
{
    p->digest[0] = 0, p->digest[1] = 1;
    tachy_mix_wide(p->digest, p->data, p->size);
}

static void mix_share(void *user, int thread, int share)
{
    const struct pieces *p = user;
    for (int64_t i = (int64_t)p->n * share / p->shares; i < (int64_t)p->n * (share + 1) / p->shares; i++)
        mix_piece(&p->list[i]);
}

bool tachy_mix_parts(uint64_t h[2], const struct tachy_mix_part *parts, int nb)
{
    struct pieces p = {.n = 0};
    size_t bytes = 0, n = 0;
    for (int i = 0; i < nb; i++) {
        bytes += parts[i].size;
        n += parts[i].size / PIECE + 1;
    }
    p.list = malloc(TACHY_MAX(n, 1) * sizeof(*p.list));
    if (!p.list)
        return false;
    for (int i = 0; i < nb; i++)
        for (size_t at = 0; at <= parts[i].size; at += PIECE)
            p.list[p.n++] = (struct piece){(const uint8_t *)parts[i].data + at, TACHY_MIN(parts[i].size - at, (size_t)PIECE), {0}};
    p.shares = bytes >= FEW ? TACHY_MIN(tachy_cpu_count(), (int)THREADS) : 1;
    tachy_team_once(p.shares, mix_share, &p);
    for (int i = 0; i < p.n; i++)
        tachy_mix_wide(h, p.list[i].digest, sizeof(p.list[i].digest));
    free(p.list);
    return true;
}
