#include "stage/faces.h"

#include "postprocess/text.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tachy/sink.h>
#include <unistd.h>

// All faces of a run. The faces of one track form one point for the clusters, the mean of their embeddings: they are
// one person, whatever the distances are. Clusters get the names of known people, or new ones.

struct seen {
    int32_t track; // in faces_store.track
    int64_t frame;
    double x, y, w, h;
    float score;
};

struct face_track {
    int32_t input, faces, person; // person: -1: nobody's
    int64_t id;                   // the tracker's; -1: it gives none
    double sharp;                 // of the best face so far
    bool learnt;                  // the file of names has its faces
    uint8_t crop[FACES_CROP * FACES_CROP * 3];
};

struct person {
    char *name;
    int64_t faces;
    float *mean; // of unit length
};

struct faces_store {
    pthread_mutex_t lock; // guards the rest
    int size;             // of an embedding; 0: none yet
    char **input;
    int32_t nb_inputs;
    struct seen *seen;
    size_t nb_seen, room_seen;
    struct face_track **track;
    float *mean; // a row for each track: sums, in the end of unit length
    int32_t nb_tracks, room_tracks;
    struct person *person;
    int nb_people;
    bool changed; // since the file of names was read
    const char **label;
};

struct faces_store *faces_store_open(void)
{
    struct faces_store *s = calloc(1, sizeof(*s));
    if (s)
        pthread_mutex_init(&s->lock, NULL);
    return s;
}

void faces_store_close(struct faces_store *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->nb_inputs; i++)
        free(s->input[i]);
    for (int i = 0; i < s->nb_tracks; i++)
        free(s->track[i]);
    for (int i = 0; i < s->nb_people; i++) {
        free(s->person[i].name);
        free(s->person[i].mean);
    }
    pthread_mutex_destroy(&s->lock);
    void *const mem[] = {s->input, s->seen, s->track, s->mean, s->person, s->label};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(mem); i++)
        free(mem[i]);
    free(s);
}

// ---- Adding. Under the lock.

// One more element; false: out of memory.
static bool more(void *list, int32_t nb, size_t size)
{
    void **v = list, *all = realloc(*v, ((size_t)nb + 1) * size);
    if (all)
        *v = all;
    return all;
}

static int32_t input_of(struct faces_store *s, const char *name)
{
    name = name ? name : "";
    if (s->nb_inputs && !strcmp(s->input[s->nb_inputs - 1], name))
        return s->nb_inputs - 1;
    if (!more(&s->input, s->nb_inputs, sizeof(*s->input)) || !(s->input[s->nb_inputs] = strdup(name)))
        return TACHY_ERR_NOMEM;
    return s->nb_inputs++;
}

// Tracks of this input come last.
static int32_t track_of(struct faces_store *s, int32_t input, int64_t id)
{
    for (int32_t i = s->nb_tracks - 1; i >= 0 && s->track[i]->input == input && id >= 0; i--)
        if (s->track[i]->id == id)
            return i;
    size_t row = (size_t)s->size * sizeof(*s->mean);
    struct face_track *t = calloc(1, sizeof(*t));
    if (!t || !more(&s->track, s->nb_tracks, sizeof(*s->track)) || !more(&s->mean, s->nb_tracks, row)) {
        free(t);
        return TACHY_ERR_NOMEM;
    }
    *t = (struct face_track){.input = input, .id = id, .person = -1, .sharp = -1};
    memset(s->mean + (size_t)s->nb_tracks * (size_t)s->size, 0, row);
    s->track[s->nb_tracks] = t;
    return s->nb_tracks++;
}

static int add(struct faces_store *s, const char *input, int64_t id, const struct tachy_region *r, double sharp, const uint8_t *crop,
               bool learnt)
{
    if (s->size && s->size != r->nb_embedding)
        return TACHY_ERR_MISMATCH;
    s->size = r->nb_embedding;
    int32_t in = input_of(s, input), k = in < 0 ? in : track_of(s, in, r->track);
    if (k < 0)
        return k;
    if (s->nb_seen == s->room_seen) {
        size_t room = 2 * s->room_seen + 256;
        struct seen *all = realloc(s->seen, room * sizeof(*all));
        if (!all)
            return TACHY_ERR_NOMEM;
        s->seen = all;
        s->room_seen = room;
    }
    struct face_track *t = s->track[k];
    s->seen[s->nb_seen++] = (struct seen){k, id, r->x, r->y, r->w, r->h, r->score};
    t->faces++;
    t->learnt = learnt;
    for (int i = 0; i < s->size; i++)
        s->mean[(size_t)k * (size_t)s->size + (size_t)i] += r->embedding[i];
    if (crop && sharp > t->sharp) {
        t->sharp = sharp;
        memcpy(t->crop, crop, sizeof(t->crop));
    }
    return TACHY_OK;
}

