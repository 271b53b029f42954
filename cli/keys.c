#include "cli.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A separate thread waits for keys, so that they work even during a slow frame. It uses only the control and does
// not touch the run's threads.

static struct {
    struct cli *c;
    pthread_t thread;
    int wake[2]; // closed at its writing end: the thread ends
    bool started;
    atomic_long batch; // 0: as the settings say
} keys;

static void report(const struct cli *c, char key)
{
    char *text = console_stats(c, c->control);
    if (text)
        message_text(stderr, text);
    free(text);
}

static void toggle_pause(const struct cli *c, char key)
{
    enum tachy_run_state state = tachy_control_state(c->control);
    if (state == TACHY_RUN_PAUSED)
        tachy_control_resume(c->control);
    else if (state == TACHY_RUN_RUNNING)
        tachy_control_pause(c->control);
    else
        return;
    message_note(&c->log, state == TACHY_RUN_PAUSED ? "goes on" : "paused; p goes on");
}

// Returns true if the value was accepted; a refusal is logged.
static bool change(const struct cli *c, const char *name, const char *value)
{
    char *why;
    int err = tachy_control_set(c->control, name, value, &why);
    if (err < 0)
        message_note(&c->log, "%s", why ? why : "that cannot change");
    tachy_free(why);
    return err == TACHY_OK;
}

static void choose_portrait(const struct cli *c, char key)
{
    if (change(c, "animation.portrait", (const char[]){key, '\0'}))
        message_note(&c->log, "portrait %c", key);
}

static void recalibrate(const struct cli *c, char key)
{
    if (change(c, "animation.recalibrate", "true"))
        message_note(&c->log, "the next frame with a face counts as at rest");
}

// Settings that a key turns to the other of two values. [1]: `on`.
static struct flip {
    char key;
    const char *path, *value[2], *said[2];
    atomic_bool on;
} flips[] = {
    {'m', "animation.mirror", {"no", "yes"}, {"not mirrored", "mirrored"}, false},
    {'l', "animation.landmarks", {"no", "yes"}, {"landmarks are hidden", "landmarks are shown"}, false},
    {'b', "animation.backend", {"mesh", "neural"}, {"the mesh moves the portrait", "networks move the portrait"}, false},
};

static void flip(const struct cli *c, char key)
{
    struct flip *f = flips;
    while (f->key != key)
        f++;
    bool on = !atomic_load(&f->on);
    if (key == 'b' && !tachy_settings_str(c->settings, "animation.neural_card")) {
        message_note(&c->log, "there is only the mesh: --neural-card FILE names the networks that b changes to");
    } else if (change(c, f->path, f->value[on])) {
        atomic_store(&f->on, on);
        message_note(&c->log, "%s", f->said[on]);
    }
}

static void change_batch(const struct cli *c, char key)
{
    bool larger = key == '+';
    long now = atomic_load(&keys.batch), n;
    char text[24];
    now = now ? now : (long)tachy_settings_int(c->settings, "model.batch_size");
    n = larger ? now * 2 : now / 2;
    if (n < 1 || n > 256) {
        message_note(&c->log, "batches have 1 to 256 pictures; it stays at %ld", now);
        return;
    }
    snprintf(text, sizeof(text), "%ld", n);
    if (!change(c, "model.batch_size", text))
        return;
    atomic_store(&keys.batch, n);
    message_note(&c->log, "batches of %ld", n);
}

static void quit(const struct cli *c, char key)
{
    message_note(&c->log, "finishing the file");
    tachy_control_stop(c->control);
}

static void say_keys(const struct cli *c, char key);

// No row has a character of an arrow key's sequence, so arrow keys do nothing.
static const struct key {
    const char *keys; // that do it
    const char *name, *what;
    bool animates; // only for `animate`
    void (*press)(const struct cli *c, char key);
} table[] = {
    {"r", "r", "report", false, report},
    {"p", "p", "pause and go on", false, toggle_pause},
    {"+-", "+ and -", "larger and smaller batches", false, change_batch},
    {"123456789", "1 to 9", "another portrait", true, choose_portrait},
    {"c", "c", "at rest now", true, recalibrate},
    {"m", "m", "mirror", true, flip},
    {"l", "l", "landmarks", true, flip},
    {"b", "b", "backend: mesh or networks", true, flip},
    {"q", "q", "quit (the file is finished)", false, quit},
    {"?h", "?", "this list", false, say_keys},
};

static bool has_key(const struct verb *v, const struct key *k) { return !k->animates || !strcmp(v->name, "animate"); }

static const struct verb *verb_of(const struct cli *c) { return c->inner ? c->inner : c->verb; }

static void say_keys(const struct cli *c, char key)
{
    char text[512] = "";
    for (size_t i = 0, n = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (has_key(verb_of(c), &table[i]))
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s %s", n ? ", " : "", table[i].name, table[i].what);
    message_note(&c->log, "%s", text);
}

void keys_help(FILE *f, const struct verb *v)
{
    fputs("\nKeys during a run, on a terminal and in a window:\n", f);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (has_key(v, &table[i]))
            fprintf(f, "  %-10s %s\n", table[i].name, table[i].what);
}

void keys_press(const struct cli *c, char key)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (key && strchr(table[i].keys, key) && has_key(verb_of(c), &table[i]))
            table[i].press(c, key);
}

static void *keys_main(void *arg)
{
    for (;;) {
        bool ours = terminal_is_ours(); // reading from the background would stop the process
        struct pollfd fds[] = {{.fd = keys.wake[0], .events = POLLIN},
                               {.fd = ours ? STDIN_FILENO : -1, .events = POLLIN}};
        char text[64];
        if (poll(fds, 2, 300) < 0)
            continue; // a signal
        if (fds[0].revents)
            return NULL;
        if (!fds[1].revents)
            continue;
        ssize_t n = read(STDIN_FILENO, text, sizeof(text));
        if (n == 0 || (n < 0 && (fds[1].revents & (POLLHUP | POLLERR))))
            return NULL; // the terminal is gone
        if (n > 0 && text[0] == '\033')
            continue; // an arrow or function key
        for (ssize_t i = 0; i < n; i++)
            keys_press(keys.c, text[i]);
    }
}

void keys_start(struct cli *c)
{
    keys.c = c;
    atomic_store(&keys.batch, 0);
    for (size_t i = 0; i < sizeof(flips) / sizeof(flips[0]); i++)
        atomic_store(&flips[i].on, tachy_settings_float(c->settings, flips[i].path) != 0);
    if (!tachy_settings_bool(c->settings, "run.keys") || c->in_shell || !isatty(STDERR_FILENO) ||
        c->log.max_level < TACHY_LOG_INFO || !c->control || pipe(keys.wake) < 0)
        return;
    keys.started = terminal_guard(NULL);
    if (keys.started && pthread_create(&keys.thread, NULL, keys_main, NULL)) {
        terminal_release();
        keys.started = false;
    }
    if (keys.started) {
        terminal_keys();
        return;
    }
    close(keys.wake[0]);
    close(keys.wake[1]);
}

void keys_stop(void)
{
    if (!keys.started)
        return;
    close(keys.wake[1]);
    pthread_join(keys.thread, NULL);
    close(keys.wake[0]);
    terminal_release();
    keys.started = false;
}
