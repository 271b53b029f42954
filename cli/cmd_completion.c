#include "cli.h"

#include <string.h>

// The shells' scripts ask the command itself for the candidates at the cursor (complete.c).

static const char bash[] =
    "_tachy() {\n"
    "  local word what words=(\"${COMP_WORDS[@]:1:COMP_CWORD}\")\n"
    "  COMPREPLY=()\n"
    "  # bash cuts --mode=mask into three words\n"
    "  [[ ${words[-1]} == = ]] && words[-1]=''\n"
    "  [[ ${#words[@]} -ge 3 && ${words[-2]} == = ]] && unset 'words[-2]'\n"
    "  while IFS=$'\\t' read -r word what; do\n"
    "    if [[ $word == :files ]]; then compopt -o default; else COMPREPLY+=(\"$word\"); fi\n"
    "  done < <(\"${1/#\\~/$HOME}\" completion words -- \"${words[@]}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _tachy tachy\n";

static const char zsh[] =
    "_tachy() {\n"
    "  local -a found\n"
    "  local line files\n"
    "  for line in \"${(@f)$(${~words[1]} completion words -- \"${(@Q)words[2,CURRENT]}\" 2>/dev/null)}\"; do\n"
    "    if [[ $line == :files ]]; then\n"
    "      files=yes\n"
    "    elif [[ -n $line ]]; then\n"
    "      found+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\")\n"
    "    fi\n"
    "  done\n"
    "  (( $#found )) && _describe tachy found\n"
    "  [[ -n $files ]] && _files\n"
    "}\n"
    "if [[ $funcstack[1] == _tachy ]]; then _tachy \"$@\"; else compdef _tachy tachy; fi\n";

static const char fish[] =
    "function __tachy_words\n"
    "  set -l words (commandline -opc) (commandline -ct)\n"
    "  for line in ($words[1] completion words -- $words[2..-1] 2>/dev/null)\n"
    "    if test \"$line\" = :files\n"
    "      __fish_complete_path (commandline -ct)\n"
    "    else\n"
    "      echo $line\n"
    "    end\n"
    "  end\n"
    "end\n"
    "complete -c tachy -f -a '(__tachy_words)'\n";

// A candidate for the last word, which is `to`, in a line with what it means.
static void print(void *to, const char *word, const char *what)
{
    if (!strncmp(word, to, strlen(to)))
        printf("%s\t%s\n", word, what);
}

static int run_completion(struct cli *c)
{
    static const struct {
        const char *shell, *head, *script;
    } scripts[] = {{"bash", "", bash}, {"zsh", "#compdef tachy\n", zsh}, {"fish", "", fish}};
    const char *what = c->n_args ? c->args[0] : "";
    if (!strcmp(what, "words") && c->n_args > 1) {
        if (complete_words(c->args + 1, c->n_args - 1, print, (char *)(uintptr_t)c->args[c->n_args - 1]))
            puts(":files");
        return STATUS_OK;
    }
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]) && c->n_args == 1; i++)
        if (!strcmp(what, scripts[i].shell)) {
            printf("%s# %s completion of tachy; made by `tachy completion %s`\n%s", scripts[i].head, what, what,
                   scripts[i].script);
            return STATUS_OK;
        }
    return message_usage("name one shell: tachy completion bash, zsh or fish");
}

const struct verb verb_completion = {
    .name = "completion",
    .usage = "bash|zsh|fish",
    .summary = "print a completion script for a shell",
    .details =
        "The script asks the command: completion words -- WORDS... prints a line for each word that can replace the "
        "last one, with its meaning after a tab, and :files if a file name can.",
    .words = "bash|zsh|fish",
    .options = VERB_GENERAL,
    .examples = EXAMPLES(
        {"source <(tachy completion bash)", "completion in this shell"},
        {"tachy completion fish > ~/.config/fish/completions/tachy.fish", "permanently, in fish"}),
    .run = run_completion,
};
