#include "cli.h"

#include <glob.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tachy/gpu.h>
#include <time.h>

// Commands that act on a run while it goes on, typed at a prompt.

static bool runs(struct console *k)
{
    return k->for_run || tachy_control_state(k->control) != TACHY_RUN_IDLE;
}

static int no_run(void) { return message_usage("no run goes on"); }

// The GPUs' sensors; free with tachy_free(). NULL: a sandbox keeps the driver away, or no memory.
static char *gpus_now(const struct cli *c)
{
    char *text = NULL;
    if (c->settings && !tachy_settings_bool(c->settings, "run.sandbox"))
        tachy_gpu_now_text(&text);
    return text;
}

char *console_stats(const struct cli *c, tachy_control *control)
{
    struct tachy_snapshot s;
    char *summary = NULL, *all = NULL, *gpus = NULL, queues[96], now[128] = "";
    if (tachy_control_snapshot(control, &s) < 0 || tachy_summary_text(&summary, &s.summary) < 0)
        return NULL;
    snprintf(queues, sizeof(queues), ", %lld of at most %lld frames in flight (%.0f MiB)\n",
             (long long)s.queues.in_flight, (long long)s.queues.capacity, (double)s.queues.bytes / (1 << 20));
    const char *what = !s.totals.runs              ? ", it has not begun\n"
                       : s.state == TACHY_RUN_IDLE ? "; the last run:\n"
                                                   : queues;
    const struct tachy_latency *l = &s.summary.latency;
    if (s.state != TACHY_RUN_IDLE) {
        gpus = gpus_now(c);
        snprintf(now, sizeof(now), "From read to written: p50 %.1f, p95 %.1f, p99 %.1f ms; memory now %.0f MiB\n", l->p50_ms, l->p95_ms,
                 l->p99_ms, (double)s.resident_memory / (1 << 20));
    }
    int n = asprintf(&all, "%s%s%s%s%s", tachy_run_state_name(s.state), what, s.totals.runs ? summary : "", now, gpus ? gpus : "");
    tachy_free(summary);
    tachy_free(gpus);
    return n < 0 ? NULL : all;
}

static int do_stats(struct console *k, int argc, char **argv)
{
    char *text = console_stats(k->c, k->control);
    if (!text)
        return message_failed(TACHY_ERR_NOMEM);
    fputs(text, k->out);
    free(text);
    return STATUS_OK;
}

static int do_hardware(struct console *k, int argc, char **argv)
{
    char *json, *text = NULL;
    int err = tachy_doctor(&json, &k->c->log);
    if (err == TACHY_OK)
        err = tachy_doctor_text(&text, json);
    fputs(text ? text : "", k->out);
    tachy_free(text);
    tachy_free(json);
    return err < 0 ? message_failed(err) : STATUS_OK;
}

static int do_config(struct console *k, int argc, char **argv)
{
    bool all = argc > 1 && !strcmp(argv[1], "all");
    if (argc > 1 && !all)
        return message_usage("config prints what was set, `config all` everything");
    const char *text = all ? k->config_all : k->config;
    if (!text)
        return no_run();
    fputs(text, k->out);
    return STATUS_OK;
}

static int do_set(struct console *k, int argc, char **argv)
{
    char *why;
    if (argc != 3)
        return message_usage("write set NAME VALUE, as in set batch_size 8");
    int err = tachy_control_set(k->control, argv[1], argv[2], &why);
    if (err < 0)
        message_error("%s", why ? why : tachy_err_text(err));
    else
        fprintf(k->out, "%s is %s from now on\n", tachy_option_lookup(argv[1], NULL)->path, argv[2]);
    tachy_free(why);
    return err < 0 ? message_failed(err) : STATUS_OK;
}

static int do_pause(struct console *k, int argc, char **argv)
{
    if (!runs(k))
        return no_run();
    tachy_control_pause(k->control);
    fputs("paused; resume goes on\n", k->out);
    return STATUS_OK;
}

