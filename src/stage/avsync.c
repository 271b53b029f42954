#include "base/output_options.h"
#include "base/path.h"
#include "postprocess/text.h"
#include "stage/lips.h"
#include "stage/stages.h"
#include "stage/track.h"
#include "sync/sync.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tachy/sink.h>
#include <tachy/source.h>

// Compares the mouths that track has found with the sound (sync/sync.h), as lines of text: one per window, and a summary after the
// last frame. Either their opening is compared, or two networks look (stage/lips.h). A stage that sees the next frame knows that
// this one is not the last.

enum { WINDOW = 10 * TACHY_SYNC_RATE, HOP = TACHY_SYNC_RATE, LEAST = TACHY_SYNC_RATE };

static const struct tachy_option options[] = {
    {"avsync.fix", "fix", 0, TACHY_OPT_STRING, .arg = "FILE|FOLDER/", .group = "Sound", .at_end = true,
     .help = "write the input here with its sound in sync, copied without encoding; a folder for several inputs"},
    {"avsync.confidence", "sync-conf", 0, TACHY_OPT_FLOAT, "1", .max = 1000, .group = "Sound",
     .help = "confidence from which someone counts as speaking, and from which --fix shifts the sound"},
    {"avsync.network", "sync-network", 0, TACHY_OPT_STRING, .arg = "CARD", .group = "Sound",
     .help = "card of two networks that compare lips and sound, such as SyncNet (docs/avsync.md)"},
    {"avsync.frames", "sync-frames", 0, TACHY_OPT_INT, "15", .min = 1, .max = TACHY_LIPS_LAGS, .group = "Sound",
     .help = "with --sync-network: how far the sound may be off, in pictures of 25 per second"},
    {"processing.audio_chunk_size", NULL, 0, TACHY_OPT_INT, .min = 1, .max = INT32_MAX, .group = "Sound",
     .help = "samples of sound, 16000 per second, that are decoded at once; default: as many as a packet holds"},
    {0},
};

struct verdict {
    char *input;
    struct tachy_sync_peak peak;
};

struct form;
struct avsync {
    const struct form *form;
    struct lips_params lips;
    bool json, csv;
    double tick, least; // seconds; confidence
    double from;        // where reading starts, seconds
    int chunk;          // samples of sound that are decoded at once; 0: a packet
    char *fix;
    bool overwrite;
    struct tachy_heard heard; // of the input that runs
    pthread_mutex_t lock; // guards the rest
    struct verdict *verdict; // of each input
    int nb;
};

// A face, of a stream.
struct face {
    int track;
    struct tachy_mouth *mouth; // since the beginning of the window
    int nb, room;
    int64_t windows; // that it was seen in
    double sum[TACHY_SYNC_CURVE];
    struct lips_face lips;
};

struct state {
    struct lips *lips; // NULL: openings are compared
    bool begun;
    struct face *face;
    int nb_faces;
    int first;        // number of the window's first value
    int64_t windows;  // that anybody was seen in
    double start;     // seconds, of the first frame
    double sum[TACHY_SYNC_CURVE]; // of each window's best face
};

struct texts {
    struct tachy_text json, csv;
};

// Whether a face speaks, and how well its mouth fits the sound.
struct match {
    const struct face *face; // NULL: none was seen
    struct tachy_sync_peak peak;
    double from, to; // seconds
    bool summary;
};

