#include "cli.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

// A thread of its own waits for keys, so that they work while a frame takes long. It uses the
// control only and leaves the run's threads alone.

static struct {
    struct cli *c;
    pthread_t thread;
    int wake[2]; // closed at its writing end: the thread ends
    bool started;
    atomic_long batch; // 0: as the settings say
    atomic_bool mirrored;
} keys;

// The run moves portraits.
static bool animates(const struct cli *c)
{
    const char *const *images;
    return tachy_settings_list(c->settings, "animation.image", &images) > 0;
}

static void say_help(const struct cli *c)
{
    message_note(&c->log, "r report, p pause and go on, + and - larger and smaller batches, %s"
                               "q quit (the file is finished), ? this",
                 animates(c) ? "1 to 9 another portrait, c at rest now, m mirror, " : "");
}

static void report(const struct cli *c)
{
    char *text = console_stats(c->control);
    if (text)
        message_text(stderr, text);
    free(text);
}

static void toggle_pause(const struct cli *c)
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

// Whether it was taken; a refusal is logged.
static bool change(const struct cli *c, const char *name, const char *value)
{
    char *why;
    int err = tachy_control_set(c->control, name, value, &why);
    if (err < 0)
        message_note(&c->log, "%s", why ? why : "that cannot change");
    tachy_free(why);
    return err == TACHY_OK;
}

static void press_animation(const struct cli *c, char key)
{
    if (key == 'c') {
        if (change(c, "animation.recalibrate", "true"))
            message_note(&c->log, "the next frame with a face counts as at rest");
    } else if (key == 'm') {
        bool on = !atomic_load(&keys.mirrored);
        if (change(c, "animation.mirror", on ? "true" : "false")) {
            atomic_store(&keys.mirrored, on);
            message_note(&c->log, on ? "mirrored" : "not mirrored");
        }
    } else if (change(c, "animation.portrait", (const char[]){key, '\0'})) {
        message_note(&c->log, "portrait %c", key);
    }
}

static void change_batch(const struct cli *c, bool larger)
{
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

void keys_press(const struct cli *c, char key)
{
    switch (key) {
    case 'r':
        report(c);
        break;
    case 'p':
        toggle_pause(c);
        break;
    case '+':
    case '-':
        change_batch(c, key == '+');
        break;
    case 'q':
        message_note(&c->log, "finishing the file");
        tachy_control_stop(c->control);
        break;
    case '?':
    case 'h':
        say_help(c);
        break;
    case 'c':
    case 'm':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        if (animates(c))
            press_animation(c, key);
        break;
    default: // also what is left of an arrow key
        break;
    }
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
    atomic_store(&keys.mirrored, tachy_settings_bool(c->settings, "animation.mirror"));
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
