#include "stage/stage.h"

#include "profile/prof.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

// ---- The list ----

// The name under which its time is counted.
static const char *step_name(const struct tachy_stage *st) { return TACHY_DEF(st->ops->step, st->ops->name); }

static void close_stage(struct tachy_stage *st)
{
    if (st->ops->close)
        st->ops->close(st);
    free(st);
}

int tachy_stage_add(tachy_task *t, const struct tachy_stage_ops *ops, const tachy_settings *s)
{
    if (!TACHY_CHECK(t->log, t->nb_stages < TACHY_MAX_STAGES))
        return TACHY_ERR_INVAL;
    struct tachy_stage *st = calloc(1, sizeof(*st) + ops->priv_size);
    if (!st)
        return TACHY_ERR_NOMEM;
    st->ops = ops;
    st->task = t;
    st->flags = ops->flags;
    st->index = st->worker_of = st->item_of = t->nb_stages;
    int err = ops->open ? ops->open(st, s) : TACHY_OK;
    if (err != TACHY_OK) {
        close_stage(st);
        return err == TACHY_STAGE_LEFT_OUT ? TACHY_OK : err;
    }
    st->step = st->index; // until it is counted anywhere
    for (int i = st->index - 1; i >= 0; i--)
        st->step = strcmp(step_name(t->stage[i]), step_name(st)) ? st->step : t->stage[i]->step;
    t->stage[t->nb_stages++] = st;
    if (st->item_of == st->index) {
        st->item_at = t->item_size;
        t->item_size += TACHY_ALIGN(ops->item_size, _Alignof(max_align_t));
    } else {
        st->item_at = t->stage[st->item_of]->item_at;
    }
    return TACHY_OK;
}

void tachy_stages_close(tachy_task *t)
{
    while (t->nb_stages)
        close_stage(t->stage[--t->nb_stages]);
    for (int i = 0; t->reads && t->reads[i]; i++)
        free(t->reads[i]);
    free(t->reads);
    t->reads = NULL;
}

int tachy_stages_finish(tachy_task *t)
{
    int err = TACHY_OK;
    for (int i = 0; i < t->nb_stages && err == TACHY_OK; i++)
        err = t->stage[i]->ops->finish ? t->stage[i]->ops->finish(t->stage[i]) : TACHY_OK;
    return err;
}

int tachy_stages_start(tachy_task *t, const struct tachy_video_info *in, struct tachy_video_info *out)
{
    int err = TACHY_OK;
    t->in = *out = *in;
    for (int i = 0; i < t->nb_stages && err == TACHY_OK; i++) {
        struct tachy_stage *st = t->stage[i];
        err = st->ops->start ? st->ops->start(st, out) : TACHY_OK;
    }
    return err;
}

int tachy_stage_pool(const struct tachy_stage *st, tachy_frame_pool **pool, enum tachy_pix format, int width, int height)
{
    tachy_frame_pool_close(pool);
    int err = tachy_frame_pool_open(pool, format, width, height);
    if (err == TACHY_OK)
        tachy_frame_pool_account(*pool, st->task->memory);
    return err;
}

static int add_row(const struct tachy_stage *st, struct tachy_rows *steps, unsigned flags)
{
    const tachy_task *t = st->task;
    char name[TACHY_STEP_NAME];
    snprintf(name, sizeof(name), "%s%s%s", t->beside ? t->name : "", t->beside ? "." : "", step_name(st));
    return tachy_rows_add(steps, name, flags, st->ops->remedy);
}

void tachy_task_count(tachy_task *t, struct tachy_rows *steps)
{
    for (int i = 0; i < t->nb_stages; i++) {
        struct tachy_stage *st = t->stage[i];
        unsigned model = st->flags & TACHY_STAGE_MODEL ? TACHY_STEP_MODEL : 0;
        if (!tachy_stage_of_nobody(st))
            st->step = add_row(st, steps, model);
        if (st->flags & TACHY_STAGE_ORDERED)
            st->step = add_row(st, steps, model | TACHY_STEP_IN_ORDER);
    }
}

struct tachy_stage *tachy_stage_before(const struct tachy_stage *st, const char *name)
{
    int i = st->index - 1;
    while (i >= 0 && strcmp(st->task->stage[i]->ops->name, name))
        i--;
    return i < 0 ? NULL : st->task->stage[i];
}

int tachy_eye_regions(const struct tachy_video_info *video, struct tachy_rect region[TACHY_MAX_EYES])
{
    int w = video->width, h = video->height;
    region[0] = (struct tachy_rect){0, 0, w, h};
    if (video->stereo == TACHY_STEREO_SBS && w >= 2) {
        region[0].w = w / 2;
        region[1] = (struct tachy_rect){w / 2, 0, w - w / 2, h};
        return 2;
    }
    if (video->stereo == TACHY_STEREO_TB && h >= 2) {
        region[0].h = h / 2;
        region[1] = (struct tachy_rect){0, h / 2, w, h - h / 2};
        return 2;
    }
    return 1;
}