// How mouths and sound are compared.
struct form {
    const char *fit; // key of how well they fit
    const char *columns;
    int (*see)(struct state *s, struct face *f, const tachy_frame *in, const struct tachy_region *r, double from, double to);
    int (*window)(const struct avsync *a, struct state *s, int n, struct match *m); // in the n values from s->first on
    void (*all)(const struct state *s, double end, struct match *m);
    void (*forget)(const struct state *s, struct face *f); // what lies before the next window
};
static const struct form openings, networks;

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct avsync *a = tachy_stage_priv(st);
    unsigned kinds = tachy_output_kinds(s);
    const char *fix = tachy_settings_str(s, "avsync.fix");
    track_of(st);
    pthread_mutex_init(&a->lock, NULL);
    a->json = kinds & 1u << TACHY_TEXT_JSON;
    a->csv = kinds & 1u << TACHY_TEXT_CSV;
    a->least = tachy_settings_float(s, "avsync.confidence");
    a->from = tachy_settings_float(s, "input.start");
    a->chunk = tachy_settings_is_set(s, "processing.audio_chunk_size") ? (int)tachy_settings_int(s, "processing.audio_chunk_size") : 0;
    a->overwrite = tachy_settings_bool(s, "output.overwrite");
    a->fix = fix ? strdup(fix) : NULL;
    st->ahead = 1;
    int err = fix && !a->fix ? TACHY_ERR_NOMEM : lips_read(&a->lips, st, s);
    a->form = a->lips.family.name ? &networks : &openings;
    if (a->form == &networks)
        st->flags |= TACHY_STAGE_READS | TACHY_STAGE_MODEL;
    return err;
}

static void close(struct tachy_stage *st)
{
    struct avsync *a = tachy_stage_priv(st);
    for (int i = 0; i < a->nb; i++)
        free(a->verdict[i].input);
    free(a->verdict);
    free(a->fix);
    tachy_heard_close(&a->heard);
    lips_free(&a->lips);
    pthread_mutex_destroy(&a->lock);
}

// The whole sound, which a source of its own reads.
static int listen(struct avsync *a, tachy_source *source)
{
    tachy_frame *f;
    int err;
    while ((err = tachy_source_read(source, &f)) == TACHY_OK) {
        err = a->form == &networks ? lips_hear(&a->lips, f->data[0]) : tachy_heard_add(&a->heard, f->data[0]);
        tachy_frame_unref(&f);
        if (err < 0)
            return err;
    }
    return err == TACHY_ERR_EOF ? tachy_heard_end(&a->heard) : err;
}

static int hear(struct tachy_stage *st)
{
    struct avsync *a = tachy_stage_priv(st);
    const char *input = st->task->input;
    struct stat file;
    tachy_source *source = NULL;
    tachy_heard_close(&a->heard);
    a->lips.nb = 0;
    if (!input || stat(tachy_path_local(input), &file) < 0 || !S_ISREG(file.st_mode))
        return tachy_fail(st->task->log, TACHY_ERR_UNSUPPORTED, "avsync: %s is no file, and its sound is read besides its pictures; save "
                          "it to a file first", input ? input : "the input");
    int err = tachy_source_open(&source, tachy_source_params(.url = input, .sound = a->form == &networks ? 2 : 1,
                                                             .start = a->from, .sound_chunk = a->chunk, .rate = {TACHY_SYNC_RATE, 1},
                                                             .log = st->task->log));
    if (err == TACHY_OK)
        err = listen(a, source);
    tachy_source_close(&source);
    return err;
}

// The file that --fix writes for an input; NULL: no memory.
static char *fixed_name(const struct avsync *a, const char *input)
{
    struct stat dir;
    const char *slash = strrchr(input, '/');
    bool folder = a->fix[strlen(a->fix) - 1] == '/' || (stat(a->fix, &dir) == 0 && S_ISDIR(dir.st_mode));
    return folder ? tachy_asprintf("%s/%s", a->fix, slash ? slash + 1 : input) : tachy_asprintf("%s", a->fix);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct avsync *a = tachy_stage_priv(st);
    a->tick = (double)video->time_base.num / video->time_base.den;
    a->lips.rotation = video->rotation;
    a->lips.flip = video->flipped;
    char *fixed = a->fix && *a->fix && st->task->input ? fixed_name(a, st->task->input) : NULL;
    bool folder = fixed && a->fix[strlen(a->fix) - 1] == '/';
    int err = folder ? tachy_make_folders(a->fix, st->task->log) : TACHY_OK;
    if (err == TACHY_OK && fixed)
        err = tachy_check_free(fixed, a->overwrite, "--fix FILE", st->task->log);
    tachy_free(fixed);
    return err < 0 ? err : hear(st);
}

// ---- The state of a stream

