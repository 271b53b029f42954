// decode_tool CARD BATCH ITEM WIDTH HEIGHT NAME=FILE.npy...: what the decoders of a card find in a network's
// outputs for picture ITEM of BATCH, which showed a frame of WIDTH x HEIGHT, as a JSON object.
#include "base/npy.h"
#include "model/card.h"
#include "postprocess/decode.h"
#include "postprocess/text.h"

#include <stdio.h>
#include <stdlib.h>

enum { OUTPUTS = 16 };

static void print(void *user, enum tachy_log_level level, const char *text)
{
    if (level <= TACHY_LOG_WARN)
        fprintf(stderr, "%s\n", text);
}

static const struct tachy_log logger = {.fn = print};

static enum tachy_dtype type_of(const struct tachy_npy *a)
{
    if (a->kind == 'f')
        return a->size == 2 ? TACHY_F16 : TACHY_F32;
    if (a->size == 1)
        return a->kind == 'u' ? TACHY_U8 : TACHY_I8;
    return a->size == 4 ? TACHY_I32 : TACHY_I64;
}

static void print_regions(const struct tachy_region *v, int nb)
{
    struct tachy_text t = {0};
    tachy_regions_json(&t, &(tachy_frame){0}, &(struct tachy_result){.regions = v, .nb_regions = nb}, 0);
    puts(t.failed ? "" : t.p);
    tachy_text_free(&t);
}

static int decode(const struct tachy_card *card, const struct tachy_io *io, const struct tachy_tensor *out, int n,
                  int batch, struct tachy_decoder_frame *f)
{
    struct tachy_regions found = {0}, whole = {0};
    struct tachy_region *about = tachy_regions_add(&whole);
    int err = about ? TACHY_OK : TACHY_ERR_NOMEM;
    bool boxes = false;
    f->out = out;
    f->about = about;
    for (int i = 0; i < card->n_decoders && err == TACHY_OK; i++) {
        tachy_decoder *d;
        boxes |= card->decoder[i].kind <= TACHY_DECODE_CORNERS;
        err = tachy_decoder_open(&d, card, &card->decoder[i], io, n, batch, &logger);
        if (err == TACHY_OK)
            err = tachy_decoder_run(d, f, &found);
        tachy_decoder_close(&d);
    }
    if (err == TACHY_OK)
        print_regions(boxes ? found.v : about, boxes ? found.nb : 1);
    tachy_regions_free(&found);
    tachy_regions_free(&whole);
    return err;
}

int main(int argc, char **argv)
{
    struct tachy_npy array[OUTPUTS];
    struct tachy_io io[OUTPUTS];
    struct tachy_tensor out[OUTPUTS];
    struct card_doc *card;
    int n = 0;
    if (argc < 7 || argc > 6 + OUTPUTS || card_read(&card, argv[1], &logger) < 0)
        return 2;
    for (int i = 6; i < argc; i++, n++) {
        char *path = strchr(argv[i], '=');
        if (!path || tachy_npy_read(&array[n], path + 1, &logger) < 0)
            return 2;
        *path = '\0';
        out[n] = (struct tachy_tensor){.data = array[n].data, .dtype = type_of(&array[n]), .rank = array[n].rank};
        memcpy(out[n].shape, array[n].shape, sizeof(out[n].shape));
        io[n] = (struct tachy_io){argv[i], out[n]};
    }
    struct tachy_decoder_frame f = {.item = atoi(argv[3])};
    int err = tachy_preprocess_map(&card->card.in, atoi(argv[4]), atoi(argv[5]), NULL, f.map);
    if (err == TACHY_OK)
        err = decode(&card->card, io, out, n, atoi(argv[2]), &f);
    for (int i = 0; i < n; i++)
        tachy_npy_free(&array[i]);
    card_free(&card);
    return err < 0;
}
