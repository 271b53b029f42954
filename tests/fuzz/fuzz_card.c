// libFuzzer target: any bytes as a model card, held against a model with one input and output.
#include "model/card.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t length(const char *s)
{
    if (!s)
        __builtin_trap(); // "never NULL" is a promise of the header
    return strlen(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct card_doc *d = NULL;
    char *text = malloc(size ? size : 1); // exact size: no byte after it may be read
    if (!text)
        return 0;
    memcpy(text, data, size);
    if (!card_parse(&d, text, size, "fuzz", NULL)) {
        const struct tachy_card *c = &d->card;
        volatile size_t sum = length(c->name) + length(c->task) + length(c->file);
        for (int i = 0; i < d->file[CARD_MODEL].n_sources; i++)
            sum += length(d->file[CARD_MODEL].sources[i].url) + length(d->file[CARD_MODEL].sources[i].path) +
                   length(d->file[CARD_MODEL].sources[i].member) + length(d->file[CARD_MODEL].sources[i].sha256) +
                   length(d->file[CARD_MODEL].sources[i].import);
        struct tachy_io in = {.name = "x", .spec = {.dtype = TACHY_F32, .rank = 4,
                                                    .shape = {1, 256, 256, 3}}};
        struct tachy_io out = {.name = "y", .spec = {.dtype = TACHY_F32, .rank = 4,
                                                     .shape = {1, 256, 256, 1}}};
        tachy_card_check(c, &in, 1, &out, 1, NULL);
        (void)sum;
    }
    card_free(&d);
    free(text);
    return 0;
}
