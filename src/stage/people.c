#include "stage/faces.h"
#include "stage/note.h"
#include "stage/stages.h"

#include "base/cpu.h"
#include "base/options.h"

#include <math.h>
#include <stdlib.h>

// Identifies the people whose faces the stage `faces` has turned into vectors. Faces are stored in frame order and
// clustered after the last item (faces_store.c).

struct people {
    struct faces_store *store; // NULL: notes are kept
    struct faces_params p;
    char *people, *names;
};

// The sharpest face so far of a stream's last tracks: only sharper ones need their crop kept.
enum { TRACKS = 64 };
struct tracks {
    uint32_t nb; // since the stream began anew
    struct {
        int64_t id;
        double sharp;
    } track[TRACKS];
};

// A face in an item's note; after it the embedding, and the crop if there is one.
struct note {
    int64_t frame, track;
    double x, y, w, h, sharp;
    float score;
    int32_t size, crop, zero;
};

static const struct tachy_option options[] = {
    {"faces.cluster_size", "cluster-size", 0, TACHY_OPT_INT, "2", .min = 2, .max = 100000, .group = "Faces",
     .help = "tracks or pictures that make a person"},
    {"faces.cluster_samples", "cluster-samples", 0, TACHY_OPT_INT, "1", .min = 1, .max = 1000, .group = "Faces",
     .help = "neighbours, the face itself included, that make a dense region; higher leaves more faces out"},
    {"faces.cluster_select", "cluster-select", 0, TACHY_OPT_ENUM, "eom", .values = "eom|leaf", .group = "Faces",
     .help = "which clusters of HDBSCAN's tree are people: the most stable ones, or the smallest"},
    {"faces.people", "people", 0, TACHY_OPT_STRING, .arg = "FOLDER", .group = "Faces", .at_end = true,
     .help = "write a list of all faces here, and for each person a folder with the inputs and a montage"},
    {"faces.put", "put", 0, TACHY_OPT_ENUM, "links", .values = "links|copies|list", .group = "Faces",
     .help = "how inputs get into these folders: as hard links, as copies, or not at all"},
    {"faces.names", "names-file", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Faces", .at_end = true,
     .help = "file of known people with their names; new ones are added to it"},
    {"faces.same", "same", 0, TACHY_OPT_FLOAT, "0.5", .max = 1, .group = "Faces",
     .help = "cosine to a known person from which a face counts as that person's"},
    {"faces.join", "join", 0, TACHY_OPT_FLOAT, "0.7", .max = 1, .group = "Faces",
     .help = "cosine of the means of two clusters from which they count as one person; 1: never"},
    {0},
};

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct people *f = tachy_stage_priv(st);
    const char *people = tachy_settings_str(s, "faces.people"), *names = tachy_settings_str(s, "faces.names");
    const char *put = tachy_settings_str(s, "faces.put");
    if (!people && !names)
        return TACHY_STAGE_LEFT_OUT;
    if (st->task->keeps_notes)
        return TACHY_OK;
    f->store = faces_store_open();
    f->people = people ? strdup(people) : NULL;
    f->names = names ? strdup(names) : NULL;
    if (!f->store || (people && !f->people) || (names && !f->names))
        return TACHY_ERR_NOMEM;
    f->p = (struct faces_params){
        .cluster = {.least = (int)tachy_settings_int(s, "faces.cluster_size"),
                    .samples = (int)tachy_settings_int(s, "faces.cluster_samples"),
                    .select = strcmp(tachy_settings_str(s, "faces.cluster_select"), "eom") ? TACHY_CLUSTER_LEAF : TACHY_CLUSTER_EOM},
        .same = tachy_settings_float(s, "faces.same"),
        .join = tachy_settings_float(s, "faces.join"),
        .people = f->people,
        .put = !strcmp(put, "links") ? FACES_LINKS : !strcmp(put, "copies") ? FACES_COPIES : FACES_LIST,
        .names = f->names,
        .log = st->task->log,
    };
    char *list = people ? tachy_asprintf("%s/faces.csv", people) : NULL;
    int err = people ? tachy_make_folders(people, st->task->log) : TACHY_OK;
    if (err == TACHY_OK && people)
        err = list ? tachy_check_free(list, tachy_settings_bool(s, "output.overwrite"), "--people FOLDER", st->task->log) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK && names)
        err = tachy_check_free(names, true, "--names-file FILE", st->task->log); // people are added to it
    tachy_free(list);
    return err;
}

