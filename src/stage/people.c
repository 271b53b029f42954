#include "stage/faces.h"
#include "stage/stages.h"

#include "base/cpu.h"
#include "base/options.h"

#include <math.h>
#include <stdlib.h>

// Identifies the people whose faces the stage `faces` has turned into vectors. Faces are stored in frame order and
// clustered after the last item (faces_store.c).

struct people {
    struct faces_store *store;
    struct faces_params p;
    char *people, *names;
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
    return faces_store_write(f->store, &f->p);
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    const struct people *f = tachy_stage_priv(st);
    const struct tachy_item *item = pieces[0].item;
    const struct faces_item *from = tachy_stage_item(tachy_stage_before(st, "faces"), item);
    for (int i = 0; i < from->list.nb && err[0] == TACHY_OK; i++) {
        const struct tachy_region *r = &from->list.v[i];
        const struct tachy_named *v = r->values;
        if (!from->crop[i])
            continue;
        double straight = cos(v[FACES_ANGLE].value * 3.14159265358979323846 / 180);
        err[0] = faces_store_add(f->store, st->task->input, tachy_item_head(item)->id, r,
                                 v[FACES_SIZE].value * (1 - v[FACES_BLUR].value) * straight, from->crop[i]);
    }
}

const struct tachy_stage_ops tachy_stage_people = {
    .name = "people",
    .options = options,
    .flags = TACHY_STAGE_ORDERED,
    .priv_size = sizeof(struct people),
    .open = open,
    .close = close,
    .finish = finish,
    .run = run,
};