static int do_resume(struct console *k, int argc, char **argv)
{
    tachy_control_resume(k->control);
    return STATUS_OK;
}

static int do_drain(struct console *k, int argc, char **argv)
{
    if (!runs(k))
        return no_run();
    if (tachy_control_state(k->control) == TACHY_RUN_IDLE)
        k->drain = true; // its model is still being opened: console_idle() does it
    else
        tachy_control_drain(k->control);
    fputs("reads no more; what is in flight is written\n", k->out);
    return STATUS_OK;
}

// "10s", "10", "0.5", "2m".
static double seconds_of(const char *text)
{
    char *end;
    double v = strtod(text, &end);
    if (!strcmp(end, "m"))
        return v * 60;
    return end == text || (*end && strcmp(end, "s")) ? -1 : v;
}

static int do_profile(struct console *k, int argc, char **argv)
{
    double s = argc > 1 ? seconds_of(argv[1]) : 10;
    if (!(s >= 0.1 && s <= 86400) || argc > 2)
        return message_usage("write profile 10s: the time to look at, 0.1 s to a day");
    if (!runs(k))
        return no_run();
    tachy_free(k->mark);
    int err = tachy_control_mark(k->control, &k->mark);
    if (err < 0)
        return message_failed(err);
    k->until = now_s() + s;
    fprintf(k->out, "the table comes in %g s\n", s);
    return STATUS_OK;
}

static int do_help(struct console *k, int argc, char **argv)
{
    console_help(k);
    return STATUS_OK;
}

static int do_quit(struct console *k, int argc, char **argv)
{
    k->leave = true;
    return STATUS_OK;
}

static const struct command commands[] = {
    {"stats", "", "figures of the run so far", do_stats},
    {"hardware", "", "what this machine has, as tachy doctor prints it", do_hardware},
    {"config", "[all]", "settings of the run and where each comes from", do_config},
    {"set", "NAME VALUE", "change a setting, where that is possible during a run", do_set},
    {"pause", "", "read no frame until resume", do_pause},
    {"resume", "", "go on", do_resume},
    {"drain", "", "end the file here, as if the input had ended", do_drain},
    {"profile", "[TIME]", "a table of the steps over the next 10s, or TIME", do_profile},
    {"help", "", "this list", do_help},
    {"quit", "", "end; the file of a run is finished and whole", do_quit},
    {"exit", "", "as quit", do_quit},
    {0},
};

static const struct command *find(const struct command *table, const char *name)
{
    while (table && table->name && strcmp(table->name, name))
        table++;
    return table && table->name ? table : NULL;
}

static void print_commands(struct console *k, const struct command *table, const struct command *but)
{
    for (; table && table->name; table++) {
        char left[40];
        snprintf(left, sizeof(left), "%s %s", table->name, table->args);
        if (!find(but, table->name))
            fprintf(k->out, "  %-18s %s\n", left, table->what);
    }
}

void console_help(struct console *k)
{
    print_commands(k, k->own, NULL);
    print_commands(k, commands, k->own);
}

// The table of `profile`.
static void print_window(FILE *f, const struct tachy_summary *s)
{
    double all = 0;
    for (int i = 0; i < s->nb_steps; i++)
        all += s->steps[i].busy_s;
    fprintf(f, "the last %.1f s: %lld frames, %.1f fps, %.0f %% of %d cores busy\n",
            s->seconds, (long long)s->frames, s->fps, 100 * s->utilisation, s->cores);
    fprintf(f, "  %-12s %8s %9s %9s %8s %8s %8s %7s\n", "step", "calls", "busy s", "wait s",
            "p50 ms", "p95 ms", "p99 ms", "share");
    for (int i = 0; i < s->nb_steps; i++) {
        const struct tachy_step_stats *st = &s->steps[i];
        if (st->calls)
            fprintf(f, "  %-12s %8lld %9.3f %9.3f %8.3f %8.3f %8.3f %5.1f %%\n", st->name, (long long)st->calls,
                    st->busy_s, st->wait_s, st->p50_ms, st->p95_ms, st->p99_ms, all > 0 ? 100 * st->busy_s / all : 0);
    }
    fprintf(f, "latency p50 %.2f, p95 %.2f, p99 %.2f ms\n", s->latency.p50_ms, s->latency.p95_ms,
            s->latency.p99_ms);
}

