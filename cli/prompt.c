#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#if HAVE_LIBEDIT
#include <histedit.h>
#endif

// The thread that reads lines has the terminal: what others print waits in a queue until it
// gets there, above the line that is being edited. A pipe wakes it.

#define PROMPT "tachy> "
enum { HISTORY_LINES = 500, LINE_MAX_BYTES = 4096 };

struct note {
    struct note *next;
    FILE *f;
    char text[];
};

struct prompt {
    struct prompt_params params;
    bool terminal;
    char *line; // of the editor
    char pending[LINE_MAX_BYTES]; // read, but not yet a line
    char plain[LINE_MAX_BYTES + 1];
    size_t used;
    bool ended;
    pthread_mutex_t lock; // guards the queue
    struct note *first, **last;
#if HAVE_LIBEDIT
    EditLine *el;
    History *history;
    HistEvent event;
    char *file;
#endif
};

static int wake_pipe[2] = {-1, -1};
static atomic_bool interrupted, changed;
static struct sigaction old_int, old_winch;

void prompt_wake(void)
{
    int error = errno;
    if (wake_pipe[1] >= 0 && write(wake_pipe[1], "", 1) < 0) { /* full: it wakes anyway */
    }
    errno = error;
}

static void on_int(int sig)
{
    atomic_store(&interrupted, true);
    prompt_wake();
}

static void on_change(void)
{
    atomic_store(&changed, true);
    prompt_wake();
}

static void on_winch(int sig) { on_change(); }

bool prompt_edits(const struct prompt *p)
{
#if HAVE_LIBEDIT
    return p->el;
#else
    return false;
#endif
}

static void enqueue(void *user, FILE *f, const char *text)
{
    struct prompt *p = user;
    struct note *n = malloc(sizeof(*n) + strlen(text) + 1);
    if (!n)
        return;
    n->next = NULL;
    n->f = f;
    strcpy(n->text, text);
    pthread_mutex_lock(&p->lock);
    *p->last = n;
    p->last = &n->next;
    pthread_mutex_unlock(&p->lock);
    prompt_wake();
}

// Prints what waits; true if there was something.
static bool print_queue(struct prompt *p)
{
    pthread_mutex_lock(&p->lock);
    struct note *n = p->first;
    p->first = NULL;
    p->last = &p->first;
    pthread_mutex_unlock(&p->lock);
    bool any = n;
    if (any && p->terminal)
        fputs("\r\033[K", stderr);
    fflush(stderr);
    while (n) {
        struct note *next = n->next;
        fputs(n->text, n->f);
        fflush(n->f);
        free(n);
        n = next;
    }
    return any;
}

static void redraw(struct prompt *p)
{
#if HAVE_LIBEDIT
    if (p->el) {
        el_set(p->el, EL_REFRESH);
        return;
    }
#endif
    if (p->terminal) {
        fputs(PROMPT, stderr);
        fflush(stderr);
    }
}

static void after_change(struct prompt *p)
{
#if HAVE_LIBEDIT
    if (p->el) {
        el_set(p->el, EL_PREP_TERM, 1);
        el_resize(p->el);
    }
#endif
    redraw(p);
}

enum { INPUT_READY, INPUT_CLEAR, INPUT_CLOSED };

// Waits for input; prints what comes meanwhile.
static int wait_input(struct prompt *p)
{
    char drop[64];
    for (;;) {
        if (print_queue(p))
            redraw(p);
        if (p->params.idle && !p->params.idle(p->params.user))
            return INPUT_CLOSED;
        if (atomic_exchange(&interrupted, false))
            return INPUT_CLEAR;
        if (atomic_exchange(&changed, false))
            after_change(p);
        struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                               {.fd = wake_pipe[0], .events = POLLIN}};
        if (p->terminal && !terminal_is_ours())
            fds[0].fd = -1;
        if (poll(fds, 2, 200) < 0)
            continue; // a signal
        if (fds[1].revents)
            while (read(wake_pipe[0], drop, sizeof(drop)) == (ssize_t)sizeof(drop)) {
            }
        if (fds[0].revents)
            return INPUT_READY;
    }
}

bool prompt_wait(struct prompt *p, bool (*more)(void *user), void *user)
{
    char drop[64];
    atomic_store(&interrupted, false);
    while (more(user)) {
        print_queue(p);
        if (p->params.idle)
            p->params.idle(p->params.user);
        if (atomic_exchange(&interrupted, false))
            return false;
        struct pollfd fd = {.fd = wake_pipe[0], .events = POLLIN};
        if (poll(&fd, 1, 200) > 0)
            while (read(wake_pipe[0], drop, sizeof(drop)) == (ssize_t)sizeof(drop)) {
            }
    }
    print_queue(p);
    return true;
}

#if HAVE_LIBEDIT