static int state_open(struct tachy_stage *st, void **state)
{
    const struct avsync *a = tachy_stage_priv(st);
    struct state *s = *state = calloc(1, sizeof(struct state));
    int err = !s ? TACHY_ERR_NOMEM : a->form == &networks ? lips_open(&s->lips, &a->lips) : TACHY_OK;
    if (err < 0) {
        free(s);
        *state = NULL;
    }
    return err;
}

static void state_close(void *state)
{
    struct state *s = state;
    for (int i = 0; s && i < s->nb_faces; i++) {
        free(s->face[i].mouth);
        lips_face_close(&s->face[i].lips);
    }
    if (s) {
        lips_close(&s->lips);
        free(s->face);
    }
    free(s);
}

static struct face *face_of(struct state *s, int track)
{
    for (int i = 0; i < s->nb_faces; i++)
        if (s->face[i].track == track)
            return &s->face[i];
    struct face *grown = realloc(s->face, ((size_t)s->nb_faces + 1) * sizeof(*grown));
    if (!grown)
        return NULL;
    s->face = grown;
    grown[s->nb_faces] = (struct face){.track = track};
    return &grown[s->nb_faces++];
}

static double between(const struct tachy_point *p, int a, int b)
{
    double x = (double)p[a].x - (double)p[b].x, y = (double)p[a].y - (double)p[b].y, z = (double)p[a].z - (double)p[b].z;
    return sqrt(x * x + y * y + z * z);
}

// The mean of three gaps of the lips over the distance of the eyes' outer corners.
static float opening(const struct tachy_point *p)
{
    double eyes = between(p, 33, 263);
    double gap = (between(p, 13, 14) + between(p, 82, 87) + between(p, 312, 317)) / 3;
    return eyes > 0 ? (float)(gap / eyes) : 0;
}

static int see_opening(struct state *s, struct face *f, const tachy_frame *in, const struct tachy_region *r, double from, double to)
{
    double time = (from + to) / 2; // the middle of when it is shown
    if (f->nb == f->room) {
        int room = TACHY_MAX(512, 2 * f->room);
        struct tachy_mouth *grown = realloc(f->mouth, (size_t)room * sizeof(*grown));
        if (!grown)
            return TACHY_ERR_NOMEM;
        f->mouth = grown;
        f->room = room;
    }
    if (!f->nb || f->mouth[f->nb - 1].time < time)
        f->mouth[f->nb++] = (struct tachy_mouth){time, opening(r->points)};
    return TACHY_OK;
}

// A frame before the next window is needed as well.
static void forget_openings(const struct state *s, struct face *f)
{
    double from = (double)s->first / TACHY_SYNC_RATE - 1;
    int old = 0;
    while (old < f->nb && f->mouth[old].time < from)
        old++;
    f->nb -= old;
    memmove(f->mouth, f->mouth + old, (size_t)f->nb * sizeof(*f->mouth));
}

static int see_lips(struct state *s, struct face *f, const tachy_frame *in, const struct tachy_region *r, double from, double to)
{
    return lips_see(s->lips, &f->lips, in, r, from, to);
}

static void forget_lips(const struct state *s, struct face *f) { lips_forget(&f->lips, s->first); }

// ---- Windows

// True if no face was taken yet, or if this one fits better than that of `m`: then it is taken.
static bool take_best(struct match *m, const struct face *f, struct tachy_sync_peak peak)
{
    if (m->face && !(peak.confidence > m->peak.confidence))
        return false;
    m->face = f;
    m->peak = peak;
    return true;
}

// The face whose mouth fits best in the n values from s->first on.
static int match_openings(const struct avsync *a, struct state *s, int n, struct match *m)
{
    float mouth[WINDOW];
    double curve[TACHY_SYNC_CURVE], best[TACHY_SYNC_CURVE] = {0};
    bool seen;
    *m = (struct match){.from = (double)s->first / TACHY_SYNC_RATE, .to = (double)(s->first + n) / TACHY_SYNC_RATE};
    for (int i = 0; i < s->nb_faces; i++) {
        struct face *f = &s->face[i];
        int err = tachy_sync_mouth(f->mouth, f->nb, s->first, n, mouth, &seen);
        if (err < 0)
            return err;
        if (!seen)
            continue;
        tachy_sync_curve(&a->heard, mouth, s->first, n, curve);
        if (take_best(m, f, tachy_sync_peak(curve, (double)n / TACHY_SYNC_RATE)))
            memcpy(best, curve, sizeof(best));
        for (int k = 0; k < TACHY_SYNC_CURVE; k++)
            f->sum[k] += curve[k];
        f->windows++;
    }
    for (int k = 0; k < TACHY_SYNC_CURVE; k++)
        s->sum[k] += best[k];
    s->windows += m->face != NULL;
    return TACHY_OK;
}