void console_idle(struct console *k)
{
    struct tachy_summary s;
    char *text = NULL;
    size_t size;
    if (k->drain && tachy_control_state(k->control) != TACHY_RUN_IDLE) {
        k->drain = false;
        tachy_control_drain(k->control);
    }
    if (!k->mark || (now_s() < k->until && runs(k)))
        return;
    FILE *f = open_memstream(&text, &size);
    if (f && tachy_control_since(k->control, k->mark, &s) == TACHY_OK)
        print_window(f, &s);
    if (f)
        fclose(f);
    if (text)
        message_text(k->out, text);
    free(text);
    tachy_free(k->mark);
    k->mark = NULL;
}

// ---- Completion ----

static void add_commands(const struct command *table, add_word *add, void *to)
{
    for (; table && table->name; table++)
        add(to, table->name, table->what);
}

static void add_settings(add_word *add, void *to)
{
    for (const struct tachy_option *o = tachy_options(); o->path; o++)
        if (!o->command_only && !o->planned && o->type != TACHY_OPT_LIST)
            add(to, o->path, o->help);
}

static void add_files(const char *word, add_word *add, void *to)
{
    char pattern[4096];
    glob_t g;
    snprintf(pattern, sizeof(pattern), "%s*", word);
    if (glob(pattern, GLOB_MARK, NULL, &g))
        return;
    for (size_t i = 0; i < g.gl_pathc; i++)
        add(to, g.gl_pathv[i], "");
    globfree(&g);
}

// The line's words, where it is one of tachy's commands.
static void add_of_verbs(const char *line, const char *word, add_word *add, void *to)
{
    const char *words[64];
    char copy[1024], *rest = copy;
    size_t n = 0;
    snprintf(copy, sizeof(copy), "%.*s", (int)(word - line), line);
    for (char *w; n + 1 < sizeof(words) / sizeof(words[0]) && (w = strtok_r(rest, " \t", &rest));)
        words[n++] = w;
    words[n++] = word;
    if (complete_words(words, n, add, to))
        add_files(word, add, to);
}

void console_complete(void *console, const char *line, const char *word, add_word *add, void *to)
{
    struct console *k = console;
    if (!strncmp(line, "set ", 4)) {
        add_settings(add, to);
        return;
    }
    if (k->run_verb)
        add_of_verbs(line, word, add, to);
    if (word == line || !strncmp(line, "help ", 5)) {
        add_commands(k->own, add, to);
        add_commands(commands, add, to);
    } else if (!strncmp(line, "config ", 7)) {
        add(to, "all", "");
    }
}

// ---- Lines ----

// One word of a line, from *at; *at: behind it. False: a quote is not closed.
static bool take_word(const char **at, char **to)
{
    const char *p = *at;
    for (char quote = '\0'; *p; p++) {
        if (quote ? *p == quote : *p == '\'' || *p == '"') {
            quote = quote ? '\0' : *p;
        } else if (*p == '\\' && quote != '\'' && p[1]) {
            *(*to)++ = *++p;
        } else if (!quote && (*p == ' ' || *p == '\t')) {
            break;
        } else {
            *(*to)++ = *p;
        }
        if (quote && !p[1])
            return false;
    }
    *(*to)++ = '\0';
    *at = p;
    return true;
}