static char *prompt_text(EditLine *el)
{
    static char text[] = PROMPT;
    return text;
}

// One character for the editor: 1, 0 at the end.
static int get_char(EditLine *el, wchar_t *out)
{
    void *user;
    char c;
    mbstate_t state = {0};
    el_get(el, EL_CLIENTDATA, &user);
    for (;;) {
        int ready = wait_input(user);
        if (ready == INPUT_CLOSED)
            return 0;
        if (ready == INPUT_CLEAR) {
            *out = 'U' & 0x1f; // the editor's own key that clears the line
            return 1;
        }
        ssize_t n = read(STDIN_FILENO, &c, 1);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return 0;
        size_t r = mbrtowc(out, &c, 1, &state);
        if (r == (size_t)-1)
            memset(&state, 0, sizeof(state)); // no character of this locale
        else if (r != (size_t)-2)
            return 1;
    }
}

enum { CANDIDATES = 256 };

struct candidates {
    const char *word;
    size_t n;
    char *list[CANDIDATES];
};

static void add_candidate(void *to, const char *candidate, const char *what)
{
    struct candidates *c = to;
    for (size_t i = 0; i < c->n; i++)
        if (!strcmp(c->list[i], candidate))
            return;
    if (c->n < CANDIDATES && !strncmp(candidate, c->word, strlen(c->word)) &&
        (c->list[c->n] = strdup(candidate)))
        c->n++;
}

static size_t common_prefix(const struct candidates *c)
{
    size_t n = c->n ? strlen(c->list[0]) : 0;
    for (size_t i = 1; i < c->n; i++) {
        size_t k = 0;
        while (k < n && c->list[i][k] == c->list[0][k])
            k++;
        n = k;
    }
    return n;
}

static void list_candidates(const struct candidates *c)
{
    size_t width = 0, at = 0, columns = (size_t)terminal_width(stderr);
    for (size_t i = 0; i < c->n; i++)
        width = strlen(c->list[i]) > width ? strlen(c->list[i]) : width;
    fputc('\n', stderr);
    for (size_t i = 0; i < c->n; i++) {
        bool last = i + 1 == c->n || at + 2 * (width + 2) > columns;
        fprintf(stderr, "%-*s%s", last ? 0 : (int)width + 2, c->list[i], last ? "\n" : "");
        at = last ? 0 : at + width + 2;
    }
    fflush(stderr);
}

static unsigned char complete(EditLine *el, int ch)
{
    void *user;
    el_get(el, EL_CLIENTDATA, &user);
    struct prompt *p = user;
    const LineInfo *li = el_line(el);
    char line[1024];
    snprintf(line, sizeof(line), "%.*s", (int)(li->cursor - li->buffer), li->buffer);
    const char *blank = strrchr(line, ' ');
    struct candidates c = {.word = blank ? blank + 1 : line};
    size_t typed = strlen(c.word);
    p->params.complete(p->params.user, line, c.word, add_candidate, &c);
    size_t n = common_prefix(&c);
    unsigned char result = CC_ERROR;
    if (n > typed || c.n == 1) {
        size_t len = c.n ? strlen(c.list[0]) : 0;
        bool whole = c.n == 1 && len && c.list[0][len - 1] != '/';
        char add[1024];
        snprintf(add, sizeof(add), "%.*s%s", (int)(n - typed), c.list[0] + typed, whole ? " " : "");
        result = el_insertstr(el, add) < 0 ? CC_ERROR : CC_REFRESH;
    } else if (c.n > 1) {
        list_candidates(&c);
        result = CC_REDISPLAY;
    }
    for (size_t i = 0; i < c.n; i++)
        free(c.list[i]);
    return result;
}