static void close(struct tachy_stage *st)
{
    struct people *f = tachy_stage_priv(st);
    faces_store_close(f->store);
    free(f->people);
    free(f->names);
}

static int finish(struct tachy_stage *st)
{
    struct people *f = tachy_stage_priv(st);
    f->p.cluster.threads = tachy_cpu_count();
    int err = faces_store_write(f->store, &f->p);
    if (err == TACHY_OK)
        err = faces_store_labels(f->store, &st->task->label, &st->task->nb_labels);
    return err;
}

// ---- Notes

static bool is_sharper(struct tracks *t, int64_t id, double sharp)
{
    uint32_t last = TACHY_MIN(t->nb, TRACKS);
    for (uint32_t i = 0; i < last && id >= 0; i++)
        if (t->track[i].id == id) {
            bool sharper = sharp > t->track[i].sharp;
            t->track[i].sharp = sharper ? sharp : t->track[i].sharp;
            return sharper;
        }
    t->track[t->nb % TRACKS].id = id;
    t->track[t->nb++ % TRACKS].sharp = sharp;
    return true;
}

static int take(struct tachy_stage *st, const char *input, const void *note, size_t size)
{
    const struct people *f = tachy_stage_priv(st);
    struct tachy_note from = {note, size};
    struct note n;
    int err = TACHY_OK;
    while (err == TACHY_OK && from.left) {
        if (!tachy_note_get(&from, &n, sizeof(n)) || n.size < 1 || from.left / sizeof(float) < (size_t)n.size)
            return TACHY_ERR_FORMAT;
        size_t bytes = (size_t)n.size * sizeof(float);
        float *embedding = malloc(bytes);
        if (!embedding)
            return TACHY_ERR_NOMEM;
        tachy_note_get(&from, embedding, bytes);
        const struct tachy_region r = {.x = n.x, .y = n.y, .w = n.w, .h = n.h, .score = n.score, .track = n.track,
                                       .embedding = embedding, .nb_embedding = n.size};
        const char *crop = n.crop ? from.p : NULL;
        if (crop && from.left < FACES_CROP_BYTES)
            err = TACHY_ERR_FORMAT;
        if (err == TACHY_OK)
            err = faces_store_add(f->store, input, n.frame, &r, n.sharp, (const uint8_t *)crop, st->task->taken_before);
        if (crop && err == TACHY_OK) {
            from.p += FACES_CROP_BYTES;
            from.left -= FACES_CROP_BYTES;
        }
        free(embedding);
    }
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    const struct tachy_item *item = pieces[0].item;
    const struct faces_item *from = tachy_stage_item(tachy_stage_before(st, "faces"), item);
    struct tachy_text *text = tachy_note_begin(st, item);
    struct tracks none = {0}, *tracks = state ? state : &none;
    if (item->anew)
        tracks->nb = 0;
    for (int i = 0; i < from->list.nb; i++) {
        const struct tachy_region *r = &from->list.v[i];
        const struct tachy_named *v = r->values;
        if (!from->crop[i] || !r->nb_embedding)
            continue;
        double straight = cos(v[FACES_ANGLE].value * 3.14159265358979323846 / 180);
        struct note note = {.frame = tachy_item_head(item)->id, .track = r->track, .x = r->x, .y = r->y, .w = r->w, .h = r->h,
                            .sharp = v[FACES_SIZE].value * (1 - v[FACES_BLUR].value) * straight, .score = r->score, .size = r->nb_embedding};
        note.crop = is_sharper(tracks, r->track, note.sharp);
        tachy_note_put(text, &note, sizeof(note));
        tachy_note_put(text, r->embedding, (size_t)r->nb_embedding * sizeof(float));
        if (note.crop)
            tachy_note_put(text, from->crop[i], FACES_CROP_BYTES);
    }
    err[0] = tachy_note_end(st, item);
}

const struct tachy_stage_ops tachy_stage_people = {
    .name = "people",
    .options = options,
    .flags = TACHY_STAGE_ORDERED,
    .priv_size = sizeof(struct people),
    .item_size = TACHY_NOTE_ITEM,
    .state_size = sizeof(struct tracks),
    .open = open,
    .close = close,
    .finish = finish,
    .run = run,
    .item_close = tachy_note_close,
    .take = take,
};
