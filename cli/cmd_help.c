#include "cli.h"

#include <string.h>

enum { LEFT = 27, WIDEST = 100 }; // columns of the option names; of the whole text

static int help_width(FILE *f)
{
    int w = terminal_width(f);
    return w > WIDEST ? WIDEST : w;
}

// Paragraphs, each wrapped.
static void print_paragraphs(FILE *f, const char *text, int width)
{
    char part[1024];
    while (text && *text) {
        const char *end = strstr(text, "\n\n");
        size_t n = end ? (size_t)(end - text) : strlen(text);
        snprintf(part, sizeof(part), "%.*s", (int)n, text);
        text_wrap(f, part, 0, 0, width);
        fputs("\n\n", f);
        text = end ? end + 2 : NULL;
    }
}

static void print_option(FILE *f, const struct tachy_option *o, int width)
{
    char left[128], right[512];
    option_left(o, left, sizeof(left));
    option_right(o, right, sizeof(right));
    int at = fprintf(f, "  %s", left);
    if (at + 1 >= LEFT) {
        fputc('\n', f);
        at = 0;
    }
    text_wrap(f, right, at, LEFT, width);
    fputc('\n', f);
}

static void print_options(FILE *f, uint64_t verbs, int width)
{
    const char *group = NULL;
    for (const struct tachy_option *o = tachy_options(); o->path; o++) {
        if (!(o->verbs & verbs) || !has_name(o))
            continue;
        if (!group || strcmp(group, o->group))
            fprintf(f, "%s%s:\n", group ? "\n" : "", o->group);
        group = o->group;
        print_option(f, o, width);
    }
}

void help_verb(FILE *f, const struct verb *v)
{
    int width = help_width(f);
    fprintf(f, "Usage: tachy %s %s\n\n", v->name, v->usage);
    print_paragraphs(f, v->details, width);
    print_options(f, v->options, width);
    if (v->examples)
        fputs("\nExamples:\n", f);
    for (const struct tachy_example *e = v->examples; e && e->command; e++)
        fprintf(f, "  %s\n      %s\n", e->command, e->what);
    if (runs_task(v))
        keys_help(f, v);
    if (runs_task(v))
        fputs("\nEvery option takes one dash or two; --no-NAME turns a yes-or-no option off. All "
              "of\nthem can stand in a file (-c FILE), with more that have no name here: "
              "docs/config.md.\n",
              f);
}

enum { VERBS_AT = 18 }; // column of the verbs' summaries

const struct tachy_example exit_statuses[] = {
    {"0", "done"},
    {"1", "failed; one sentence on standard error says why"},
    {"2", "an option or a configuration file is wrong; nothing was done"},
    {"75", "failed for now (a full disk, no memory): the same command may succeed later"},
    {"130", "interrupted; what was finished is kept and named"},
    {0},
};

void help_overview(FILE *f)
{
    int width = help_width(f);
    fputs("Usage: tachy COMMAND [options] [arguments]\n\nNeural networks on video at the speed the "
          "hardware allows.\n\nCommands:\n",
          f);
    for (const struct verb *const *v = cli_verbs(); *v; v++) {
        int at = fprintf(f, "  %s", (*v)->name);
        text_wrap(f, (*v)->summary, at, VERBS_AT, width);
        fputc('\n', f);
    }
    fputs("\nOptions of every command:\n", f);
    for (const struct tachy_option *o = tachy_options(); o->path; o++)
        if (o->verbs & VERB_GENERAL)
            print_option(f, o, width);
    fputs("\nExit status:\n", f);
    for (const struct tachy_example *s = exit_statuses; s->command; s++)
        fprintf(f, "  %-4s %s\n", s->command, s->what);
    fputs("\n`tachy help COMMAND` says more.\n", f);
}

static int run_help(struct cli *c)
{
    if (!c->n_args) {
        help_overview(stdout);
        return STATUS_OK;
    }
    const struct verb *v = cli_verb(c->args[0]);
    if (c->n_args > 1)
        return message_usage("help takes one command; %.60s is one too many", c->args[1]);
    if (!v) {
        message_failed(cli_unknown_verb(c->args[0]));
        return STATUS_USAGE;
    }
    help_verb(stdout, v);
    return STATUS_OK;
}

const struct verb verb_help = {
    .name = "help",
    .usage = "[COMMAND]",
    .summary = "list the commands, or explain one",
    .words = all_verbs,
    .options = VERB_GENERAL,
    .run = run_help,
};
