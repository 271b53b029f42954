#include "stage/device_flight.h"

#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum {
    PARTS = 64,  // that may be on their way
    FRAMES = 24, // of a part
    MANY = 4,    // frames that are worth a look whether they can go back
    NAP_US = 20, // at first
    NAP_MOST_US = 500,
};

struct part {
    cuda_event end;
    tachy_frame *frames[FRAMES];
    int nb_frames;
};

struct device_flight {
    struct tachy_gpu *gpu; // reference
    const struct tachy_cu *cu;
    const struct tachy_log *log;
    cuda_stream stream;
    struct part next; // for the thread that adds; its frames go to the part that mark makes of it
    pthread_mutex_t lock; // guards the parts that are marked and not done
    struct part parts[PARTS];
    _Atomic uint64_t marked, done;
    _Atomic int held; // frames of parts that are marked and not known to be done
    _Atomic int err;
};

int device_flight_open(struct device_flight **out, struct tachy_gpu *g, cuda_stream stream,
                            const struct tachy_log *log)
{
    struct device_flight *f = *out = calloc(1, sizeof(*f));
    if (!f)
        return TACHY_ERR_NOMEM;
    f->gpu = tachy_gpu_ref(g);
    f->cu = g->device.cu;
    f->log = log;
    f->stream = stream;
    pthread_mutex_init(&f->lock, NULL);
    int err = TACHY_OK;
    for (int i = 0; i < PARTS && err == TACHY_OK; i++)
        err = tachy_cu_check(f->cu, f->cu->event_create(&f->parts[i].end, CUDA_EVENT_ORDERS), log, "an event");
    return err;
}

static void give_back(struct part *p)
{
    while (p->nb_frames)
        tachy_frame_unref(&p->frames[--p->nb_frames]);
}

void device_flight_close(struct device_flight **flight)
{
    struct device_flight *f = *flight;
    *flight = NULL;
    if (!f)
        return;
    bool in = tachy_device_enter(&f->gpu->device, NULL) == TACHY_OK;
    give_back(&f->next);
    for (int i = 0; i < PARTS; i++) {
        give_back(&f->parts[i]);
        if (in && f->parts[i].end)
            f->cu->event_destroy(f->parts[i].end);
    }
    if (in)
        tachy_device_leave(&f->gpu->device);
    pthread_mutex_destroy(&f->lock);
    tachy_gpu_unref(&f->gpu);
    free(f);
}

// The driver finds an event's context itself; a driver that does not is asked with the context current.
static int query(struct tachy_gpu *g, cuda_event e, const struct tachy_log *log, int *status)
{
    *status = g->device.cu->event_query(e);
    int err = *status == CUDA_INVALID_CONTEXT ? tachy_device_enter(&g->device, log) : TACHY_OK;
    if (err < 0 || *status != CUDA_INVALID_CONTEXT)
        return err;
    *status = g->device.cu->event_query(e);
    tachy_device_leave(&g->device);
    return TACHY_OK;
}

// True if part `number` is done. After a failure nothing runs any more.
static bool is_done(struct device_flight *f, uint64_t number)
{
    int status = CUDA_OK;
    int err = atomic_load(&f->err) ? TACHY_OK : query(f->gpu, f->parts[(number - 1) % PARTS].end, f->log, &status);
    if (err == TACHY_OK && status == CUDA_NOT_READY)
        return false;
    if (err == TACHY_OK)
        err = tachy_cu_check(f->cu, status, f->log, "work on the GPU");
    if (err < 0)
        atomic_store(&f->err, err);
    return true;
}

// Looks whether part `number` is done, and if it is not, which ones before it are; gives their frames back.
static void look(struct device_flight *f, uint64_t number)
{
    pthread_mutex_lock(&f->lock);
    uint64_t done = atomic_load(&f->done);
    if (done < number) {
        uint64_t to = is_done(f, number) ? number : done;
        while (to < number - 1 && to != number && is_done(f, to + 1))
            to++;
        for (; done < to; done++) {
            atomic_fetch_sub(&f->held, f->parts[done % PARTS].nb_frames);
            give_back(&f->parts[done % PARTS]);
        }
        atomic_store(&f->done, to);
    }
    pthread_mutex_unlock(&f->lock);
}

static void nap(long *us)
{
    nanosleep(&(struct timespec){.tv_nsec = *us * 1000}, NULL);
    *us = TACHY_MIN(*us * 2, (long)NAP_MOST_US);
}

int device_flight_wait(struct device_flight *f, uint64_t number)
{
    long us = NAP_US;
    if (atomic_load(&f->done) < number)
        look(f, number);
    while (atomic_load(&f->done) < number && !atomic_load(&f->err)) {
        nap(&us);
        look(f, number);
    }
    return atomic_load(&f->err);
}

int device_flight_mark(struct device_flight *f, uint64_t *number)
{
    uint64_t n = atomic_load(&f->marked) + 1;
    int err = n > PARTS ? device_flight_wait(f, n - PARTS) : TACHY_OK;
    struct part *p = &f->parts[(n - 1) % PARTS];
    if (err == TACHY_OK)
        err = tachy_cu_check(f->cu, f->cu->event_record(p->end, f->stream), f->log, "an event");
    if (err < 0) { // it has no end to look for
        f->cu->stream_wait(f->stream);
        give_back(&f->next);
        return err;
    }
    pthread_mutex_lock(&f->lock);
    memcpy(p->frames, f->next.frames, sizeof(p->frames));
    p->nb_frames = f->next.nb_frames;
    f->next.nb_frames = 0;
    atomic_fetch_add(&f->held, p->nb_frames);
    atomic_store(&f->marked, n);
    pthread_mutex_unlock(&f->lock);
    if (number)
        *number = n;
    else
        device_flight_tidy(f);
    return TACHY_OK;
}

void device_flight_tidy(struct device_flight *f)
{
    uint64_t n = atomic_load(&f->marked);
    if (n > 1 && atomic_load(&f->held) >= MANY)
        look(f, n - 1); // the last one cannot be done yet
}

int device_flight_follow(struct device_flight *f, uint64_t number, cuda_stream stream)
{
    if (atomic_load(&f->done) >= number)
        return TACHY_OK;
    // Should the event be another part's by now, this one is done.
    return tachy_cu_check(f->cu, f->cu->stream_wait_event(stream, f->parts[(number - 1) % PARTS].end, 0), f->log, "an event");
}

int device_flight_keep(struct device_flight *f, tachy_frame *frame)
{
    int err = f->next.nb_frames == FRAMES ? device_flight_mark(f, NULL) : TACHY_OK;
    if (err == TACHY_OK)
        f->next.frames[f->next.nb_frames++] = tachy_frame_ref(frame);
    return err;
}

int device_flight_kept(const struct device_flight *f) { return f->next.nb_frames; }

int device_event_wait(struct tachy_gpu *g, cuda_event e, const struct tachy_log *log)
{
    long us = NAP_US;
    int status, err;
    while ((err = query(g, e, log, &status)) == TACHY_OK && status == CUDA_NOT_READY)
        nap(&us);
    return err < 0 ? err : tachy_cu_check(g->device.cu, status, log, "work on the GPU");
}
