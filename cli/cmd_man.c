#include "cli.h"

#include <ctype.h>
#include <string.h>

// The manual page in man(7) macros, out of the same tables as the help.

// Escapes text for roff: backslashes, hyphens that are minus signs, and a dot or quote at the start of a line.
static void put_roff(const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", stdout);
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '\'')
            fputs("\\(aq", stdout);
        else if (*text == '^' || *text == '~' || *text == '`')
            fputs(*text == '^' ? "\\(ha" : *text == '~' ? "\\(ti" : "\\(ga", stdout);
        else
            fputc(*text, stdout);
    }
}

static void put_line(const char *macro, const char *text)
{
    printf("%s", macro);
    put_roff(text);
    putchar('\n');
}

static void put_paragraphs(const char *text)
{
    char part[1024];
    while (text && *text) {
        const char *end = strstr(text, "\n\n");
        size_t n = end ? (size_t)(end - text) : strlen(text);
        snprintf(part, sizeof(part), "%.*s", (int)n, text);
        puts(".PP");
        put_line("", part);
        text = end ? end + 2 : NULL;
    }
}

static void put_verbs(void)
{
    puts(".SH COMMANDS");
    for (const struct verb *const *v = cli_verbs(); *v; v++) {
        printf(".SS \"tachy %s ", (*v)->name);
        put_roff((*v)->usage);
        puts("\"");
        printf("Tachy %s: ", (*v)->name);
        put_roff((*v)->summary);
        puts(".");
        put_paragraphs((*v)->details);
    }
}

static void put_option_verbs(const struct tachy_option *o)
{
    if (o->verbs & VERB_GENERAL)
        return;
    fputs("\nOf:", stdout);
    const char *gap = " ";
    for (const struct verb *const *v = cli_verbs(); *v; v++) {
        if (o->verbs & (*v)->options) {
            printf("%s%s", gap, (*v)->name);
            gap = ", ";
        }
    }
    fputs(".", stdout);
}

static void put_options(void)
{
    char left[128], right[512];
    const char *group = NULL;
    puts(".SH OPTIONS\nEvery option takes one dash or two; \\-\\-no\\-NAME turns a yes\\-or\\-no "
         "option off.");
    for (const struct tachy_option *o = tachy_options(); o->path; o++) {
        if (!has_name(o))
            continue;
        if (!group || strcmp(group, o->group))
            printf(".SS %s\n", o->group);
        group = o->group;
        option_left(o, left, sizeof(left));
        option_right(o, right, sizeof(right));
        puts(".TP");
        put_line(".B ", left);
        put_roff(right);
        fputs(".", stdout);
        put_option_verbs(o);
        if (!o->command_only)
            printf("\nIn a file: %s.", o->path);
        putchar('\n');
    }
}

static void put_examples(void)
{
    puts(".SH EXAMPLES");
    for (const struct verb *const *v = cli_verbs(); *v; v++) {
        for (const struct tachy_example *e = (*v)->examples; e && e->command; e++) {
            puts(".TP");
            put_line(".B ", e->command);
            put_roff(e->what);
            puts("");
        }
    }
}

static int run_man(struct cli *c)
{
    printf(".\\\" Made by `tachy man` from the option table.\n"
           ".TH TACHY 1 \"\" \"tachy %s\" \"User Commands\"\n"
           ".SH NAME\ntachy \\- neural networks on video at the speed the hardware allows\n"
           ".SH SYNOPSIS\n.B tachy\n.I COMMAND\n[options] [arguments]\n"
           ".SH DESCRIPTION\nTachy runs neural networks on video, cuts people out of it, and "
           "says at the end of each run what limited it. Option names are FFmpeg\\(aqs where "
           "FFmpeg has one.\n",
           tachy_version());
    put_verbs();
    put_options();
    puts(".SH FILES\nConfiguration files (\\-c) are YAML: the dotted names above as nested keys. "
         "\\(lqtachy config\\(rq prints one to start from, with "
         "more settings than have a name above.\n"
         ".SH EXIT STATUS");
    for (const struct tachy_example *s = exit_statuses; s->command; s++)
        printf(".TP\n%s\n%c%s.\n", s->command, toupper((unsigned char)*s->what), s->what + 1);
    put_examples();
    puts(".SH SEE ALSO\n.BR ffmpeg (1),\n.BR ffprobe (1)");
    return STATUS_OK;
}

const struct verb verb_man = {
    .name = "man",
    .usage = "| man -l -",
    .summary = "print the manual page",
    .options = VERB_GENERAL,
    .run = run_man,
};