int tachy_task_reads(tachy_task *t, const char *file)
{
    int n = 0;
    while (t->reads && t->reads[n])
        n++;
    char **more = realloc(t->reads, ((size_t)n + 2) * sizeof(*more));
    if (!more)
        return TACHY_ERR_NOMEM;
    t->reads = more;
    more[n] = strdup(file);
    more[n + 1] = NULL;
    return more[n] ? TACHY_OK : TACHY_ERR_NOMEM;
}

void tachy_task_describe(tachy_task *t, const char *format, ...)
{
    size_t n = strlen(t->describe);
    va_list args;
    va_start(args, format);
    vsnprintf(t->describe + n, sizeof(t->describe) - n, format, args);
    va_end(args);
}

size_t tachy_task_item_bytes(const tachy_task *t)
{
    size_t n = 0;
    for (int i = 0; i < t->nb_stages; i++)
        n += t->stage[i]->item_bytes;
    return n;
}

bool tachy_task_flag(const tachy_task *t, int first, unsigned flag)
{
    for (int i = first; i < t->nb_stages; i++)
        if (t->stage[i]->flags & flag)
            return true;
    return false;
}

struct tachy_stage *tachy_task_copies(const tachy_task *t)
{
    for (int i = 0; i < t->nb_stages; i++)
        if (t->stage[i]->ops->copy)
            return t->stage[i];
    return NULL;
}

int tachy_task_gpus(const tachy_task *t, struct tachy_gpu_share share[TACHY_MAX_GPUS])
{
    for (int i = 0; i < t->nb_gpus; i++)
        share[i] = (struct tachy_gpu_share){.gpu = t->gpu[i].ordinal,
                                            .frames = atomic_load(&t->gpu[i].regions) / TACHY_MAX(t->eyes, 1)};
    return t->nb_gpus;
}

static int turn(struct tachy_stage_dial *d, double value, char **why)
{
    if (d->why && value > d->most) {
        *why = tachy_asprintf(" to more than the %g that %s", d->most, d->why);
        return TACHY_ERR_UNSUPPORTED;
    }
    atomic_store(&d->value, value);
    atomic_fetch_add(&d->asked, value != 0);
    return TACHY_OK;
}

int tachy_task_set(tachy_task *t, const char *path, double value, char **why)
{
    for (int i = 0; i < t->nb_stages; i++)
        for (int k = 0; k < t->stage[i]->nb_dials; k++)
            if (!strcmp(t->stage[i]->dials[k].path, path))
                return turn(&t->stage[i]->dials[k], value, why);
    return TACHY_ERR_UNSUPPORTED;
}

// ---- States ----

int tachy_state_save(const void *state, size_t bytes, void **data, size_t *size)
{
    *size = bytes;
    *data = malloc(bytes);
    if (!*data)
        return TACHY_ERR_NOMEM;
    memcpy(*data, state, bytes);
    return TACHY_OK;
}

int tachy_state_load(void *state, size_t bytes, const void *data, size_t size)
{
    if (size != bytes)
        return TACHY_ERR_FORMAT;
    memcpy(state, data, bytes);
    return TACHY_OK;
}

int tachy_stage_state_open(struct tachy_stage *st, void **state)
{
    *state = NULL;
    if (!st->ops->state_size)
        return st->ops->state_open ? st->ops->state_open(st, state) : TACHY_OK;
    *state = calloc(1, st->ops->state_size);
    return *state ? TACHY_OK : TACHY_ERR_NOMEM;
}

void tachy_stage_state_close(const struct tachy_stage *st, void *state)
{
    if (st->ops->state_size)
        free(state);
    else if (state)
        st->ops->state_close(state);
}

bool tachy_stage_state_saves(const struct tachy_stage *st) { return st->ops->state_size || st->ops->state_save; }

int tachy_stage_state_save(const struct tachy_stage *st, const void *state, void **data, size_t *size)
{
    const struct tachy_stage_ops *ops = st->ops;
    return ops->state_size ? tachy_state_save(state, ops->state_size, data, size) : ops->state_save(state, data, size);
}

int tachy_stage_state_load(const struct tachy_stage *st, void *state, const void *data, size_t size)
{
    const struct tachy_stage_ops *ops = st->ops;
    if (!ops->state_size)
        return ops->state_load(state, data, size);
    int err = tachy_state_load(state, ops->state_size, data, size);
    return err < 0 || !ops->state_load ? err : ops->state_load(state, state, size);
}

// ---- Workers and items ----

