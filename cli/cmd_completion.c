#include "cli.h"

#include <string.h>

// Completion scripts out of the option table. Words come from tables of this program: names,
// options and allowed values need no quoting; only help sentences do.

static bool is_file_option(const struct tachy_option *o)
{
    return o->arg && (strstr(o->arg, "FILE") || strstr(o->arg, "DIR"));
}

// A profile takes the options of what it runs as well.
static unsigned options_of(const struct verb *v)
{
    return v->options | (v == &verb_profile ? TACHY_VERB_RUN | TACHY_VERB_COMMAND | TACHY_VERB_TASKS : 0);
}

static bool is_offered(const struct tachy_option *o, const struct verb *v)
{
    return (o->verbs & options_of(v)) && has_name(o);
}

// "-i --input", blank separated, in the forms that help shows.
static void put_names(const struct tachy_option *o, const char *sep)
{
    if (o->letter)
        printf("-%c%s", o->letter, o->name ? sep : "");
    if (o->name)
        printf("%s%s", o->one_dash ? "-" : "--", o->name);
}

static void put_words(const char *words)
{
    for (; words && *words; words++)
        putchar(*words == '|' ? ' ' : *words);
}

static void bash_options(const struct verb *v)
{
    printf("    %s) options='", v->name);
    for (const struct tachy_option *o = tachy_options(); o->path; o++) {
        if (!is_offered(o, v))
            continue;
        put_names(o, " ");
        if (o->type == TACHY_OPT_BOOL && o->name && !o->command_only && !o->one_dash)
            printf(" --no-%s", o->name);
        putchar(' ');
    }
    fputs("'; words='", stdout);
    put_words(v->words);
    puts("' ;;");
}

static void bash_values(void)
{
    for (const struct tachy_option *o = tachy_options(); o->path; o++) {
        if (o->type == TACHY_OPT_BOOL || o->bare || !has_name(o))
            continue;
        fputs("    ", stdout);
        put_names(o, "|");
        fputs(") ", stdout);
        if (o->values) {
            fputs("COMPREPLY=($(compgen -W '", stdout);
            put_words(o->values);
            puts("' -- \"$word\")); return ;;");
        } else if (is_file_option(o)) {
            puts("compopt -o default; COMPREPLY=(); return ;;");
        } else {
            puts("COMPREPLY=(); return ;;");
        }
    }
}

static void print_bash(void)
{
    fputs("# bash completion of tachy; made by `tachy completion bash`\n"
          "_tachy() {\n"
          "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
          "  local verb='' options='' words='' i\n"
          "  # -c:v is cut at the colon\n"
          "  if [[ $before == : && COMP_CWORD -ge 3 ]]; then before=-c:v; fi\n"
          "  case $before in\n",
          stdout);
    bash_values();
    fputs("  esac\n"
          "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "    case ${COMP_WORDS[i]} in\n      ",
          stdout);
    for (const struct verb *const *v = cli_verbs(); *v; v++)
        printf("%s%s", (*v)->name, v[1] ? "|" : "");
    fputs(") verb=${COMP_WORDS[i]}; break ;;\n"
          "    esac\n"
          "  done\n"
          "  case $verb in\n",
          stdout);
    for (const struct verb *const *v = cli_verbs(); *v; v++)
        bash_options(*v);
    fputs("    *) words='", stdout);
    for (const struct verb *const *v = cli_verbs(); *v; v++)
        printf("%s ", (*v)->name);
    puts("'; options='--help --version' ;;\n"
         "  esac\n"
         "  if [[ $word == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
         "  elif [[ -n $words ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "  else\n"
         "    compopt -o default; COMPREPLY=()\n"
         "  fi\n"
         "}\n"
         "complete -F _tachy tachy");
}

// A help sentence inside '...' of zsh, within [...] of _arguments.
static void put_zsh_help(const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr("[]:\\", *text))
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static void zsh_form(const struct tachy_option *o, const char *dashes, const char *name, int len)
{
    char word[64];
    const char *value = option_value(o, word, sizeof(word));
    fputs("        '*", stdout);
    fputs(dashes, stdout);
    for (int i = 0; i < len; i++)
        printf(name[i] == ':' ? "\\:" : "%c", name[i]);
    bool gnu = value && dashes[1]; // --name VALUE and --name=VALUE
    printf("%s[", o->bare ? "=-" : gnu ? "=" : "");
    put_zsh_help(o->help);
    putchar(']');
    if (value && o->values) {
        printf("%s:value:(", o->bare ? ":" : "");
        put_words(o->values);
        putchar(')');
    } else if (value) {
        printf("%s:value:%s", o->bare ? ":" : "", is_file_option(o) ? "_files" : "");
    }
    puts("' \\");
}

