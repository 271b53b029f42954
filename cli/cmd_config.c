#include "cli.h"

#include <string.h>

static const char *type_name(enum tachy_opt_type type)
{
    static const char *const names[] = {"yes or no", "whole number", "number", "time", "text",
                                        "one of", "rate", "colour", "list", "size"};
    return names[type];
}

// '|' ends a cell of a Markdown table.
static void put_cell(const char *text)
{
    for (; *text; text++)
        printf(*text == '|' ? "\\|" : "%c", *text);
}

// The other keys of a row, below its path.
static void put_keys(const struct tachy_option *o)
{
    for (const struct tachy_key *k = o->keys; k && k->path; k++) {
        printf("<br>`%s`", k->path);
        if (k->yes)
            printf(" (yes: `%s`, no: `%s`)", k->yes, k->no);
    }
}

static void put_meaning(const struct tachy_option *o)
{
    put_cell(o->help);
    const char *why = o->planned ? o->planned : o->needless;
    if (!why)
        return;
    fputs(o->planned ? ". **No effect yet**: " : ". **Not needed here**: ", stdout);
    put_cell(why);
}

static void print_markdown(void)
{
    puts("| key | command line | type | default | meaning |\n|--|--|--|--|--|");
    for (const struct tachy_option *o = tachy_options(); o->path; o++) {
        if (o->command_only)
            continue;
        char left[128], word[32];
        option_left(o, left, sizeof(left));
        printf("| `%s`", o->path);
        put_keys(o);
        fputs(has_name(o) ? " | `" : " | ", stdout);
        put_cell(has_name(o) ? left : "");
        printf("%s | %s", has_name(o) ? "`" : "", type_name(o->type));
        for (int i = 0; o->values && nth_word(o->values, i, word, sizeof(word)); i++)
            printf("%s `%s`", i ? "," : "", word);
        if (o->max >= 1e9)
            printf(" >= %.10g", o->min);
        else if (o->min < o->max)
            printf(" %.10g to %.10g", o->min, o->max);
        printf(" | %s%s%s | ", o->def ? "`" : "", o->def ? o->def : "", o->def ? "`" : "");
        put_meaning(o);
        puts(" |");
    }
}

// Without --all: what a job of the usual task reads, and the command around it.
static uint64_t shown_rows(void)
{
    return TACHY_VERB_COMMAND | TACHY_VERB_PROFILE | (cli_verb("segment")->options & (TACHY_VERB_RUN | TACHY_VERB_TASKS));
}

static int run_config(struct cli *c)
{
    const char *json = tachy_settings_str(c->settings, "run.json");
    bool all = tachy_settings_bool(c->settings, "config.all");
    char *text = NULL;
    int err = cli_take_inputs(c);
    if (err == TACHY_OK && tachy_settings_bool(c->settings, "general.markdown"))
        print_markdown();
    else if (err == TACHY_OK)
        err = json ? tachy_settings_json(&text, c->settings) : tachy_settings_yaml(&text, c->settings, all ? ~UINT64_C(0) : shown_rows());
    if (text && json)
        err = write_text(json, text);
    else if (text)
        fputs(text, stdout); // its reader may leave early
    tachy_free(text);
    return err < 0 ? message_failed(err) : STATUS_OK;
}

const struct verb verb_config = {
    .name = "config",
    .usage = "[options of a task]",
    .summary = "print the effective settings and where each comes from",
    .details =
        "Takes the options and configuration files of every task, runs nothing, and prints the settings that would "
        "apply as a configuration file. A comment names the origin of each value: default, FILE:LINE, or command "
        "line. Settings that only tasks other than segment read are left out unless they are set; --all shows them "
        "too. docs/config.md explains the files.",
    .options = TACHY_VERB_CONFIG | TACHY_VERB_RUN | TACHY_VERB_COMMAND | TACHY_VERB_PROFILE | TACHY_VERB_TASKS,
    .examples = EXAMPLES(
        {"tachy config > my.yaml", "a file to start from"},
        {"tachy config -c my.yaml -crf 20", "the settings when both are given"}),
    .run = run_config,
};