void tachy_task_worker_close(const tachy_task *t, void *worker[TACHY_MAX_STAGES])
{
    for (int i = t->nb_stages - 1; i >= 0; i--) {
        if (worker[i])
            t->stage[i]->ops->worker_close(worker[i]);
        worker[i] = NULL;
    }
}

int tachy_task_worker_open(tachy_task *t, void *worker[TACHY_MAX_STAGES])
{
    int err = TACHY_OK;
    memset(worker, 0, TACHY_MAX_STAGES * sizeof(*worker));
    for (int i = 0; i < t->nb_stages && err == TACHY_OK; i++) {
        struct tachy_stage *st = t->stage[i];
        if (st->ops->worker_open && st->worker_of == i)
            err = st->ops->worker_open(st, 0, &worker[i]);
    }
    if (err < 0)
        tachy_task_worker_close(t, worker);
    return err;
}

void tachy_task_item_close(const tachy_task *t, void *priv)
{
    for (int i = 0; priv && i < t->nb_stages; i++)
        if (t->stage[i]->ops->item_close)
            t->stage[i]->ops->item_close((char *)priv + t->stage[i]->item_at);
}

int tachy_task_sync(const tachy_task *t, struct tachy_item *item)
{
    int err = TACHY_OK;
    for (int i = 0; item->pending && i < t->nb_stages; i++) {
        int one = t->stage[i]->ops->sync ? t->stage[i]->ops->sync(t->stage[i], item) : TACHY_OK;
        err = err < 0 ? err : one;
    }
    item->pending = false;
    return err;
}

// ---- A pass ----

static bool takes_part(const struct tachy_stage_pass *p, int i, bool regions, int region)
{
    const struct tachy_item *item = p->items[i];
    return p->err[i] == TACHY_OK &&
           (!regions || (region < tachy_item_regions(item, p->task->eyes) && !(item->reuse >> region & 1)));
}

// Runs a stage on those of the items `of` that have not failed.
static void run_stage(struct tachy_stage_pass *p, struct tachy_stage *st, int region, const int of[], int n)
{
    struct tachy_piece pieces[TACHY_STAGE_ITEMS];
    int at[TACHY_STAGE_ITEMS], err[TACHY_STAGE_ITEMS], m = 0;
    for (int i = 0; i < n; i++) {
        if (p->err[of[i]] < 0)
            continue;
        if (p->at)
            p->at[of[i]] = st;
        at[m] = of[i];
        err[m] = TACHY_OK;
        pieces[m++] = (struct tachy_piece){p->items[of[i]], region};
    }
    int later = TACHY_MIN(st->ahead, p->nb_later);
    for (int i = 0; i < later; i++)
        pieces[m + i] = (struct tachy_piece){p->later[i], region};
    if (m)
        st->ops->run(st, tachy_stage_worker(st, p->worker), p->state ? p->state[st->worker_of] : NULL, pieces, m + later, err);
    for (int i = 0; i < m; i++)
        p->err[at[i]] = err[i];
}

// Stages first .. end - 1, whose time is counted as one.
static void run_step(struct tachy_stage_pass *p, int first, int end, int region, bool regions)
{
    int of[TACHY_STAGE_ITEMS], n = 0;
    for (int i = 0; i < p->n; i++)
        if (takes_part(p, i, regions, region))
            of[n++] = i;
    if (!n)
        return;
    tachy_step_begin(step_name(p->task->stage[first]));
    for (int i = first; i < end; i++)
        run_stage(p, p->task->stage[i], region, of, n);
    tachy_step_end();
    if (p->ran)
        p->ran(p, p->task->stage[first], of, n);
}

static void run_region(struct tachy_stage_pass *p, int first, int end, int region, bool regions)
{
    for (int i = first, next; i < end; i = next) {
        for (next = i + 1; next < end && p->task->stage[next]->step == p->task->stage[i]->step;)
            next++;
        run_step(p, i, next, region, regions);
    }
    if (regions && p->region_done)
        p->region_done(p, region);
}

static int most_regions(const struct tachy_stage_pass *p)
{
    int most = 0;
    for (int i = 0; i < p->n; i++)
        most = TACHY_MAX(most, tachy_item_regions(p->items[i], p->task->eyes));
    return most;
}

void tachy_stage_pass(struct tachy_stage_pass *p, int first, int end)
{
    for (int i = first, next; i < end; i = next) {
        bool regions = p->task->stage[i]->flags & TACHY_STAGE_REGIONS;
        for (next = i + 1; next < end && !(p->task->stage[next]->flags & TACHY_STAGE_REGIONS) == !regions;)
            next++;
        for (int region = 0, most = regions ? most_regions(p) : 1; region < most; region++)
            run_region(p, i, next, region, regions);
    }
}