// $XDG_STATE_HOME/tachy/history; NULL: no home.
static char *history_file(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char name[4096];
    int n = 0;
    if (state && state[0] == '/')
        n = snprintf(name, sizeof(name), "%s", state);
    else if (home && home[0])
        n = snprintf(name, sizeof(name), "%s/.local/state", home);
    if (n <= 0 || (size_t)n + 16 > sizeof(name))
        return NULL;
    strcat(name, "/tachy/");
    for (char *slash = strchr(name + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(name, 0700); // what cannot be made is found out when writing
        *slash = '/';
    }
    return strdup(strcat(name, "history"));
}

static int open_editor(struct prompt *p)
{
    setlocale(LC_CTYPE, "");
    p->el = el_init("tachy", stdin, stderr, stderr);
    if (!p->el)
        return TACHY_ERR_NOMEM;
    el_set(p->el, EL_CLIENTDATA, p);
    el_set(p->el, EL_PROMPT, prompt_text);
    el_set(p->el, EL_EDITOR, "emacs");
    el_set(p->el, EL_GETCFN, get_char);
    el_set(p->el, EL_ADDFN, "tachy-complete", "complete", complete);
    el_set(p->el, EL_BIND, "^I", "tachy-complete", NULL);
    el_set(p->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    p->history = history_init();
    if (!p->history)
        return TACHY_ERR_NOMEM;
    history(p->history, &p->event, H_SETSIZE, HISTORY_LINES);
    history(p->history, &p->event, H_SETUNIQUE, 1);
    el_set(p->el, EL_HIST, history, p->history);
    p->file = history_file();
    if (p->file)
        history(p->history, &p->event, H_LOAD, p->file);
    return TACHY_OK;
}

static const char *edit_line(struct prompt *p)
{
    int n = 0;
    el_set(p->el, EL_PREP_TERM, 1); // el_gets shows the prompt first: a Ctrl-D typed then was lost
    const char *text = el_gets(p->el, &n);
    if (!text || n <= 0) {
        fputc('\n', stderr);
        return NULL;
    }
    char *line = strndup(text, strcspn(text, "\r\n"));
    free(p->line);
    p->line = line;
    if (!line) {
        message_failed(TACHY_ERR_NOMEM);
        return "";
    }
    if (line[strspn(line, " \t")])
        history(p->history, &p->event, H_ENTER, line);
    return line;
}

static void close_editor(struct prompt *p)
{
    if (p->history && p->file)
        history(p->history, &p->event, H_SAVE, p->file); // 0600
    if (p->history)
        history_end(p->history);
    if (p->el)
        el_end(p->el);
    free(p->file);
}

#endif

// Without an editor: whole lines of what is read.
static const char *plain_line(struct prompt *p)
{
    if (p->terminal)
        redraw(p);
    for (;;) {
        char *end = memchr(p->pending, '\n', p->used);
        size_t n = end ? (size_t)(end - p->pending) : p->used;
        if (end || (p->ended && n) || n == sizeof(p->pending)) {
            *(char *)mempcpy(p->plain, p->pending, n) = '\0';
            n += end != NULL;
            memmove(p->pending, p->pending + n, p->used -= n);
            return p->plain;
        }
        int ready = p->ended ? INPUT_CLOSED : wait_input(p);
        if (ready == INPUT_CLOSED)
            return NULL;
        if (ready == INPUT_CLEAR) {
            redraw(p);
            continue;
        }
        ssize_t got = read(STDIN_FILENO, p->pending + p->used, sizeof(p->pending) - p->used);
        if (got > 0)
            p->used += (size_t)got;
        else if (got == 0 || (errno != EINTR && errno != EAGAIN))
            p->ended = true;
    }
}

static int open_wake(void)
{
    if (pipe(wake_pipe) < 0) {
        message_error("the prompt has no more file descriptors: %s", strerror(errno));
        return TACHY_ERR_AGAIN;
    }
    for (int i = 0; i < 2; i++) {
        fcntl(wake_pipe[i], F_SETFL, O_NONBLOCK);
        fcntl(wake_pipe[i], F_SETFD, FD_CLOEXEC);
    }
    return TACHY_OK;
}

int prompt_open(struct prompt **out, const struct prompt_params *params)
{
    struct prompt *p = *out = calloc(1, sizeof(*p));
    int err = p ? open_wake() : TACHY_ERR_NOMEM;
    if (err < 0) {
        free(p);
        *out = NULL;
        return err;
    }
    p->params = *params;
    p->last = &p->first;
    pthread_mutex_init(&p->lock, NULL);
    p->terminal = isatty(STDERR_FILENO) && terminal_guard(on_change);
#if HAVE_LIBEDIT
    err = p->terminal ? open_editor(p) : TACHY_OK;
#endif
    if (err < 0) {
        prompt_close(out);
        return err;
    }
    if (params->catch_int)
        sigaction(SIGINT, &(struct sigaction){.sa_handler = on_int}, &old_int);
    sigaction(SIGWINCH, &(struct sigaction){.sa_handler = on_winch}, &old_winch);
    message_hook(enqueue, p);
    return TACHY_OK;
}

const char *prompt_read(struct prompt *p)
{
#if HAVE_LIBEDIT
    if (p->el)
        return edit_line(p);
#endif
    return plain_line(p);
}

void prompt_close(struct prompt **pp)
{
    struct prompt *p = *pp;
    *pp = NULL;
    if (!p)
        return;
    message_hook(NULL, NULL);
    print_queue(p);
#if HAVE_LIBEDIT
    close_editor(p);
#endif
    if (p->params.catch_int)
        sigaction(SIGINT, &old_int, NULL);
    sigaction(SIGWINCH, &old_winch, NULL);
    terminal_release();
    int fd[2] = {wake_pipe[0], wake_pipe[1]};
    wake_pipe[0] = wake_pipe[1] = -1;
    close(fd[0]);
    close(fd[1]);
    pthread_mutex_destroy(&p->lock);
    free(p->line);
    free(p);
}