// All windows together: the offset of their best faces' curves, and the face that fits best there.
static void match_all_openings(const struct state *s, double end, struct match *m)
{
    double mean[TACHY_SYNC_CURVE], best = -1;
    *m = (struct match){.from = s->start, .to = end, .summary = true};
    for (int k = 0; k < TACHY_SYNC_CURVE; k++)
        mean[k] = s->sum[k] / (double)TACHY_MAX(s->windows, 1);
    double seen = (double)(s->windows - 1) * HOP / TACHY_SYNC_RATE + (double)WINDOW / TACHY_SYNC_RATE;
    m->peak = tachy_sync_peak(mean, TACHY_MIN(end - s->start, seen));
    int at = TACHY_SYNC_LAGS + (int)lrint(m->peak.offset_ms * TACHY_SYNC_RATE / 1000);
    for (int i = 0; i < s->nb_faces; i++)
        if (s->face[i].windows && (!m->face || s->face[i].sum[at] > best)) {
            best = s->face[i].sum[at];
            m->face = &s->face[i];
        }
}

static int match_lips(const struct avsync *a, struct state *s, int n, struct match *m)
{
    struct tachy_sync_peak peak;
    *m = (struct match){.from = (double)s->first / TACHY_SYNC_RATE, .to = (double)(s->first + n) / TACHY_SYNC_RATE};
    for (int i = 0; i < s->nb_faces; i++)
        if (lips_window(s->lips, &s->face[i].lips, s->first, n, &peak))
            take_best(m, &s->face[i], peak);
    s->windows += m->face != NULL;
    return TACHY_OK;
}

static void match_all_lips(const struct state *s, double end, struct match *m)
{
    struct tachy_sync_peak peak;
    *m = (struct match){.from = s->start, .to = end, .summary = true};
    for (int i = 0; i < s->nb_faces; i++)
        if (lips_all(s->lips, &s->face[i].lips, &peak))
            take_best(m, &s->face[i], peak);
}

#define COLUMNS(fit) "kind,from,to,offset_ms," fit ",confidence,face,speaks\n"
static const struct form openings = {"correlation", COLUMNS("correlation"), see_opening, match_openings, match_all_openings,
                                     forget_openings};
static const struct form networks = {"distance", COLUMNS("distance"), see_lips, match_lips, match_all_lips, forget_lips};

// ---- Text

static void add_json(const struct avsync *a, struct tachy_text *t, const struct match *m, bool speaks, int64_t windows)
{
    tachy_text_add(t, "%s{\"kind\":\"%s\",\"from\":%.2f,\"to\":%.2f", t->len ? "\n" : "", m->summary ? "summary" : "window", m->from, m->to);
    if (m->face)
        tachy_text_add(t, ",\"offset_ms\":%.1f,\"%s\":%.4f,\"confidence\":%.3f,\"face\":%d", m->peak.offset_ms,
                       a->form->fit, m->peak.fit, m->peak.confidence, m->face->track);
    if (m->summary)
        tachy_text_add(t, ",\"windows\":%lld", (long long)windows);
    tachy_text_add(t, ",\"speaks\":%s}", speaks ? "true" : "false");
}

static void add_csv(struct tachy_text *t, const struct match *m, bool speaks)
{
    tachy_text_add(t, "%s,%.2f,%.2f,", m->summary ? "summary" : "window", m->from, m->to);
    if (m->face)
        tachy_text_add(t, "%.1f,%.4f,%.3f,%d,%d\n", m->peak.offset_ms, m->peak.fit, m->peak.confidence, m->face->track, speaks);
    else
        tachy_text_add(t, ",,,,0\n");
}