int faces_store_add(struct faces_store *s, const char *input, int64_t id, const struct tachy_region *r, double sharp,
                    const uint8_t *crop, bool learnt)
{
    pthread_mutex_lock(&s->lock);
    int err = add(s, input, id, r, sharp, crop, learnt);
    pthread_mutex_unlock(&s->lock);
    return err;
}

// ---- People

static void to_unit(float *v, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    for (int i = 0; i < n && sum > 0; i++)
        v[i] = (float)((double)v[i] / sqrt(sum));
}

static double cosine(const float *a, const float *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

// NULL name: "person" and a number that nobody has.
static int add_person(struct faces_store *s, const char *name)
{
    char own[32];
    for (int k = s->nb_people + 1, free_name = 0; !name && !free_name; k++) {
        snprintf(own, sizeof(own), "person%03d", k);
        free_name = 1;
        for (int i = 0; i < s->nb_people; i++)
            free_name &= strcmp(s->person[i].name, own) != 0;
    }
    if (!more(&s->person, s->nb_people, sizeof(*s->person)))
        return TACHY_ERR_NOMEM;
    struct person *p = &s->person[s->nb_people];
    *p = (struct person){.name = strdup(name ? name : own), .mean = calloc((size_t)s->size, sizeof(float))};
    if (p->name && p->mean)
        return s->nb_people++;
    free(p->name);
    free(p->mean);
    return TACHY_ERR_NOMEM;
}

// A line: name, faces, then the numbers of the mean.
static int read_person(struct faces_store *s, char *line, const char *file, int number, const struct tachy_log *log)
{
    char *rest = strchr(line, ','), *end;
    if (!rest || rest == line || strchr(line, '/') || line[0] == '.')
        return tachy_fail(log, TACHY_ERR_FORMAT, "%s:%d: needed is a name that can be a folder's, a comma and numbers", file, number);
    *rest++ = '\0';
    int k = add_person(s, line);
    if (k < 0)
        return k;
    s->person[k].faces = strtoll(rest, &end, 10);
    for (int i = 0; i < s->size; i++) {
        if (*end != ',')
            return tachy_fail(log, TACHY_ERR_FORMAT, "%s:%d: %d numbers are needed after the faces; it is of another network", file,
                              number, s->size);
        s->person[k].mean[i] = strtof(end + 1, &end);
    }
    to_unit(s->person[k].mean, s->size);
    return TACHY_OK;
}

#define NAMES_HEAD "name,faces,embedding"

static int read_people(struct faces_store *s, const struct faces_params *p)
{
    char *data = NULL;
    size_t size;
    int number = 1;
    if (!p->names || access(p->names, F_OK) != 0)
        return TACHY_OK;
    int err = tachy_read_file(p->names, 256 << 20, &data, &size, p->log);
    for (char *line = data, *next; err == TACHY_OK && line && *line; line = next, number++) {
        size_t n = strcspn(line, "\r\n");
        next = line + n + strspn(line + n, "\r\n");
        line[n] = '\0';
        if (number == 1 && strcmp(line, NAMES_HEAD) != 0)
            err = tachy_fail(p->log, TACHY_ERR_FORMAT, "%s: is no file of --names-file: its first line is not \"%s\"", p->names, NAMES_HEAD);
        else if (number > 1 && *line)
            err = read_person(s, line, p->names, number, p->log);
    }
    tachy_free(data);
    return err;
}

static int write_people(const struct faces_store *s, const struct faces_params *p)
{
    struct tachy_text t = {0};
    tachy_text_add(&t, "%s\n", NAMES_HEAD);
    for (int i = 0; i < s->nb_people; i++) {
        tachy_text_add(&t, "%s,%lld", s->person[i].name, (long long)s->person[i].faces);
        for (int k = 0; k < s->size; k++) {
            tachy_text_char(&t, ',');
            tachy_text_number(&t, s->person[i].mean[k]);
        }
        tachy_text_char(&t, '\n');
    }
    int err = t.failed ? TACHY_ERR_NOMEM : tachy_write_file(p->names, t.p, t.len, p->log);
    tachy_text_free(&t);
    return err;
}

static const float *row(const struct faces_store *s, int32_t track) { return s->mean + (size_t)track * (size_t)s->size; }

// The nearest of the people from `first` to before `end`; -1: none is near enough.
static int known(const struct faces_store *s, const float *mean, int first, int end, double same)
{
    int best = -1;
    for (int i = first; i < end; i++) {
        double c = cosine(mean, s->person[i].mean, s->size);
        if (c >= same) {
            same = c;
            best = i;
        }
    }
    return best;
}

// The mean of the tracks with a label, of unit length; returns how many faces they have. `fresh`: only of those that the file of
// names does not have.
static int64_t mean_of(const struct faces_store *s, const int32_t *label, int32_t k, bool fresh, float *mean)
{
    int64_t faces = 0;
    memset(mean, 0, (size_t)s->size * sizeof(*mean));
    for (int32_t i = 0; i < s->nb_tracks; i++) {
        if (label[i] != k || (fresh && s->track[i]->learnt))
            continue;
        faces += s->track[i]->faces;
        for (int j = 0; j < s->size; j++)
            mean[j] += row(s, i)[j];
    }
    to_unit(mean, s->size);
    return faces;
}

// Updates a person's embedding with the faces of this run.
static void learn(struct faces_store *s, int person, const float *mean, int64_t faces)
{
    struct person *p = &s->person[person];
    if (!faces)
        return;
    s->changed = true;
    for (int j = 0; j < s->size; j++)
        p->mean[j] = (float)p->faces * p->mean[j] + (float)faces * mean[j];
    to_unit(p->mean, s->size);
    p->faces += faces;
}

// A cluster, or a track that is in none and long enough to be somebody, becomes a person, unless it is one already: known from
// before this run, or found in it, since many tracks of one person may be several dense places.
static int name_group(struct faces_store *s, int32_t *label, int32_t k, bool may_be_new, int people, const struct faces_params *p,
                      float *mean)
{
    int64_t faces = mean_of(s, label, k, false, mean);
    int person = known(s, mean, 0, people, p->same);
    bool old = person >= 0; // in the file of names
    if (person < 0)
        person = known(s, mean, people, s->nb_people, p->join);
    if (person < 0 && (may_be_new || faces >= 10 * p->cluster.least))
        person = add_person(s, NULL);
    else if (person < 0)
        return TACHY_OK;
    if (person < 0)
        return person;
    for (int32_t i = 0; i < s->nb_tracks; i++)
        if (label[i] == k)
            s->track[i]->person = person;
    learn(s, person, mean, old ? mean_of(s, label, k, true, mean) : faces);
    return TACHY_OK;
}

static int find_people(struct faces_store *s, const struct faces_params *p)
{
    int32_t *label = malloc(((size_t)s->nb_tracks + 1) * sizeof(*label)), clusters = 0;
    float *mean = malloc(((size_t)s->size + 1) * sizeof(*mean));
    int people = s->nb_people, err = label && mean ? TACHY_OK : TACHY_ERR_NOMEM;
    for (int32_t i = 0; i < s->nb_tracks; i++)
        to_unit(s->mean + (size_t)i * (size_t)s->size, s->size);
    if (err == TACHY_OK)
        err = tachy_cluster(s->mean, s->nb_tracks, s->size, &p->cluster, label);
    for (int32_t i = 0; i < s->nb_tracks && err == TACHY_OK; i++)
        clusters = TACHY_MAX(clusters, label[i] + 1);
    for (int32_t k = 0; k < clusters && err == TACHY_OK; k++)
        err = name_group(s, label, k, true, people, p, mean);
    for (int32_t i = 0; i < s->nb_tracks && err == TACHY_OK; i++)
        if (label[i] < 0) {
            label[i] = clusters + i;
            err = name_group(s, label, label[i], false, people, p, mean);
        }
    free(label);
    free(mean);
    return err;
}

// ---- Files

static const char *name_of(const struct faces_store *s, int32_t track)
{
    int32_t person = s->track[track]->person;
    return person < 0 ? "" : s->person[person].name;
}

static int write_list(const struct faces_store *s, const struct faces_params *p)
{
    struct tachy_text t = {0};
    char *file = tachy_asprintf("%s/faces.csv", p->people);
    tachy_text_add(&t, "person,input,frame,track,x,y,w,h,score\n");
    for (size_t i = 0; i < s->nb_seen; i++) {
        const struct seen *f = &s->seen[i];
        const struct face_track *k = s->track[f->track];
        tachy_text_cell(&t, name_of(s, f->track));
        tachy_text_char(&t, ',');
        tachy_text_cell(&t, s->input[k->input]);
        tachy_text_add(&t, ",%lld,%lld", (long long)f->frame, (long long)k->id);
        const double v[5] = {f->x, f->y, f->w, f->h, (double)f->score};
        for (int j = 0; j < 5; j++) {
            tachy_text_char(&t, ',');
            tachy_text_number(&t, (float)v[j]);
        }
        tachy_text_char(&t, '\n');
    }
    int err = t.failed || !file ? TACHY_ERR_NOMEM : tachy_write_file(file, t.p, t.len, p->log);
    tachy_text_free(&t);
    tachy_free(file);
    return err;
}

static int copy_file(const char *from, const char *to, const struct tachy_log *log)
{
    char *data;
    size_t size;
    int err = tachy_read_file(from, (size_t)1 << 40, &data, &size, log);
    if (err == TACHY_OK)
        err = tachy_write_file(to, data, size, log);
    if (err == TACHY_OK)
        tachy_free(data);
    return err;
}

// Puts an input into a person's folder, once.
static int put_input(const struct faces_params *p, const char *folder, const char *input)
{
    const char *slash = strrchr(input, '/');
    struct stat st;
    char *to = tachy_asprintf("%s/%s", folder, slash ? slash + 1 : input);
    int err = to ? TACHY_OK : TACHY_ERR_NOMEM;
    if (err == TACHY_OK && stat(input, &st) == 0 && S_ISREG(st.st_mode) && access(to, F_OK) != 0) { // no camera, no address
        if (p->put == FACES_COPIES || link(input, to) < 0) // on another disk a link is not possible
            err = copy_file(input, to, p->log);
    }
    tachy_free(to);
    return err;
}

// The cell at *at, unquoted in place; *at: after the comma or the end of the line.
static char *read_cell(char **at)
{
    char *cell = *at, *from = cell, *to = cell;
    bool quoted = *from == '"';
    for (from += quoted; *from && (quoted || !strchr(",\n", *from)); from++) {
        if (quoted && *from == '"' && *++from != '"')
            break;
        *to++ = *from;
    }
    *at = from + (*from != '\0');
    *to = '\0';
    return cell;
}

// Takes an input out of a person's folder; without inputs the folder goes. Not if it is the last copy of it.
static void take_out(const struct faces_params *p, const char *person, const char *input)
{
    const char *slash = strrchr(input, '/');
    char *folder = tachy_asprintf("%s/%s", p->people, person);
    char *put = folder ? tachy_asprintf("%s/%s", folder, slash ? slash + 1 : input) : NULL;
    char *montage = folder ? tachy_asprintf("%s/montage.png", folder) : NULL;
    struct stat a, b;
    if (put && montage) {
        if (stat(input, &a) == 0 && stat(put, &b) == 0 && S_ISREG(b.st_mode) && a.st_size == b.st_size)
            unlink(put);
        unlink(montage);
        rmdir(folder);
    }
    tachy_free(folder);
    tachy_free(put);
    tachy_free(montage);
}

// Removes the folders of an earlier run, which faces.csv lists: their people may be others now.
static int remove_folders(const struct faces_params *p)
{
    char *file = tachy_asprintf("%s/faces.csv", p->people), *data = NULL, *at;
    const char *last_person = "", *last_input = "";
    size_t size;
    int err = !file ? TACHY_ERR_NOMEM : access(file, F_OK) == 0 ? tachy_read_file(file, (size_t)1 << 40, &data, &size, p->log) : TACHY_OK;
    at = data ? strchr(data, '\n') : NULL;
    while (at && *++at) {
        char *person = read_cell(&at), *input = read_cell(&at);
        at = strchr(at, '\n');
        if (*person && *person != '.' && !strchr(person, '/') && (strcmp(person, last_person) || strcmp(input, last_input)))
            take_out(p, person, input);
        last_person = person;
        last_input = input;
    }
    tachy_free(data);
    tachy_free(file);
    return err;
}

// A picture of the person's tracks, one crop each, at most 100.
static int write_montage(const struct faces_store *s, int person, const char *folder, const struct tachy_log *log)
{
    int32_t shown[100], n = 0;
    for (int32_t i = 0; i < s->nb_tracks && n < 100; i++)
        if (s->track[i]->person == person)
            shown[n++] = i;
    int columns = (int)ceil(sqrt(n)), rows = n ? (n + columns - 1) / columns : 0;
    char *file = tachy_asprintf("%s/montage.png", folder);
    tachy_frame *f = NULL;
    tachy_sink *sink = NULL;
    int err = !n ? TACHY_OK : !file ? TACHY_ERR_NOMEM
        : tachy_frame_new(&f, &(struct tachy_frame_params){.format = TACHY_PIX_RGB24, .width = columns * FACES_CROP, .height = rows * FACES_CROP});
    if (f) {
        uint8_t *data = tachy_frame_writable(f, 0);
        memset(data, 0, (size_t)f->stride[0] * (size_t)f->height);
        for (int i = 0; i < n; i++)
            for (int y = 0; y < FACES_CROP; y++)
                memcpy(data + ((ptrdiff_t)(i / columns) * FACES_CROP + y) * f->stride[0] + (ptrdiff_t)(i % columns) * FACES_CROP * 3,
                       s->track[shown[i]]->crop + (ptrdiff_t)y * FACES_CROP * 3, FACES_CROP * 3);
        struct tachy_video_info v = {.format = f->format, .width = f->width, .height = f->height, .time_base = {1, 25}, .fps = {25, 1},
                                     .still = true, .frames = 1, .stereo = TACHY_STEREO_MONO};
        err = tachy_sink_open(&sink, tachy_sink_params(.url = file, .overwrite = true, .log = log));
        if (err == TACHY_OK)
            err = tachy_sink_start(sink, &v);
        if (err == TACHY_OK)
            err = tachy_sink_write(sink, f, NULL);
        if (err == TACHY_OK)
            err = tachy_sink_finish(sink, false);
    }
    tachy_sink_close(&sink);
    tachy_frame_unref(&f);
    tachy_free(file);
    return err;
}

static int write_folder(const struct faces_store *s, int person, const struct faces_params *p)
{
    char *folder = tachy_asprintf("%s/%s", p->people, s->person[person].name);
    bool any = false;
    int err = folder ? TACHY_OK : TACHY_ERR_NOMEM;
    for (int32_t i = 0; i < s->nb_tracks && err == TACHY_OK; i++) {
        if (s->track[i]->person != person)
            continue;
        if (!any)
            err = tachy_make_folders(folder, p->log);
        any = true;
        if (err == TACHY_OK && p->put != FACES_LIST)
            err = put_input(p, folder, s->input[s->track[i]->input]);
    }
    if (err == TACHY_OK && any)
        err = write_montage(s, person, folder, p->log);
    tachy_free(folder);
    return err;
}

int faces_store_write(struct faces_store *s, const struct faces_params *p)
{
    if (!s->nb_tracks) {
        tachy_msg(p->log, TACHY_LOG_WARN, "faces: no face was found that is large, sharp and straight enough");
        return TACHY_OK;
    }
    int err = read_people(s, p);
    if (err == TACHY_OK)
        err = find_people(s, p);
    if (err == TACHY_OK && p->names && s->changed)
        err = write_people(s, p);
    if (err == TACHY_OK && p->people)
        err = tachy_make_folders(p->people, p->log);
    if (err == TACHY_OK && p->people)
        err = remove_folders(p);
    if (err == TACHY_OK && p->people)
        err = write_list(s, p);
    for (int i = 0; i < s->nb_people && err == TACHY_OK && p->people; i++)
        err = write_folder(s, i, p);
    tachy_msg(p->log, TACHY_LOG_INFO, "faces: %zu faces in %d tracks, %d people", s->nb_seen, s->nb_tracks, s->nb_people);
    return err;
}

int faces_store_labels(struct faces_store *s, const char ***label, size_t *nb)
{
    if (!(s->label = calloc(s->nb_seen + 1, sizeof(*s->label))))
        return TACHY_ERR_NOMEM;
    for (size_t i = 0; i < s->nb_seen; i++)
        s->label[i] = name_of(s, s->seen[i].track);
    *label = s->label;
    *nb = s->nb_seen;
    return TACHY_OK;
}