// Splits a line as a shell does, with quotes and backslashes. argv (ends with NULL) and its words are one piece of
// memory, to be freed. A usage status if a quote is not closed, else 0.
static int split(const char *line, int *argc, char ***argv)
{
    size_t n = strlen(line), most = n / 2 + 2; // words, and the NULL
    char **list = *argv = calloc(1, most * sizeof(*list) + n + 2);
    if (!list)
        return message_failed(TACHY_ERR_NOMEM);
    char *to = (char *)(list + most);
    *argc = 0;
    for (;;) {
        line += strspn(line, " \t");
        if (!*line || *line == '#')
            return STATUS_OK;
        list[(*argc)++] = to;
        if (!take_word(&line, &to)) {
            free(list);
            *argv = NULL;
            return message_usage("a quote is not closed");
        }
    }
}

static int unknown(const struct console *k, const char *name)
{
    enum { MOST = 128 };
    const char *names[MOST];
    const struct command *const tables[] = {k->own, commands};
    size_t n = 0;
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
        for (const struct command *c = tables[t]; c && c->name && n < MOST; c++)
            names[n++] = c->name;
    for (const struct verb *const *v = cli_verbs(); k->run_verb && *v && n < MOST; v++)
        names[n++] = (*v)->name;
    const char *near = tachy_nearest(name, names, n);
    return near ? message_usage("unknown command '%.60s'; did you mean %s?", name, near)
                : message_usage("unknown command '%.60s'; help lists them", name);
}

int console_line(struct console *k, const char *line)
{
    int argc = 0;
    char **argv;
    int status = split(line, &argc, &argv);
    if (status != STATUS_OK)
        return status;
    if (argc > 1 && !strcmp(argv[0], "tachy")) // as outside
        memmove(argv, argv + 1, (size_t)argc-- * sizeof(*argv));
    const char *name = argc ? argv[0] : "";
    if (argc && k->run_verb && k->run_verb(k, line, argc, argv, &status))
        return status;
    const struct command *c = find(k->own, name) ? find(k->own, name) : find(commands, name);
    if (c)
        status = c->run(k, argc, argv);
    else
        status = argc ? unknown(k, name) : k->last_status;
    fflush(k->out);
    free(argv);
    return status;
}

int console_open(struct console *k, bool catch_int, bool (*idle)(void *console))
{
    return prompt_open(&k->prompt, &(struct prompt_params){
                                       .catch_int = catch_int, .idle = idle, .complete = console_complete, .user = k});
}

// ---- Beside a run ----

struct work {
    struct console console; // first: `goes_on` gets a pointer to it
    int (*fn)(void *arg);
    void *arg;
    int result;
    atomic_bool done;
};

static void *work_main(void *arg)
{
    struct work *w = arg;
    w->result = w->fn(w->arg);
    atomic_store(&w->done, true);
    prompt_wake();
    return NULL;
}

static bool goes_on(void *user)
{
    struct work *w = user;
    console_idle(&w->console);
    return !atomic_load(&w->done);
}

int console_run(struct cli *c, int (*work)(void *arg), void *arg)
{
    struct message_slot slot = {0};
    struct work w = {.fn = work, .arg = arg};
    struct console *k = &w.console;
    *k = (struct console){.c = c, .control = c->control, .for_run = true};
    k->out = c->stdout_taken ? stderr : stdout;
    pthread_t thread;
    char *config, *all;
    tachy_settings_yaml(&config, c->settings, 0);
    tachy_settings_yaml(&all, c->settings, ~UINT64_C(0));
    k->config = config;
    k->config_all = all;
    message_log(&slot); // the run's errors and those of commands are kept apart
    int err = console_open(k, false, goes_on);
    if (err == TACHY_OK && pthread_create(&thread, NULL, work_main, &w))
        err = TACHY_ERR_AGAIN;
    if (err == TACHY_OK) {
        for (const char *line; !k->leave && (line = prompt_read(k->prompt));)
            console_line(k, line);
        if (k->leave)
            tachy_control_stop(k->control);
        prompt_wait(k->prompt, goes_on, &w);
        pthread_join(thread, NULL);
    }
    prompt_close(&k->prompt);
    message_log(NULL);
    tachy_free(k->mark);
    tachy_free(config);
    tachy_free(all);
    return err < 0 ? message_failed(err) : w.result;
}