// The frame has the values of the last match that ends with it.
static void add_match(const struct avsync *a, struct tachy_item *item, struct texts *t, const struct state *s, const struct match *m)
{
    bool speaks = m->face && m->peak.confidence >= a->least;
    if (m->face) {
        tachy_item_set_value(item, "offset_ms", m->peak.offset_ms);
        tachy_item_set_value(item, "confidence", m->peak.confidence);
    }
    tachy_item_set_value(item, "speaks", speaks);
    if (a->json)
        add_json(a, &t->json, m, speaks, s->windows);
    if (a->csv)
        add_csv(&t->csv, m, speaks);
}

static void tell(struct tachy_stage *st, const struct match *m)
{
    const struct avsync *a = tachy_stage_priv(st);
    const char *input = st->task->input;
    double ms = m->peak.offset_ms;
    if (!m->face)
        tachy_msg(st->task->log, TACHY_LOG_WARN, "%s: no mouth is seen to move for a second or more beside sound; its offset is not known", input);
    else if (m->peak.confidence < a->least)
        tachy_msg(st->task->log, TACHY_LOG_WARN, "%s: no mouth moves as the sound says (best: %+.0f ms, confidence %.2f of %.1f); it may be "
                  "another's voice, or music", input, ms, m->peak.confidence, a->least);
    else if (fabs(ms) < 0.5)
        tachy_msg(st->task->log, TACHY_LOG_INFO, "%s: the sound is in time (confidence %.2f); face %d speaks", input, m->peak.confidence,
                  m->face->track);
    else
        tachy_msg(st->task->log, TACHY_LOG_INFO, "%s: the sound is %.0f ms %s (confidence %.2f); face %d speaks", input, fabs(ms),
                  ms < 0 ? "early" : "late", m->peak.confidence, m->face->track);
}

// ---- Frames

// Replaces what an earlier end of the same input left: a file with a gap has several.
static int keep_verdict(struct tachy_stage *st, const struct match *m)
{
    struct avsync *a = tachy_stage_priv(st);
    const char *input = st->task->input;
    int i = 0, err = TACHY_OK;
    pthread_mutex_lock(&a->lock);
    while (i < a->nb && strcmp(a->verdict[i].input, input))
        i++;
    struct verdict *grown = i < a->nb ? a->verdict : realloc(a->verdict, ((size_t)i + 1) * sizeof(*grown));
    if (grown)
        a->verdict = grown;
    char *name = grown && i == a->nb ? strdup(input) : NULL;
    if (!grown || (i == a->nb && !name))
        err = TACHY_ERR_NOMEM;
    else if (i == a->nb)
        grown[a->nb++].input = name;
    if (err == TACHY_OK)
        grown[i].peak = m->face ? m->peak : (struct tachy_sync_peak){0};
    pthread_mutex_unlock(&a->lock);
    return err;
}

static int end_stream(struct tachy_stage *st, struct state *s, struct tachy_item *item, struct texts *t, double end)
{
    const struct avsync *a = tachy_stage_priv(st);
    int n = (int)(end * TACHY_SYNC_RATE) - s->first, err = TACHY_OK;
    struct match m;
    if (!s->windows && n >= LEAST) {
        err = a->form->window(a, s, TACHY_MIN(n, WINDOW), &m);
        if (err == TACHY_OK)
            add_match(a, item, t, s, &m);
    }
    if (err < 0)
        return err;
    a->form->all(s, end, &m);
    add_match(a, item, t, s, &m);
    tell(st, &m);
    return keep_verdict(st, &m);
}

static void begin(struct state *s, double time, bool anew)
{
    if (!s->begun)
        s->start = time;
    if (!s->begun || anew) {
        for (int i = 0; i < s->nb_faces; i++) {
            s->face[i].nb = 0;
            s->face[i].lips.nb = s->face[i].lips.seen = 0;
        }
        s->first = (int)TACHY_CLAMP(time * TACHY_SYNC_RATE, 0, INT32_MAX / 2);
    }
    s->begun = true;
}

