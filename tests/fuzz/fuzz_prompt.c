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

static void drop(void *to, const char *candidate)
{
    size_t *letters = to;
    *letters += strlen(candidate);
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

static void type(struct shell *s, const char *line)
{
    struct console *k = &s->console;
    int argc;
    char **argv;
    size_t letters = 0;
    const char *blank = strrchr(line, ' '), *word = blank ? blank + 1 : line;
    if (!strpbrk(word, "/*?[~"))
        complete(s, line, word, drop, &letters);
    if (console_split(line, &argc, &argv) != STATUS_OK)
        return;
    const struct command *c = argc ? console_find(shell_commands, argv[0]) : NULL;
    c = c || !argc ? c : console_find(console_commands, argv[0]);
    if (argc && means_verb(s, argc, argv) && stays_here(argc, argv))
        read_as_command_line(s, argc, argv);
    else if (c && strcmp(c->name, "hardware") && strcmp(c->name, "wait") && strcmp(c->name, "help"))
        c->run(k, argc, argv);
    free(argv);
}

static FILE *nowhere;
static tachy_control *control;

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
    struct cli c = {.log = message_log(NULL)};
    struct shell s = {.console = {.c = &c, .control = control, .out = nowhere}};
    struct console *k = &s.console;
    int in = open(fuzz_file(data, size), O_RDONLY | O_CLOEXEC);
    if (in < 0 || dup2(in, STDIN_FILENO) < 0 ||
        prompt_open(&k->prompt, &(struct prompt_params){.text = "tachy> ", .out = nowhere}) < 0)
        abort();
    close(in);
    while (!k->leave && (line = prompt_read(k->prompt)))
        type(&s, line);
    prompt_close(&k->prompt);
    tachy_free(k->mark);
    while (s.presets) {
        struct preset *next = s.presets->next;
        free(s.presets->value);
        free(s.presets);
        s.presets = next;
    }
    return 0;
}
