// libFuzzer target: any bytes typed at the prompt of tachy shell. Lines are split and completed, commands
// that only look or set are carried out, and what would be a run is read as a command line.
#include "fuzz.h"

#include "../../cli/cmd_shell.c"

#include <fcntl.h>

// Without the machine's files and devices: no name leads out of the folder, which is empty.
static bool stays_here(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strpbrk(argv[i], "/*?[~"))
            return false;
    return true;
}

static void drop(void *to, const char *candidate, const char *what)
{
    size_t *letters = to;
    *letters += strlen(candidate) + strlen(what);
}

static void read_as_command_line(struct shell *s, int argc, char **argv)
{
    static char name[] = "tachy";
    char **list = calloc((size_t)argc + 2, sizeof(*list));
    if (!list)
        return;
    list[0] = name;
    memcpy(list + 1, argv, (size_t)argc * sizeof(*list));
    struct cli c = {.log = message_log(NULL), .in_shell = true};
    // Help and versions are the same each time and take long.
    bool asks = false;
    for (int i = 0; i < argc; i++)
        asks = asks || strstr(argv[i], "-h") || strstr(argv[i], "-V") || strstr(argv[i], "version");
    if (!asks && cli_parse(&c, argc + 1, list) < 0 && refuse(&c) == STATUS_OK)
        apply_presets(s->presets, &c);
    cli_free(&c);
    free(list);
}

// In the place of run_verb(): no job is begun. Waiting for runs, the machine's hardware and help are left out.
static bool read_verb(struct console *k, const char *line, int argc, char **argv, int *status)
{
    bool verb = means_verb(shell_of(k), argc, argv);
    if (verb && stays_here(argc, argv))
        read_as_command_line(shell_of(k), argc, argv);
    if (!verb && strcmp(argv[0], "hardware") && strcmp(argv[0], "wait") && strcmp(argv[0], "help"))
        return false;
    *status = STATUS_OK;
    free(argv);
    return true;
}

static void type(struct console *k, const char *line)
{
    size_t letters = 0;
    const char *blank = strrchr(line, ' '), *word = blank ? blank + 1 : line;
    if (!strpbrk(word, "/*?[~"))
        console_complete(k, line, word, drop, &letters);
    console_line(k, line);
}

static FILE *nowhere;
static tachy_control *control;
static tachy_settings *presets; // none is set

static void start_once(void)
{
    nowhere = fopen("/dev/null", "w");
    if (!nowhere || chdir(fuzz_folder()) < 0 || tachy_control_open(&control, tachy_control_params()) < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *line;
    if (!nowhere)
        start_once();
    if (!presets && tachy_settings_new(&presets, NULL) < 0)
        abort();
    struct cli c = {.log = message_log(NULL)};
    struct shell s = {.console = {.c = &c, .control = control, .out = nowhere, .own = shell_commands, .run_verb = read_verb},
                      .presets = presets};
    struct console *k = &s.console;
    pthread_mutex_init(&s.lock, NULL);
    int in = open(fuzz_file(data, size), O_RDONLY | O_CLOEXEC);
    if (in < 0 || dup2(in, STDIN_FILENO) < 0 || prompt_open(&k->prompt, &(struct prompt_params){0}) < 0)
        abort();
    close(in);
    while (!k->leave && (line = prompt_read(k->prompt))) {
        if (strstr(line, "set"))
            presets = NULL; // they may change: the next input has new ones
        type(k, line);
    }
    prompt_close(&k->prompt);
    tachy_free(k->mark);
    pthread_mutex_destroy(&s.lock);
    if (!presets)
        tachy_settings_free(&s.presets);
    return 0;
}