static int take(struct tachy_stage *st, struct state *s, struct tachy_item *item, struct texts *t, bool last)
{
    const struct avsync *a = tachy_stage_priv(st);
    const tachy_frame *head = tachy_item_head(item);
    double shown = TACHY_CLAMP((double)head->duration * a->tick, 0, 1);
    double from = (double)head->pts * a->tick, time = from + shown / 2;
    int err = TACHY_OK;
    struct match m;
    begin(s, from, item->anew);
    for (int i = 0; i < item->result.nb_regions && err == TACHY_OK; i++) {
        const struct tachy_region *r = &item->result.regions[i];
        struct face *f = r->nb_points >= TACHY_FACE_SKIN ? face_of(s, r->track) : NULL;
        if (r->nb_points >= TACHY_FACE_SKIN)
            err = f ? a->form->see(s, f, item->in, r, from, from + shown) : TACHY_ERR_NOMEM;
    }
    while (err == TACHY_OK && time * TACHY_SYNC_RATE >= s->first + WINDOW && time < 1e7) {
        err = a->form->window(a, s, WINDOW, &m);
        if (err == TACHY_OK)
            add_match(a, item, t, s, &m);
        s->first += HOP;
        for (int i = 0; i < s->nb_faces; i++)
            a->form->forget(s, &s->face[i]);
    }
    return err == TACHY_OK && last ? end_stream(st, s, item, t, time + shown / 2) : err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    const struct avsync *a = tachy_stage_priv(st);
    struct tachy_item *item = pieces[0].item;
    struct texts *t = tachy_stage_item(st, item);
    struct tachy_text *both[] = {&t->json, &t->csv};
    for (int i = 0; i < 2; i++) {
        both[i]->len = 0;
        both[i]->failed = false;
        tachy_text_add(both[i], "%s", "");
    }
    if (state)
        err[0] = take(st, state, item, t, n == 1);
    if (err[0] == TACHY_OK && (t->json.failed || t->csv.failed))
        err[0] = TACHY_ERR_NOMEM;
    item->result.json = a->json ? t->json.p : NULL;
    item->result.csv = a->csv ? t->csv.p : NULL;
    item->result.csv_columns = a->csv ? a->form->columns : NULL;
}

static void item_close(void *item)
{
    struct texts *t = item;
    tachy_text_free(&t->json);
    tachy_text_free(&t->csv);
}

// ---- --fix

static int fix_one(const struct avsync *a, const struct verdict *v, const struct tachy_log *log)
{
    if (v->peak.confidence < a->least) {
        tachy_msg(log, TACHY_LOG_WARN, "%s: is not fixed, as its offset is not sure", v->input);
        return TACHY_OK;
    }
    char *to = fixed_name(a, v->input);
    if (to && a->nb > 1 && !strcmp(to, a->fix)) {
        tachy_free(to);
        return tachy_fail(log, TACHY_ERR_INVAL, "--fix %s: is one file for %d inputs; name a folder, with / at its end", a->fix, a->nb);
    }
    int err = to ? tachy_shift_sound(v->input, to, -v->peak.offset_ms, a->overwrite, log) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        tachy_msg(log, TACHY_LOG_INFO, "%s: sound moved by %+.0f ms", to, -v->peak.offset_ms);
    tachy_free(to);
    return err;
}

static int finish(struct tachy_stage *st)
{
    const struct avsync *a = tachy_stage_priv(st);
    int err = TACHY_OK;
    for (int i = 0; i < a->nb && a->fix && *a->fix && !st->task->cut && err == TACHY_OK; i++)
        err = fix_one(a, &a->verdict[i], st->task->log);
    return err;
}

const struct tachy_stage_ops tachy_stage_avsync = {
    .name = "avsync",
    .flags = TACHY_STAGE_ORDERED,
    .options = options,
    .priv_size = sizeof(struct avsync),
    .item_size = sizeof(struct texts),
    .open = open,
    .close = close,
    .start = start,
    .finish = finish,
    .run = run,
    .state_open = state_open,
    .state_close = state_close,
    .item_close = item_close,
};
