#include "profile/prof.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

// The scheduler's counts for a thread: time on a core, and time ready without one.

static bool read_schedstat(int tid, uint64_t *cpu_ns, uint64_t *queued_ns)
{
    char path[64];
    unsigned long long cpu = 0, queued = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", tid);
    FILE *f = fopen(path, "re");
    bool ok = f && fscanf(f, "%llu %llu", &cpu, &queued) == 2;
    if (f)
        fclose(f);
    *cpu_ns = cpu;
    *queued_ns = queued;
    return ok;
}

void tachy_prof_thread_start(struct tachy_prof *p)
{
    struct tachy_prof_thread *t = &p->thread;
    uint64_t cpu, queued;
    int tid = (int)syscall(SYS_gettid);
    if (atomic_load(&t->tid) || !read_schedstat(tid, &cpu, &queued))
        return; // begun before, or the system does not count
    atomic_store(&t->cpu_start, cpu);
    atomic_store(&t->queued_start, queued);
    atomic_store(&t->tid, tid);
}

static void update(struct tachy_prof_thread *t)
{
    uint64_t cpu, queued;
    int tid = atomic_load(&t->tid);
    if (tid <= 0 || !read_schedstat(tid, &cpu, &queued))
        return;
    atomic_store(&t->cpu_ns, cpu - atomic_load(&t->cpu_start));
    atomic_store(&t->queued_ns, queued - atomic_load(&t->queued_start));
}

void tachy_prof_thread_stop(struct tachy_prof *p)
{
    update(&p->thread);
    atomic_store(&p->thread.tid, -1);
}

void tachy_prof_thread_read(struct tachy_prof *p, double *cpu_s, double *queued_s)
{
    update(&p->thread);
    *cpu_s += (double)atomic_load(&p->thread.cpu_ns) * 1e-9;
    *queued_s += (double)atomic_load(&p->thread.queued_ns) * 1e-9;
}