static void zsh_option(const struct tachy_option *o)
{
    if (o->letter)
        zsh_form(o, "-", (char[]){o->letter, '\0'}, 1);
    if (o->name)
        zsh_form(o, o->one_dash ? "-" : "--", o->name, (int)strlen(o->name));
}

static void print_zsh(void)
{
    puts("#compdef tachy\n"
         "# zsh completion of tachy; made by `tachy completion zsh`\n"
         "_tachy() {\n"
         "  local -a verbs\n"
         "  verbs=(");
    for (const struct verb *const *v = cli_verbs(); *v; v++) {
        printf("    '%s:", (*v)->name);
        put_zsh_help((*v)->summary);
        puts("'");
    }
    puts("  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe command verbs\n"
         "    return\n"
         "  fi\n"
         "  shift words; (( CURRENT-- ))\n"
         "  case $words[1] in");
    for (const struct verb *const *v = cli_verbs(); *v; v++) {
        printf("    %s)\n      _arguments \\\n", (*v)->name);
        for (const struct tachy_option *o = tachy_options(); o->path; o++)
            if (is_offered(o, *v))
                zsh_option(o);
        if ((*v)->words) {
            fputs("        '1:what:(", stdout);
            put_words((*v)->words);
            puts(")' \\");
        }
        puts("        '*:file:_files'\n      ;;");
    }
    puts("  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _tachy ]]; then _tachy \"$@\"; else compdef _tachy tachy; fi");
}

// A help sentence inside '...' of fish.
static void put_fish_help(const char *text)
{
    for (; *text; text++)
        printf(*text == '\'' || *text == '\\' ? "\\%c" : "%c", *text);
}

static void fish_option(const struct verb *v, const struct tachy_option *o)
{
    printf("complete -c tachy -n '__fish_seen_subcommand_from %s'", v->name);
    if (o->letter)
        printf(" -s %c", o->letter);
    if (o->name)
        printf(" %s %s", o->one_dash ? "-o" : "-l", o->name);
    if (o->values) {
        fputs(" -x -a '", stdout);
        put_words(o->values);
        putchar('\'');
    } else if (o->type != TACHY_OPT_BOOL && !o->bare) {
        fputs(is_file_option(o) ? " -r -F" : " -x", stdout);
    }
    fputs(" -d '", stdout);
    put_fish_help(o->help);
    puts("'");
}

static void print_fish(void)
{
    puts("# fish completion of tachy; made by `tachy completion fish`");
    for (const struct verb *const *v = cli_verbs(); *v; v++) {
        printf("complete -c tachy -n __fish_use_subcommand -f -a %s -d '", (*v)->name);
        put_fish_help((*v)->summary);
        puts("'");
        if ((*v)->words) {
            printf("complete -c tachy -n '__fish_seen_subcommand_from %s' -a '", (*v)->name);
            put_words((*v)->words);
            puts("'");
        }
        for (const struct tachy_option *o = tachy_options(); o->path; o++)
            if (is_offered(o, *v))
                fish_option(*v, o);
    }
}

static int run_completion(struct cli *c)
{
    const char *shell = c->n_args == 1 ? c->args[0] : "";
    if (!strcmp(shell, "bash"))
        print_bash();
    else if (!strcmp(shell, "zsh"))
        print_zsh();
    else if (!strcmp(shell, "fish"))
        print_fish();
    else
        return message_usage("name one shell: tachy completion bash, zsh or fish");
    return STATUS_OK;
}

const struct verb verb_completion = {
    .name = "completion",
    .usage = "bash|zsh|fish",
    .summary = "print a completion script for a shell",
    .words = "bash|zsh|fish",
    .options = VERB_GENERAL,
    .examples = EXAMPLES(
        {"source <(tachy completion bash)", "completion in this shell"},
        {"tachy completion fish > ~/.config/fish/completions/tachy.fish", "for good, in fish"}),
    .run = run_completion,
};
